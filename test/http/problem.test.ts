import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode } from '../../src/errors.ts'
import { ProblemError, problemResponse } from '../../src/http/problem.ts'

/** The table of the HTTP contract. */
const STATUSES: Record<ErrorCode, number> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  stale: 409,
  wrong_state: 409,
  locked: 409,
  gone: 410,
  internal: 500,
  too_large: 413,
  unsupported_media_type: 415,
  wrong_kind: 422,
  overloaded: 429,
  upstream: 503,
  misconfigured: 503,
  wire_version: 503,
}
const CODES = Object.keys(STATUSES) as ErrorCode[]

describe('the table of errors', () => {
  test('every error code has the status of the contract', () => {
    expect(Object.fromEntries(Object.entries(ERRORS).map(([code, { status }]) => [code, status]))).toEqual(
      STATUSES,
    )
  })
})

describe('a problem', () => {
  test.each(CODES)('the problem %s has its status and the shape of problem details', async (code) => {
    const response = problemResponse({ code, detail: 'Why.' }, 'r-1')
    expect(response.status).toBe(STATUSES[code])
    expect(response.headers.get('Content-Type')).toBe('application/problem+json')
    expect(await response.json()).toEqual({
      type: `/docs#error-${code}`,
      title: ERRORS[code].title,
      status: STATUSES[code],
      detail: 'Why.',
      code,
      requestId: 'r-1',
    })
  })

  test('a problem contains its fields, reason and state if it has any', async () => {
    const errors = [{ path: 'jobs.3.delayMs', message: 'Too far ahead.' }]
    const body = async (error: ProblemError) => problemResponse(error.problem, 'r-1').json()
    expect(await body(new ProblemError('invalid', 'Why.', { errors }))).toMatchObject({ errors })
    expect(await body(new ProblemError('stale', 'Why.', { reason: 'lapsed' }))).toMatchObject({
      reason: 'lapsed',
    })
    expect(await body(new ProblemError('wrong_state', 'Why.', { state: 'active' }))).toMatchObject({
      state: 'active',
    })
  })

  test('a problem has the headers of its code and no others', () => {
    const headers = (code: ErrorCode, extras = {}) => {
      const all = Object.fromEntries(problemResponse({ code, detail: 'Why.', ...extras }, 'r-1').headers)
      const { 'content-type': _, ...others } = all
      return others
    }
    const rest = { retryAfterSeconds: 2.1, allow: ['GET', 'POST'] }
    expect(headers('unauthorized', rest)).toEqual({ 'www-authenticate': 'Bearer' })
    expect(headers('method_not_allowed', rest)).toEqual({ allow: 'GET, POST' })
    expect(headers('overloaded', rest)).toEqual({ 'retry-after': '3' })
    expect(headers('upstream')).toEqual({ 'retry-after': '1' })
    for (const code of ['invalid', 'internal', 'misconfigured', 'wire_version', 'gone'] as const) {
      expect(headers(code, rest)).toEqual({})
    }
  })

  test('a ProblemError has its code in its message', () => {
    const error = new ProblemError('forbidden', 'Why.')
    expect(error).toBeInstanceOf(Error)
    expect(error.name).toBe('ProblemError')
    expect(error.message).toBe('forbidden: Why.')
  })
})
