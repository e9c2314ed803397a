/**
 * A claim that waits: it claims, waits to be woken, and claims again, until it has a job or its time is over.
 *
 * It registers before the claim after which it waits, so that no enqueue falls in between. While the queue was busy a
 * moment ago, a first claim goes without registration. A woken claim claims; a claim that nobody wakes looks again by itself
 * every `relookMs`.
 */
import type { Claimed } from '../queue/consume.ts'
import { createPollingWaiter } from './polling.ts'
import type { Found, Registration, Wake } from './wake.ts'

export type WaitOptions = {
  readonly queue: string
  /** How long to wait, in ms. */
  readonly waitMs: number
  /** After this time without a wake-up, claim again, in ms. */
  readonly relookMs: number
  /** Whether the last claim of this queue returned jobs. */
  readonly wasBusy: boolean
  readonly wake: Wake
  /** Aborted when the caller hangs up. */
  readonly signal: AbortSignal
  /** Whether the caller still wants this claim: a newer claim under the same claimId replaces it. */
  readonly isWanted: () => boolean
  readonly now: () => number
}

/** A rest of the waiting time that is not worth another claim, in ms: timers are not exact. */
const REST_MS = 2

/** Claims until there are jobs or the time is over, and returns the last claim. */
export async function waitForJobs(claim: () => Promise<Claimed>, options: WaitOptions): Promise<Claimed> {
  const { queue, wake, relookMs, signal, isWanted, now } = options
  let [left, seenAt] = [options.waitMs, now()]
  /** Adds up the time that has passed, so that a clock that is set back does not lengthen the wait. */
  function isOver(): boolean {
    left -= Math.max(0, now() - seenAt)
    seenAt = now()
    return left <= REST_MS || signal.aborted || !isWanted()
  }

  if (options.waitMs === 0 || options.wasBusy) {
    const claimed = await claim()
    if (claimed.jobs.length > 0 || isOver()) return claimed
  }
  const polling = createPollingWaiter()
  let registration = await wake.register(queue, signal)
  let found: Found | undefined
  try {
    for (;;) {
      registration?.claiming()
      const claimed = await claim()
      found = { dueInMs: claimed.nextMs, paused: claimed.paused }
      if (claimed.jobs.length > 0 || isOver()) return claimed
      if (claimed.more) continue
      registration = await pause(registration, claimed)
      if (isOver()) return claimed
    }
  } finally {
    // A caller that hung up leaves its wake-up to the next claim.
    registration?.end(signal.aborted ? undefined : found)
  }

  /** Waits for a wake-up, and returns the registration if it still holds. */
  async function pause(held: Registration | undefined, { nextMs, capped, paused }: Claimed) {
    // Nobody reports that a queue is below its limit of active jobs again.
    if (held === undefined || capped) {
      await polling.pause({ atMostMs: left, nextMs, signal })
      return held
    }
    const ring = await held.wait(Math.min(left, relookMs), { dueInMs: nextMs, paused })
    return ring === 'lost' ? undefined : held
  }
}
