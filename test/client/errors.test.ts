/** The class of errors, the text of thrown values, and the limits that the client knows. */
import { describe, expect, expectTypeOf, test } from 'vitest'
import { errorText } from '../../src/client/errors.ts'
import { deadLetter, EchoMQError, type ErrorCode, retryIn } from '../../src/client/index.ts'
import * as ownLimits from '../../src/client/limits.ts'
import { outcomeOf } from '../../src/client/outcomes.ts'
import type { ErrorCode as ApiErrorCode } from '../../src/errors.ts'
import * as limits from '../../src/protocol/limits.ts'

test("the codes are the API's, `network` and `timeout`", () => {
  expectTypeOf<ErrorCode>().toEqualTypeOf<ApiErrorCode | 'network' | 'timeout'>()
})

test("the limits of the client equal the API's limits of the same name", () => {
  const shared = Object.entries(ownLimits).filter(([name]) => name in limits)
  expect(shared.length).toBeGreaterThan(8)
  expect(limits).toMatchObject(Object.fromEntries(shared))
})

test("the largest request is below the API's limit of a body", () => {
  expect(ownLimits.MAX_REQUEST_BYTES).toBeLessThan(limits.DEFAULT_LIMITS.maxBodyBytes)
})

describe('the text of a thrown value', () => {
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
  ])('errorText case %# has the expected text', (thrown, text) => {
    expect(errorText(thrown)).toBe(text)
  })

  test('the text of an error is cut to 2048 characters without splitting one', () => {
    expect(errorText('x'.repeat(200_000))).toBe('x'.repeat(2048))
    const cut = errorText(`${'x'.repeat(2047)}\u{1f600}`)
    expect(cut).toHaveLength(2048)
    expect(cut.isWellFormed()).toBe(true)
    expect(errorText('\ud800').isWellFormed()).toBe(true)
  })
})

describe('errors that a handler may throw', () => {
  test('retryIn is a retry with its delay and its cause', () => {
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
  ])('retryIn(%d) has a delay that the server accepts', (ms, delayMs) => {
    expect(outcomeOf(retryIn(ms))).toMatchObject({ delayMs })
  })

  test.each([Number.NaN, 'soon', undefined])(
    'retryIn(%s) throws, so the job is retried as after any error',
    (ms) => {
      const refused = expect.objectContaining({ code: 'invalid', message: 'ms must be a number' })
      expect(() => retryIn(ms as number)).toThrow(refused)
    },
  )

  test('deadLetter is a fail with its reason as the cause', () => {
    expect(outcomeOf(deadLetter('no such address'))).toEqual({ move: 'fail', error: 'no such address' })
    const reason = new RangeError('out')
    expect(outcomeOf(deadLetter(reason))).toEqual({ move: 'fail', error: 'RangeError: out' })
    expect(deadLetter(reason).cause).toBe(reason)
  })

  test('a deadLetter of another copy of the package has the same outcome', async () => {
    const address: string = '../../src/client/outcomes.ts?copy'
    const copy: typeof import('../../src/client/outcomes.ts') = await import(address)
    expect(copy.retryIn).not.toBe(retryIn)
    expect(outcomeOf(copy.deadLetter('no'))).toEqual({ move: 'fail', error: 'no' })
  })
})
