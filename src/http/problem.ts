/**
 * Errors as callers see them: problem details of RFC 9457.
 *
 * A `detail` never contains a payload, a token, a key, a script or the text of an upstream response. The status always
 * comes from the table of errors.
 *
 * `type` is the path of the error's section in the reference that each deployment serves. It is the same text in all
 * deployments, so that clients can compare it.
 */
import { ERRORS, type ErrorCode } from '../errors.ts'
import type { JobState } from '../protocol/states.ts'

/** A wrong field of the request: its path (such as `claim.limit`) and what it must be. */
export type FieldError = { readonly path: string; readonly message: string }

/** The extra fields of some errors. */
export type ProblemExtras = {
  /** `invalid`: the fields. */
  readonly errors?: readonly FieldError[]
  /** `stale`: why the token is rejected. */
  readonly reason?: 'superseded' | 'released' | 'lapsed'
  /** `wrong_state`: the state of the job. */
  readonly state?: JobState
  /** `overloaded` and `upstream`: seconds until the caller should try again; default 1. */
  readonly retryAfterSeconds?: number
  /** `method_not_allowed`: the allowed methods. */
  readonly allow?: readonly string[]
}

/** An error for the caller. */
export type Problem = ProblemExtras & { readonly code: ErrorCode; readonly detail: string }

/** A rejected request. Only the HTTP layer throws it; the app turns it into a response. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError'
  readonly problem: Problem

  /** @param detail One sentence for the caller. */
  constructor(code: ErrorCode, detail: string, extras: ProblemExtras = {}) {
    super(`${code}: ${detail}`)
    this.problem = { ...extras, code, detail }
  }
}

const DEFAULT_RETRY_AFTER_SECONDS = 1

const headersOf = (problem: Problem): Record<string, string> => {
  const headers: Record<string, string> = { 'Content-Type': 'application/problem+json' }
  switch (problem.code) {
    case 'unauthorized':
      headers['WWW-Authenticate'] = 'Bearer'
      break
    case 'method_not_allowed':
      headers['Allow'] = (problem.allow ?? []).join(', ')
      break
    case 'overloaded':
    case 'upstream':
      // Rounded up to whole seconds: a caller that is too early only gets the same error again.
      headers['Retry-After'] = String(Math.ceil(problem.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS))
      break
  }
  return headers
}

/** The response to a rejected request. The app adds the headers of every response. */
export const problemResponse = (problem: Problem, requestId: string): Response => {
  const { code, detail, errors, reason, state } = problem
  const { status, title } = ERRORS[code]
  // JSON omits undefined fields.
  const body = { type: `/docs#error-${code}`, title, status, detail, code, requestId, errors, reason, state }
  return new Response(JSON.stringify(body), { status, headers: headersOf(problem) })
}
