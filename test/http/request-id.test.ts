import { describe, expect, test } from 'vitest'
import { requestIdOf } from '../../src/http/request-id.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('a request id', () => {
  test.each(['a', 'A:z0._-', 'x'.repeat(128), '4bf92f3577b34da6a3ce929d0e0e4736'])(
    'the request id of the caller is used: %s',
    (sent) => {
      expect(requestIdOf(new Headers({ 'X-Request-Id': sent }))).toBe(sent)
    },
  )

  test.each(['', 'a b', 'a"', '<script>', 'x'.repeat(129), 'a,b', 'é', 'a\tb'])(
    'a new request id replaces %j',
    (sent) => {
      expect(requestIdOf(new Headers({ 'X-Request-Id': sent }))).toMatch(UUID)
    },
  )

  test('a new request id is used when the caller sent none or two', () => {
    const two = new Headers([
      ['X-Request-Id', 'a'],
      ['X-Request-Id', 'b'],
    ])
    expect(requestIdOf(two)).toMatch(UUID)
    expect(requestIdOf(new Headers())).toMatch(UUID)
    expect(requestIdOf(new Headers())).not.toBe(requestIdOf(new Headers()))
  })
})
