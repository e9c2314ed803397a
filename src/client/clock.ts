/**
 * Time and chance, as the client uses them.
 *
 * Leases are counted with `now`, which never steps. `epochMs` mints ids and reads dates; nothing compares it with
 * the server's clock. No timer is ever armed for longer than platforms take: they would fire it at once.
 */
import { MAX_TIMER_MS } from './limits.ts'

/** Where the client gets its time from. It can be replaced for tests; nobody else has a reason to. */
export type Clock = {
  /** Milliseconds of a clock that never steps, from any origin. */
  now(): number
  /** Unix milliseconds, a whole number. */
  epochMs(): number
  /** A number from 0 up to and without 1, for jitter. */
  random(): number
  /** Runs something once after so many milliseconds. Answers how to call it off. */
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

/** Waits so many milliseconds, or until one of the signals is aborted. Never rejects. */
export const sleep = (clock: Clock, ms: number, ...signals: (AbortSignal | undefined)[]): Promise<void> =>
  new Promise((resolve) => {
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
