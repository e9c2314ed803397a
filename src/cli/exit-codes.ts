/**
 * How a command ends, as the shell sees it. The table is closed: an error code without a row does not compile.
 */
import type { ErrorCode } from '../client/index.ts'

export const EXIT = {
  /** Done. */
  ok: 0,
  /** Failed, and may succeed later. */
  failed: 1,
  /** Not understood: by the command line or by the API. */
  usage: 2,
  /** Nothing there: no job to claim, no such job or queue. */
  nothing: 3,
  /** Refused: by the API token, by the job's token, or by the state that the job is in. */
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

export const exitCodeOf = (code: ErrorCode): ExitCode => BY_ERROR[code] ?? EXIT.failed

/** For help: the same as the table, in words. */
export const EXIT_CODES_TEXT = `Exit codes:
  0  done
  1  failed, may succeed later: no connection, no answer in time, Redis away, a limit reached
  2  not understood: wrong usage, or the API refused what it was sent
  3  nothing there: no job to claim, no such job or queue
  4  refused: by the API token, a stale job token, or the job's state`
