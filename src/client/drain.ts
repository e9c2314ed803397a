/**
 * Working a queue until it is empty or the time is over: for cron, Lambda, Workers, whatever is started for a while.
 */
import type { Clock } from './clock.ts'
import type { ConsumeOptions, StartLoop } from './loop.ts'
import { must } from './rules.ts'

export type DrainOptions = Omit<ConsumeOptions, 'waitMs'> & {
  /** How long all of it may take from the call on, in milliseconds; default 25,000. At 0 or less nothing is begun. */
  readonly deadlineMs?: number | undefined
}

/** What came of it, in jobs: together all that were claimed. */
export type Drained = {
  /** Completed. */
  readonly done: number
  /** To be tried again, dead, with a lease that was lost, or with an end that could not be reported in time. */
  readonly failed: number
  /** Given back, because there was no time for them. Where that fails, they are free when their leases end. */
  readonly released: number
}

/**
 * Runs a loop that ends by itself, and ends it in time.
 *
 * @throws {EchoMQError} `invalid` for a deadline that is no number; what the last claim failed with, when none took
 * anything.
 */
export const drainLoop = async <Payload>(
  startLoop: StartLoop<Payload>,
  clock: Clock,
  deadlineMs: number,
): Promise<Drained> => {
  // NaN is not even itself.
  must(deadlineMs === Number(deadlineMs), 'deadlineMs', 'be a number')
  let done = 0
  if (deadlineMs <= 0) return { done, failed: 0, released: 0 }
  const endAt = clock.now() + deadlineMs
  const loop = startLoop((name) => {
    if (name === 'completed') done++
  })
  // The last part is for what still runs, and for giving back the rest.
  const cancel = clock.after(deadlineMs - Math.min(2000, deadlineMs / 5), () =>
    loop.stop(endAt - clock.now()),
  )
  const { failure, taken, released } = await loop.ended
  cancel()
  if (failure && taken === 0) throw failure
  return { done, failed: taken - done - released, released }
}
