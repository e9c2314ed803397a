import { describe, expect, it } from 'vitest'
import { requestIdOf } from '../../src/http/request-id.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('a request id', () => {
  it.each(['a', 'A:z0._-', 'x'.repeat(128), '4bf92f3577b34da6a3ce929d0e0e4736'])(
    'is the caller’s: %s',
    (sent) => {
      expect(requestIdOf(new Headers({ 'X-Request-Id': sent }))).toBe(sent)
    },
  )

  it.each(['', 'a b', 'a"', '<script>', 'x'.repeat(129), 'a,b', 'é', 'a\tb'])(
    'is a fresh one in place of %j',
    (sent) => {
      expect(requestIdOf(new Headers({ 'X-Request-Id': sent }))).toMatch(UUID)
    },
  )

  it('is a fresh one when the caller sent none, or two', () => {
    const two = new Headers([
      ['X-Request-Id', 'a'],
      ['X-Request-Id', 'b'],
    ])
    expect(requestIdOf(two)).toMatch(UUID)
    expect(requestIdOf(new Headers())).toMatch(UUID)
    expect(requestIdOf(new Headers())).not.toBe(requestIdOf(new Headers()))
  })
})
