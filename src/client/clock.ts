/**
 * Time and chance, as the client uses them: the clock, sleeping, and the backoff between attempts.
 *
 * Leases are counted with `now`, which never steps. `epochMs` reads dates; it is never compared with
 * the server's clock. No timer is longer than platforms accept: they would fire it at once.
 */
import type { EchoMQError } from './errors.ts'
import { BACKOFF_CAP_MS, MAX_TIMER_MS } from './limits.ts'

/** The client's source of time. Only tests replace it. */
export type Clock = {
  /** Milliseconds of a clock that never steps, from any origin. */
  now(): number
  /** Unix milliseconds, an integer. */
  epochMs(): number
  /** A number from 0 (included) to 1 (excluded), for jitter. */
  random(): number
  /** Runs a function once after this many milliseconds. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void
}

export const systemClock: Clock = {
  now: () => performance.now(),
  epochMs: () => Date.now(),
  random: () => Math.random(),
  after(ms, run) {
    const timer = setTimeout(run, Math.max(0, Math.min(ms, MAX_TIMER_MS)))
    return () => clearTimeout(timer)
  },
}

/** Waits this many milliseconds, or until one of the signals is aborted. Never rejects. */
export function sleep(clock: Clock, ms: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel()
      for (const signal of signals) signal?.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(ms, end)
    for (const signal of signals) {
      if (signal?.aborted) end()
      else signal?.addEventListener('abort', end)
    }
  })
}

/**
 * The delay before the next attempt: exponential backoff with full jitter, so that many clients that failed together
 * do not return together. It is longer where the server's `Retry-After` asks for more.
 *
 * @param failures Failures in a row: 1 after the first.
 * @param capMs The longest jitter; the first one is at most a sixtieth of it.
 */
export function backoffMs(
  clock: Clock,
  failures: number,
  { retryAfterMs = 0 }: EchoMQError,
  capMs = BACKOFF_CAP_MS,
): number {
  return Math.max(clock.random() * Math.min(capMs, (capMs / 60) * 2 ** (failures - 1)), retryAfterMs)
}
