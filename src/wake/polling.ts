/**
 * Waiting for a job: the one place that knows how a held claim learns that it should look again. Today it asks
 * Redis at a growing interval; a wake-up by push can take its place without anything else changing.
 */

export type Wait = {
  /** How long the longest pause may be, in ms. */
  readonly atMostMs: number
  /** When the next job is known to be due, in ms from now. */
  readonly nextMs?: number | undefined
  /** Ends the wait at once when the caller hangs up. */
  readonly signal: AbortSignal
}

/** Resolves when it is worth looking again. */
export type Waiter = { pause(wait: Wait): Promise<void> }

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000
const GROWTH = 1.5

/** One waiter for one held request: 100 ms at first, half as much again each time, 1 s at the most. */
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

/** The requests of one queue that are held in this isolate, by their claimId. */
export type HeldClaims = Map<string, symbol>

/**
 * Holds a claim. Whoever repeats a claim under its claimId has given up on the first request, and not every platform
 * tells that a caller has hung up: the older one must not go on to claim a job for nobody.
 */
export function holdClaim(held: HeldClaims, claimId: string | undefined) {
  const mine = Symbol('claim')
  if (claimId !== undefined) held.set(claimId, mine)
  return {
    isNewest: (): boolean => claimId === undefined || held.get(claimId) === mine,
    end(): void {
      if (claimId !== undefined && held.get(claimId) === mine) held.delete(claimId)
    },
  }
}
