/**
 * The one class of errors that the client throws, the checks that reject an argument before anything is sent, and the
 * text of anything that a handler throws.
 *
 * The text of an error contains no payload and no token. It consists of the path of the request, the code, and the
 * server's sentence about the first wrong field (or its `detail`), which contain neither. The error of a check names
 * the argument and the rule, and never the value.
 */
import type { JobState } from './jobs.ts'
import { MAX_ERROR_CHARS } from './limits.ts'

/** The API's codes; `network`: no response of the API arrived; `timeout`: none arrived in time. */
export type ErrorCode =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'stale'
  | 'wrong_state'
  | 'locked'
  | 'gone'
  | 'internal'
  | 'too_large'
  | 'unsupported_media_type'
  | 'wrong_kind'
  | 'overloaded'
  | 'upstream'
  | 'misconfigured'
  | 'wire_version'
  | 'network'
  | 'timeout'

/** One rejected part of a request or a payload, and what is wrong with it. */
export type FieldError = { readonly path: string; readonly message: string }

/** What an error may carry beside its code. */
export type ErrorDetails = {
  /** The HTTP status, when there was a response. */
  readonly status?: number | undefined
  /** The id of the request in the server's log. */
  readonly requestId?: string | undefined
  /** How long the server asks the client to wait, in milliseconds; at most a minute. */
  readonly retryAfterMs?: number | undefined
  /** `stale`: why the token is stale. */
  readonly reason?: 'superseded' | 'released' | 'lapsed' | undefined
  /** `wrong_state`: the state of the job. */
  readonly state?: JobState | undefined
  /** `invalid`: the rejected fields. */
  readonly errors?: readonly FieldError[] | undefined
  /** The error that `fetch` or a schema threw, when one of them did. */
  readonly cause?: unknown
}

/**
 * The error of every verb.
 *
 * @example
 * try {
 *   await emails.complete(job)
 * } catch (error) {
 *   if (error instanceof EchoMQError && error.code === 'stale') undo(job) // another consumer owns the job
 * }
 */
export class EchoMQError extends Error {
  override readonly name = 'EchoMQError'
  // Assigned together.
  declare readonly code: ErrorCode
  /** Whether the same call may succeed later. */
  declare readonly retryable: boolean
  declare readonly status: ErrorDetails['status']
  declare readonly requestId: ErrorDetails['requestId']
  declare readonly retryAfterMs: ErrorDetails['retryAfterMs']
  declare readonly reason: ErrorDetails['reason']
  declare readonly state: ErrorDetails['state']
  declare readonly errors: ErrorDetails['errors']

  constructor(code: ErrorCode, text: string, details?: ErrorDetails) {
    super(text)
    const retryable = /^(network|timeout|overloaded|upstream|internal)$/
    Object.assign(this, { code, retryable: retryable.test(code) }, details)
  }
}

/** @throws {EchoMQError} unless the rule is kept. */
export function must(isKept: boolean, name: string, rule: string, code: ErrorCode = 'invalid'): void {
  if (!isKept) throw new EchoMQError(code, `${name} must ${rule}`)
}

/** @throws {EchoMQError} unless the text matches. */
export function mustMatch(name: string, text: string | undefined, rule: RegExp, code?: ErrorCode): void {
  must(rule.test(text ?? ''), name, `match ${rule}`, code)
}

/** @throws {EchoMQError} unless the value is an integer from `least` to `most`. */
export function mustBeWithin(name: string, value: number, least: number, most: number): void {
  must(
    Number.isInteger(value) && value >= least && value <= most,
    name,
    `be an integer from ${least} to ${most}`,
  )
}

/** Whether the server may have carried out a request that failed with this error. */
export function mayHaveRun(error: EchoMQError): boolean {
  return error.retryable && error.code !== 'overloaded'
}

/** Whether the caller no longer owns the job. */
export function isLost({ code }: EchoMQError): boolean {
  return code === 'stale' || code === 'gone'
}

/** The text of anything that was thrown. Never throws itself. */
export function errorText(thrown: unknown): string {
  let text: unknown
  try {
    text = typeof thrown === 'object' && !(thrown instanceof Error) ? JSON.stringify(thrown) : String(thrown)
  } catch {
    text = 'unreadable error'
  }
  // The cut can split a character in two, and the server rejects half a character.
  return String(text).slice(0, MAX_ERROR_CHARS).toWellFormed()
}
