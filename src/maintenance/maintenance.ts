/**
 * Maintenance: the run of the cron each minute. It sweeps every queue that is due, in bounded steps, until no queue is
 * left or its time budget is used up.
 *
 * The registry is the plan: a queue at rest is put off until the next quarter of an hour, a queue that only waits for
 * its schedule until that is due, and any other queue is swept in each run. A run that stops early leaves the rest
 * overdue, so the next run begins there. A queue that fails stops no other. Two runs at once do no harm: every step is a
 * script that moves what is due by the server's clock. An idle run costs two commands: it reads the registry and writes
 * its mark. The wire version is checked by a run that has a queue to sweep, before it sweeps.
 */
import { isQueueName } from '../protocol/keys.ts'
import type { Database } from '../queue/database.ts'
import { UpstreamError } from '../queue/redis.ts'
import { type Due, isTouched } from '../queue/registry.ts'
import type { SweepReport } from '../queue/sweep.ts'

export type MaintenanceOptions = {
  /** Queues that are swept whether or not the registry says that they are due. */
  readonly always?: readonly string[]
  /** Only these queues; a run that is so restricted is not marked as completed. */
  readonly only?: ((queue: string) => boolean) | undefined
  /** How long a run may take, in ms. Default 25,000. */
  readonly budgetMs?: number
}

export type MaintenanceReport = {
  /** Queues that were swept. */
  readonly queues: number
  readonly promoted: number
  readonly reaped: number
  readonly dead: number
  readonly ghosts: number
  /** Queues that were due and are not finished, because the budget was used up or because they failed. */
  readonly remaining: readonly string[]
  /** Queues that failed, and why. */
  readonly failures: readonly { readonly queue: string; readonly cause: unknown }[]
}

const DEFAULT_BUDGET_MS = 25_000
/** Jobs of each kind that one sweep moves. */
const JOBS_PER_SWEEP = 1000
/** Queues that are swept in one round trip. */
const QUEUES_PER_TRIP = 16
/** Queues that are read from the registry at a time. */
const QUEUES_PER_READ = 500
/**
 * A queue at rest is swept this often all the same: other clients do not write the registry. All such queues are swept
 * in the same minute, so that the minutes between are idle.
 */
const REST_MS = 15 * 60_000
/** The next visit to a queue that was empty just after an enqueue: the job may not have arrived yet. */
const SOON_MS = 30_000

/** When to sweep a queue again, by its last sweep and by whether an enqueue came before it. */
function nextVisitAt({ now, nextAt }: SweepReport, touched: boolean): number {
  const nextRest = (Math.floor(now / REST_MS) + 1) * REST_MS
  return Math.min(nextAt ?? nextRest, nextRest, touched ? now + SOON_MS : nextRest)
}

/**
 * Runs the maintenance of a database once.
 *
 * @throws {UpstreamError} when the registry or the wire version could not be read.
 * @throws {WireVersionError} when there is a queue to sweep in a database whose wire version is not accepted.
 */
export async function maintain(
  { fence, clock, registry, sweepAll, now }: Database,
  { always = [], only, budgetMs = DEFAULT_BUDGET_MS }: MaintenanceOptions = {},
): Promise<MaintenanceReport> {
  const startedAt = now()
  const isOver = (): boolean => now() - startedAt >= budgetMs
  const isWanted = (queue: string): boolean => isQueueName(queue) && (only?.(queue) ?? true)
  const totals = { promoted: 0, reaped: 0, dead: 0, ghosts: 0 }
  const swept = new Set<string>()
  const remaining = new Set<string>()
  const failures: { queue: string; cause: unknown }[] = []
  let isVersionChecked = false

  /** Sweeps queues in one round trip. When it fails as a whole, each queue gets one of its own while time is left. */
  async function sweepTogether(queues: readonly string[]): Promise<(SweepReport | UpstreamError)[]> {
    try {
      return await sweepAll(queues, JOBS_PER_SWEEP)
    } catch (cause) {
      if (!(cause instanceof UpstreamError)) throw cause
      if (queues.length === 1) return [cause]
      const alone = []
      for (const queue of queues) alone.push(...(isOver() ? [cause] : await sweepTogether([queue])))
      return alone
    }
  }

  /** Plans next visits. When a plan is lost, the queue stays due: that costs one more visit. */
  async function postpone(visits: readonly (Due & { readonly nextVisitAt: number })[]): Promise<void> {
    if (visits.length === 0) return
    try {
      await registry.postpone(visits)
    } catch (cause) {
      failures.push(...visits.map(({ queue }) => ({ queue, cause })))
    }
  }

  /** Sweeps queues until each is done or the budget is used up. */
  async function work(due: readonly Due[]): Promise<void> {
    if (due.length > 0 && !isVersionChecked) await fence.check()
    isVersionChecked ||= due.length > 0
    let open = [...due]
    while (open.length > 0 && !isOver()) {
      const batch = open.splice(0, QUEUES_PER_TRIP)
      const askedAt = now()
      const reports = await sweepTogether(batch.map(({ queue }) => queue))
      const done: (Due & { nextVisitAt: number })[] = []
      for (const [nth, entry] of batch.entries()) {
        const report = reports[nth]
        if (report === undefined || report instanceof UpstreamError) {
          failures.push({ queue: entry.queue, cause: report })
          remaining.add(entry.queue)
          continue
        }
        swept.add(entry.queue)
        if (nth === 0) clock.learn(report.now, askedAt)
        for (const count of ['promoted', 'reaped', 'dead', 'ghosts'] as const) totals[count] += report[count]
        // Behind the others: one long queue does not keep them waiting.
        if (report.more) open = [...open, entry]
        else done.push({ ...entry, nextVisitAt: nextVisitAt(report, isTouched(entry)) })
      }
      await postpone(done)
    }
    for (const { queue } of open) remaining.add(queue)
  }

  await clock.check()
  const known = new Set<string>()
  for (;;) {
    // Swept queues are no longer due. A queue that failed or was enqueued to, and any other member, is still in front.
    const limit = QUEUES_PER_READ + known.size
    const read = await registry.due(clock.now(), limit)
    const due = read.filter(({ queue }) => !known.has(queue))
    for (const { queue } of due) known.add(queue)
    await work(due.filter(({ queue }) => isWanted(queue)))
    if (read.length < limit || isOver()) break
  }
  // Not in the registry, so nothing is planned for them.
  const unknown = new Set(always.filter((queue) => isWanted(queue) && !known.has(queue)))
  await work([...unknown].map((queue) => ({ queue, score: '' })))

  // A mark that is lost is written by the next run.
  if (only === undefined) await registry.mark(clock.now()).catch(() => {})
  return { queues: swept.size, ...totals, remaining: [...remaining], failures }
}
