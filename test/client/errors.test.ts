/** The one class of errors, the text of whatever is thrown, and the limits that the client knows. */
import { describe, expect, expectTypeOf, test } from 'vitest'
import { errorText } from '../../src/client/errors.ts'
import { deadLetter, EchoMQError, type ErrorCode, retryIn } from '../../src/client/index.ts'
import * as ownLimits from '../../src/client/limits.ts'
import { outcomeOf } from '../../src/client/outcomes.ts'
import type { ErrorCode as ApiErrorCode } from '../../src/errors.ts'
import * as limits from '../../src/protocol/limits.ts'

test("the codes are the API's, and two of the client's own", () => {
  expectTypeOf<ErrorCode>().toEqualTypeOf<ApiErrorCode | 'network' | 'timeout'>()
})

test("the limits that the API has too are the API's", () => {
  const shared = Object.entries(ownLimits).filter(([name]) => name in limits)
  expect(shared.length).toBeGreaterThan(8)
  expect(limits).toMatchObject(Object.fromEntries(shared))
})

test('the largest request fits into a body that the API takes', () => {
  expect(ownLimits.MAX_REQUEST_CHARS * 3).toBeLessThan(limits.DEFAULT_LIMITS.maxBodyBytes)
})

describe('the text of what was thrown', () => {
  const cyclic: unknown[] = []
  cyclic.push(cyclic)
  const hostile = {
    toJSON: () => {
      throw new Error('no')
    },
  }
  const mute = Object.defineProperty(new Error('x'), 'message', {
    get: () => {
      throw new Error('no')
    },
  })
  const proxy = new Proxy({}, { get: () => expect.fail(), getPrototypeOf: () => null })

  test.each([
    [new TypeError('no'), 'TypeError: no'],
    [new EchoMQError('stale', 'late'), 'EchoMQError: late'],
    [new DOMException('over', 'AbortError'), 'AbortError: over'],
    ['text', 'text'],
    ['', ''],
    [undefined, 'undefined'],
    [null, 'null'],
    [0, '0'],
    [1n, '1'],
    [Symbol('s'), 'Symbol(s)'],
    [{ a: 1 }, '{"a":1}'],
    [[1, 2], '[1,2]'],
    [cyclic, 'unreadable error'],
    [hostile, 'unreadable error'],
    [mute, 'unreadable error'],
    [proxy, 'unreadable error'],
    [{ big: 1n }, 'unreadable error'],
  ])('%#', (thrown, text) => {
    expect(errorText(thrown)).toBe(text)
  })

  test('is no longer than the server keeps, and whole', () => {
    expect(errorText('x'.repeat(200_000))).toBe('x'.repeat(2048))
    const cut = errorText(`${'x'.repeat(2047)}\u{1f600}`)
    expect(cut).toHaveLength(2048)
    expect(cut.isWellFormed()).toBe(true)
    expect(errorText('\ud800').isWellFormed()).toBe(true)
  })
})

describe('what a handler may throw', () => {
  test('retryIn', () => {
    const error = retryIn(5_000)
    expect(error).toBeInstanceOf(Error)
    expect(outcomeOf(error)).toEqual({ move: 'retry', error: 'retryIn 5000', delayMs: 5_000 })
    const cause = new Error('busy')
    expect(retryIn(1, cause)).toMatchObject({ cause, message: 'Error: busy' })
  })

  test.each([
    [0.4, 0],
    [1.5, 2],
    [-1, 0],
    [Number.POSITIVE_INFINITY, limits.MAX_DELAY_MS],
    [limits.MAX_DELAY_MS + 1, limits.MAX_DELAY_MS],
  ])('retryIn(%d) is what the server takes', (ms, delayMs) => {
    expect(outcomeOf(retryIn(ms))).toMatchObject({ delayMs })
  })

  test.each([Number.NaN, 'soon', undefined])(
    'retryIn(%s) throws, so the job is tried again like after any error',
    (ms) => {
      const refused = expect.objectContaining({ code: 'invalid', message: 'ms must be a number' })
      expect(() => retryIn(ms as number)).toThrow(refused)
    },
  )

  test('deadLetter', () => {
    expect(outcomeOf(deadLetter('no such address'))).toEqual({ move: 'fail', error: 'no such address' })
    const reason = new RangeError('out')
    expect(outcomeOf(deadLetter(reason))).toEqual({ move: 'fail', error: 'RangeError: out' })
    expect(deadLetter(reason).cause).toBe(reason)
  })

  test('means the same when it comes from another copy of the package', async () => {
    const address: string = '../../src/client/outcomes.ts?copy'
    const copy: typeof import('../../src/client/outcomes.ts') = await import(address)
    expect(copy.retryIn).not.toBe(retryIn)
    expect(outcomeOf(copy.deadLetter('no'))).toEqual({ move: 'fail', error: 'no' })
  })
})
