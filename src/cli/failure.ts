/**
 * How a command fails: the text on stderr and the exit code. The table of exit codes is closed: an error code without a
 * row does not compile.
 */
import { EchoMQError, type ErrorCode } from '../client/index.ts'
import { plain } from './output.ts'

export const EXIT = {
  /** Done. */
  ok: 0,
  /** Failed, and may succeed later. */
  failed: 1,
  /** Rejected as malformed, by the command line or by the API. */
  usage: 2,
  /** Nothing found: no job to claim, no such job or queue. */
  nothing: 3,
  /** Rejected because of the API token, the fencing token or the state of the job. */
  refused: 4,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const BY_ERROR: Readonly<Record<ErrorCode, ExitCode>> = {
  network: EXIT.failed,
  timeout: EXIT.failed,
  upstream: EXIT.failed,
  overloaded: EXIT.failed,
  internal: EXIT.failed,
  misconfigured: EXIT.failed,
  wire_version: EXIT.failed,
  invalid: EXIT.usage,
  method_not_allowed: EXIT.usage,
  unsupported_media_type: EXIT.usage,
  too_large: EXIT.usage,
  wrong_kind: EXIT.usage,
  not_found: EXIT.nothing,
  gone: EXIT.nothing,
  unauthorized: EXIT.refused,
  forbidden: EXIT.refused,
  stale: EXIT.refused,
  wrong_state: EXIT.refused,
  locked: EXIT.refused,
}

/** For help: the table in words. */
export const EXIT_CODES_TEXT = `Exit codes:
  0  done
  1  failed, may succeed later: no connection, no response in time, Redis away, a limit reached
  2  wrong usage, or the API rejected the request as malformed
  3  nothing found: no job to claim, no such job or queue
  4  rejected because of the API token, the fencing token or the state of the job`

/** The arguments or the environment are wrong; the text says what would be right. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return EXIT.usage
  return error instanceof EchoMQError ? (BY_ERROR[error.code] ?? EXIT.failed) : EXIT.failed
}

/** The error as lines for people. */
export function failureText(error: unknown): string {
  const { errors = [], requestId } = error instanceof EchoMQError ? error : {}
  // The first field is in the message already.
  const fields = errors.slice(1).map(({ path, message }) => plain(`${path} ${message}`))
  const cause = causeOf(error)
  const lines = [cause && plain(cause), ...fields, requestId && plain(`request ${requestId}`)].filter(Boolean)
  // A UsageError has our own text, in which a line break is meant.
  const message = error instanceof EchoMQError ? plain(messageOf(error)) : messageOf(error)
  return [`error: ${message}`, ...lines].join('\n  ')
}

/** The error as one line of JSON. */
export function failureJson(error: unknown): string {
  if (!(error instanceof EchoMQError)) return JSON.stringify({ error: { message: messageOf(error) } })
  const { code, message, status, reason, state, errors, retryable, requestId } = error
  const cause = causeOf(error)
  return JSON.stringify({
    error: { code, message, cause, status, reason, state, errors, retryable, requestId },
  })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The text of the innermost cause, such as `connect ECONNREFUSED 127.0.0.1:8787`: the client only says "no answer". */
export function causeOf(error: unknown): string | undefined {
  let last: unknown = Object(error).cause
  if (last === undefined) return undefined
  for (let cause = last; cause !== undefined; cause = Object(cause).cause) last = cause
  // A host with several addresses fails with one error for each address.
  const [first = last] = last instanceof AggregateError ? last.errors : []
  return messageOf(first) || undefined
}
