/**
 * Errors as the caller sees them: problem details of RFC 9457.
 *
 * Whatever is said here goes to the caller, so a `detail` is written for it by us: it never quotes a payload, a
 * token, a key, a script or what an upstream answered. The status comes from the table of errors alone.
 *
 * `type` is a reference with a full path, to the section of the error in the document that each deployment serves
 * itself. As a text it is the same everywhere, so it can be compared; and it needs no domain that could be lost.
 */
import { ERRORS, type ErrorCode } from '../errors.ts'
import type { JobState } from '../protocol/states.ts'

/** A field of the request that was refused: where it stands (`jobs.3.delayMs`) and what is wrong with it. */
export type FieldError = { readonly path: string; readonly message: string }

/** What some of the errors tell beside their code. */
export type ProblemExtras = {
  /** `invalid`: the fields. */
  readonly errors?: readonly FieldError[]
  /** `stale`: why the token is not the live one. */
  readonly reason?: 'superseded' | 'released' | 'lapsed'
  /** `wrong_state`: the state the job is in. */
  readonly state?: JobState
  /** `overloaded` and `upstream`: when to try again, in seconds; default 1. */
  readonly retryAfterSeconds?: number
  /** `method_not_allowed`: the methods that are. */
  readonly allow?: readonly string[]
}

/** An error on its way to the caller. */
export type Problem = ProblemExtras & { readonly code: ErrorCode; readonly detail: string }

/** A refusal found in the HTTP layer, thrown there and nowhere else; the app answers it as a problem. */
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
      // Whole seconds, rounded up: a caller that comes too early only meets the same error again.
      headers['Retry-After'] = String(Math.ceil(problem.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS))
      break
  }
  return headers
}

/**
 * The answer to a request that failed. The headers that every answer has (`X-Request-Id`, `Cache-Control`) are
 * added where all answers pass.
 */
export const problemResponse = (problem: Problem, requestId: string): Response => {
  const { code, detail, errors, reason, state } = problem
  const { status, title } = ERRORS[code]
  // JSON leaves out what is undefined.
  const body = { type: `/docs#error-${code}`, title, status, detail, code, requestId, errors, reason, state }
  return new Response(JSON.stringify(body), { status, headers: headersOf(problem) })
}
