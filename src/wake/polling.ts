/** Polling: a waiting claim claims again at a growing interval. Used where there is no other way, and when another way failed. */

export type Wait = {
  /** The longest pause, in ms. */
  readonly atMostMs: number
  /** When the next job is due, in ms from now, if that is known. */
  readonly nextMs?: number | undefined
  /** Ends the wait at once when the caller hangs up. */
  readonly signal: AbortSignal
}

/** Resolves when it is time to claim again. */
export type Waiter = { pause(wait: Wait): Promise<void> }

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000
const GROWTH = 1.5

/** The pauses of one waiting claim: 100 ms at first, growing by half, at most 1 s. */
export function createPollingWaiter(): Waiter {
  let pauseMs = FIRST_PAUSE_MS
  return {
    async pause({ atMostMs, nextMs, signal }) {
      await sleep(Math.max(1, Math.min(pauseMs, atMostMs, nextMs ?? Number.POSITIVE_INFINITY)), signal)
      pauseMs = Math.min(pauseMs * GROWTH, LONGEST_PAUSE_MS)
    },
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
}
