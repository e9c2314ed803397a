/**
 * Working a queue until it is empty or the time is over: for cron, Lambda, Workers, whatever is started for a while.
 */
import type { Clock } from './clock.ts'
import type { ConsumeOptions, StartLoop } from './loop.ts'

export type DrainOptions = Omit<ConsumeOptions, 'waitMs'> & {
  /** How long all of it may take, in milliseconds; default 25,000. */
  readonly deadlineMs?: number | undefined
}

/** What came of it, in jobs. */
export type Drained = {
  /** Completed. */
  readonly done: number
  /** To be tried again, dead, or with a lease that was lost. */
  readonly failed: number
  /** Given back, because there was no time for them. */
  readonly released: number
}

/**
 * Runs a loop that ends by itself, and ends it in time.
 *
 * @throws {EchoMQError} when the last claim failed and nothing had been done before.
 */
export const drainLoop = async <Payload>(
  startLoop: StartLoop<Payload>,
  clock: Clock,
  deadlineMs: number,
): Promise<Drained> => {
  let done = 0
  let failed = 0
  const loop = startLoop((name, event) => {
    if (name === 'completed') done++
    // Whatever else is told of a job is no success. What is told of the loop is not counted.
    else if ('job' in event && event.job) failed++
  })
  // The last part is for what still runs, and for giving back the rest.
  const spareMs = Math.min(2000, deadlineMs / 5)
  const cancel = clock.after(deadlineMs - spareMs, () => loop.stop(spareMs))
  const { failure, released } = await loop.ended
  cancel()
  if (failure && done + failed === 0) throw failure
  return { done, failed, released }
}
