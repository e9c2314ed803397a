/**
 * How long to wait before something is tried again: exponential backoff with full jitter, and what a server asked
 * for in `Retry-After`. Pure, and never longer than its caps.
 */
import type { Clock } from './clock.ts'
import type { EchoMQError } from './errors.ts'
import { BACKOFF_CAP_MS, RETRY_AFTER_CAP_MS } from './limits.ts'

/**
 * The wait after so many failures in a row: a random part of a ceiling that doubles, so that many clients which
 * failed together do not come back together; longer where the server asked for it.
 *
 * @param failures 1 after the first failure.
 * @param capMs For the jitter; the ceiling starts at a sixtieth of it.
 */
export const backoffMs = (
  clock: Clock,
  failures: number,
  { retryAfterMs = 0 }: EchoMQError,
  capMs = BACKOFF_CAP_MS,
): number => Math.max(clock.random() * Math.min(capMs, (capMs / 60) * 2 ** (failures - 1)), retryAfterMs)

/**
 * What `Retry-After` asks for, in milliseconds, or undefined when it is absent or makes no sense.
 *
 * A date is compared with the answer's own `Date`, so that the machine's clock may be wrong.
 */
export const retryAfterMs = (headers: Headers, epochMs: number): number | undefined => {
  const text = headers.get('retry-after') ?? ''
  // `Date.parse` reads a date into almost anything; HTTP dates end in GMT.
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : /GMT$/.test(text)
      ? Date.parse(text) - (Date.parse(headers.get('date') ?? '') || epochMs)
      : Number.NaN
  return ms > 0 ? Math.min(ms, RETRY_AFTER_CAP_MS) : undefined
}
