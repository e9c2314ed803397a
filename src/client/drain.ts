/**
 * Works a queue until it is empty or the time is over: for cron, Lambda, Workers and other short-lived programs.
 */
import type { Clock } from './clock.ts'
import { must } from './errors.ts'
import type { ConsumeOptions, StartLoop } from './loop.ts'

export type DrainOptions = Omit<ConsumeOptions, 'waitMs'> & {
  /** How long the whole call may take, in milliseconds; default 25,000. With 0 or less it claims nothing. */
  readonly deadlineMs?: number | undefined
}

/** The result, in jobs: the three counts add up to the claimed jobs. */
export type Drained = {
  /** Completed. */
  readonly done: number
  /** Scheduled for a retry, moved to the dead letters, lost to a lapsed lease, or not reported in time. */
  readonly failed: number
  /** Released, because there was no time for them. If the release fails, they are free when their leases lapse. */
  readonly released: number
}

/**
 * Runs a loop that ends when the queue is empty, and stops it in time.
 *
 * @throws {EchoMQError} `invalid` when the deadline is not a number; the error of the last claim, when no job was
 * claimed.
 */
export async function drainLoop<Payload>(
  startLoop: StartLoop<Payload>,
  clock: Clock,
  deadlineMs: number,
): Promise<Drained> {
  // NaN does not equal itself.
  must(deadlineMs === Number(deadlineMs), 'deadlineMs', 'be a number')
  let done = 0
  if (deadlineMs <= 0) return { done, failed: 0, released: 0 }
  const endAt = clock.now() + deadlineMs
  const loop = startLoop((name) => {
    if (name === 'completed') done++
  })
  // The last part is for the handlers that still run, and for releasing the rest.
  const cancel = clock.after(deadlineMs - Math.min(2000, deadlineMs / 5), () =>
    loop.stop(endAt - clock.now()),
  )
  const { failure, taken, released } = await loop.ended
  cancel()
  if (failure && taken === 0) throw failure
  return { done, failed: taken - done - released, released }
}
