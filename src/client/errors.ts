/**
 * The one class of errors that the client throws, and the text of whatever a handler throws.
 *
 * An error's own text carries no payload and no token: it is made of the request's line, the status, the code and
 * what the server says of its first field, or its `detail`, which promise the same.
 */
import { MAX_ERROR_CHARS } from './limits.ts'

/** The API's codes; `network`: no answer of the API came; `timeout`: none came in time. */
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

/** A part of a request or of a payload that was refused, and what is wrong with it. */
export type FieldError = { readonly path: string; readonly message: string }

/** What an error may tell beside its code. */
export type ErrorDetails = {
  /** The HTTP status, when there was an answer. */
  readonly status?: number | undefined
  /** The request's id, to find it in the server's log. */
  readonly requestId?: string | undefined
  /** How long the server asked to wait, in milliseconds, capped at a minute. */
  readonly retryAfterMs?: number | undefined
  /** `stale`: why the token is not the live one. */
  readonly reason?: 'superseded' | 'released' | 'lapsed' | undefined
  /** `wrong_state`: the state that the job is in. */
  readonly state?: 'pending' | 'active' | 'scheduled' | 'dead' | undefined
  /** `invalid`: the fields. */
  readonly errors?: readonly FieldError[] | undefined
  /** What it came of, when it is not the API's: what `fetch` threw, what a schema threw. */
  readonly cause?: unknown
}

/**
 * Whatever goes wrong between a caller and the queue.
 *
 * @example
 * try {
 *   await emails.complete(job)
 * } catch (error) {
 *   if (error instanceof EchoMQError && error.code === 'stale') undo(job) // somebody else has it by now
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
    const retryable = /^(network|timeout|overloaded|upstream|internal)$/.test(code)
    Object.assign(this, { code, retryable }, details)
  }
}

/** Whether a request that failed like this may have been carried out all the same. */
export const mayHaveRun = (error: EchoMQError): boolean => error.retryable && error.code !== 'overloaded'

/** Whether somebody else has the job, or nobody any more. */
export const isLost = ({ code }: EchoMQError): boolean => code === 'stale' || code === 'gone'

/** The text of anything that was thrown. Never throws itself, whatever it meets. */
export const errorText = (thrown: unknown): string => {
  let text: unknown
  try {
    text = typeof thrown === 'object' && !(thrown instanceof Error) ? JSON.stringify(thrown) : String(thrown)
  } catch {
    text = 'unreadable error'
  }
  // The cut may leave half of a character, and the server takes no halves.
  return String(text).slice(0, MAX_ERROR_CHARS).toWellFormed()
}
