/**
 * Maintenance: what the cron does each minute. It promotes what is due and reaps what has lapsed in every queue that
 * has something to do, in bounded steps, until nothing is left or its budget is used.
 *
 * The plan is the registry itself: a queue at rest is put off until the next quarter of an hour, a queue that only
 * waits for its schedule until that is due, any other is visited each time. A run that stops early leaves the rest
 * overdue, so the next one begins there. A queue that fails stops no other; who called learns of it at the end. Two
 * runs at once do no harm: every step is a script that moves what is due by the server's clock.
 *
 * A run reads the plan, reads the fence of versions and marks that it was made. The cron does all three whenever a
 * queue is due. In a minute when none is, it reads the plan and then one of the two others, in turn: two commands.
 */
import { GLOBAL_KEYS, isQueueName, keyspace } from '../protocol/keys.ts'
import type { Database } from '../queue/database.ts'
import { RedisError, type Reply, UpstreamError } from '../queue/redis.ts'
import { isTouched } from '../queue/registry.ts'
import { groups, integer, list, optionalText, text } from '../queue/replies.ts'
import { call, run, type ScriptCall } from '../queue/scripts.ts'

export type MaintenanceOptions = {
  /** Queues that are visited whatever the plan says. */
  readonly always?: readonly string[]
  /** Only these queues; a run that is so restricted does not count as a completed one. */
  readonly only?: ((queue: string) => boolean) | undefined
  /** The caller runs this each minute, so a run with nothing to do may leave a part to the next. Default false. */
  readonly isEachMinute?: boolean
  /** How long a run may take, in ms. Default 25,000. */
  readonly budgetMs?: number
}

export type MaintenanceReport = {
  /** Queues that were visited. */
  readonly queues: number
  readonly promoted: number
  readonly reaped: number
  readonly dead: number
  readonly ghosts: number
  /** Queues that were due and not finished, because the budget was used (of those it came to) or because they failed. */
  readonly remaining: readonly string[]
  /** Queues that failed, and why. */
  readonly failures: readonly { readonly queue: string; readonly cause: unknown }[]
}

const DEFAULT_BUDGET_MS = 25_000
/** Jobs of each kind that one visit moves. */
const STEP = 1000
/** Queues that are visited in one round trip. */
const QUEUES_PER_TRIP = 16
/** Queues that are read from the plan at a time. */
const PLAN_PAGE = 500
/**
 * A queue at rest is looked at this often all the same: other clients do not write the registry. All of them at the
 * same quarters of an hour, so that the minutes between are for nothing but what is due.
 */
const REST_MS = 15 * 60_000
/** A queue that was empty although somebody had just enqueued: the job may be on its way. */
const SOON_MS = 30_000
/** How long the difference of the clocks is believed. Each visit tells it anew, so queues at rest are enough for it. */
const CLOCK_MS = 2 * REST_MS
/** A run with nothing to do does not write again a mark that is younger. */
const MARK_MS = 30_000
/** The same for a run that is made each minute: it marks every second time. */
const MARK_EACH_MINUTE_MS = 90_000

type Due = { readonly queue: string; readonly score: string }
type Visit = {
  now: number
  promoted: number
  reaped: number
  dead: number
  ghosts: number
  more: boolean
  nextAt: number
}

function visitCall(queue: string): ScriptCall {
  const keys = keyspace(queue)
  return call(
    'sweep',
    [keys.active, keys.pending, keys.schedule, keys.dead, keys.failed, keys.ghosts, keys.meta, keys.startBy],
    [keys.jobPrefix, STEP, Math.random()],
  )
}

function readVisit(reply: Reply | undefined): Visit {
  const [now, promoted, reaped, dead, ghosts, more, nextAt] = list(reply).map(integer)
  if (nextAt === undefined) throw new UpstreamError('Redis answered in a form that the command does not have')
  return {
    now: now ?? 0,
    promoted: promoted ?? 0,
    reaped: reaped ?? 0,
    dead: dead ?? 0,
    ghosts: ghosts ?? 0,
    more: more === 1,
    nextAt,
  }
}

const readClock = (reply: Reply | undefined): number => {
  const [seconds, micros] = list(reply).map(integer)
  return (seconds ?? 0) * 1000 + Math.floor((micros ?? 0) / 1000)
}

/** Visits queues in one round trip. When the trip as a whole fails, each queue gets one of its own while time is left. */
async function visitAll(
  database: Database,
  queues: readonly string[],
  isOver: () => boolean,
): Promise<(Visit | { failed: unknown })[]> {
  let replies: readonly Reply[]
  try {
    replies = await run(database.port, queues.map(visitCall))
  } catch (cause) {
    if (queues.length === 1) return [{ failed: cause }]
    const alone = []
    for (const queue of queues)
      alone.push(...(isOver() ? [{ failed: cause }] : await visitAll(database, [queue], isOver)))
    return alone
  }
  return queues.map((_, nth) => {
    const reply = replies[nth]
    if (reply instanceof RedisError) return { failed: new UpstreamError('Redis answered an error') }
    try {
      return readVisit(reply)
    } catch (cause) {
      return { failed: cause }
    }
  })
}

/** When to look at a queue again, by what a visit found and by whether anybody had enqueued since the one before. */
function nextVisit(visit: Visit, touched: boolean): number {
  const nextRest = (Math.floor(visit.now / REST_MS) + 1) * REST_MS
  const planned = visit.nextAt < 0 ? nextRest : Math.min(visit.nextAt, nextRest)
  return touched ? Math.min(planned, visit.now + SOON_MS) : planned
}

/**
 * Runs the maintenance of a database once.
 *
 * @throws {UpstreamError} when the plan could not be read.
 * @throws {WireVersionError} when the database belongs to another wire version.
 */
export async function maintain(
  database: Database,
  options: MaintenanceOptions = {},
): Promise<MaintenanceReport> {
  const { port, fence, clock, now } = database
  const startedAt = now()
  const isOver = (): boolean => now() - startedAt >= (options.budgetMs ?? DEFAULT_BUDGET_MS)
  const only = options.only ?? (() => true)
  const totals = { promoted: 0, reaped: 0, dead: 0, ghosts: 0 }
  const visited = new Set<string>()
  const failures: { queue: string; cause: unknown }[] = []
  const serverNow = (): number => now() + clock.offsetMs
  const markAgeMs = (): number => serverNow() - clock.markedAt
  const markMs = options.isEachMinute === true ? MARK_EACH_MINUTE_MS : MARK_MS
  // Known from the run before, which read the fence; after a pause both are done.
  const isMarksTurn =
    options.isEachMinute === true && markAgeMs() >= markMs && markAgeMs() < 2 * MARK_EACH_MINUTE_MS

  /** What the server's clock showed when it answered; asked at `askedAt` of ours, so that we are never behind it. */
  const setClock = (serverMs: number, askedAt: number): void => {
    clock.offsetMs = serverMs - askedAt
    clock.readAt = askedAt
  }

  const readFence = ['MGET', GLOBAL_KEYS.version, GLOBAL_KEYS.maintenance]
  /** Judges the fence, and learns when the last run was marked. */
  const judge = (reply: Reply | undefined): void => {
    const [version, mark] = list(reply)
    fence.judge(version)
    clock.markedAt = Number(optionalText(mark) ?? Number.NaN)
  }

  const readPlan = async (limit: number, withFence: boolean): Promise<Due[]> => {
    const range = ['BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES']
    const due = ['ZRANGE', GLOBAL_KEYS.queues, '-inf', Math.ceil(serverNow()), ...range]
    const [plan, fenceRead] = await run(port, withFence ? [due, readFence] : [due])
    if (withFence) judge(fenceRead)
    return groups(list(plan), 2).map(([queue, score]) => ({ queue: text(queue), score: text(score) }))
  }

  /** Plans next visits. A queue whose plan is lost stays due, so nothing is lost but a visit more. */
  const plan = async (visits: readonly (Due & { readonly at: number })[]): Promise<void> => {
    if (visits.length === 0) return
    const args = visits.flatMap(({ queue, score, at }) => [queue, score, at])
    try {
      const [planned] = await run(port, [call('postpone', [GLOBAL_KEYS.queues], args)])
      integer(planned)
    } catch (cause) {
      failures.push(...visits.map(({ queue }) => ({ queue, cause })))
    }
  }

  /** Visits queues until each is done; answers those that are not. */
  const work = async (due: readonly Due[]): Promise<string[]> => {
    let open = [...due]
    const unfinished: string[] = []
    while (open.length > 0) {
      if (isOver()) return [...unfinished, ...open.map(({ queue }) => queue)]
      const batch = open.splice(0, QUEUES_PER_TRIP)
      const askedAt = now()
      const visits = await visitAll(
        database,
        batch.map(({ queue }) => queue),
        isOver,
      )
      const plans: (Due & { at: number })[] = []
      const again: Due[] = []
      for (const [nth, entry] of batch.entries()) {
        const visit = visits[nth]
        if (visit === undefined || 'failed' in visit) {
          failures.push({ queue: entry.queue, cause: visit?.failed })
          unfinished.push(entry.queue)
          continue
        }
        visited.add(entry.queue)
        if (nth === 0) setClock(visit.now, askedAt)
        for (const count of ['promoted', 'reaped', 'dead', 'ghosts'] as const) totals[count] += visit[count]
        if (visit.more) again.push(entry)
        else plans.push({ ...entry, at: nextVisit(visit, isTouched(Number(entry.score))) })
      }
      // Round about, so that one long queue does not keep the others waiting.
      open = [...open, ...again]
      await plan(plans)
    }
    return unfinished
  }

  // A clock of ours that was set back has made the difference wrong.
  if (startedAt < clock.seenAt || startedAt - clock.readAt > CLOCK_MS) {
    const askedAt = now()
    const [time] = await run(port, [['TIME']])
    setClock(readClock(time), askedAt)
  }
  const always = (options.always ?? []).filter(only)
  const leavesFence = isMarksTurn && always.length === 0
  let due = await readPlan(PLAN_PAGE, !leavesFence)
  if (leavesFence && due.length > 0) judge((await run(port, [readFence]))[0])
  const remaining: string[] = []
  const known = new Set<string>()
  while (due.length > 0) {
    for (const { queue } of due) known.add(queue)
    remaining.push(...(await work(due.filter(({ queue }) => isQueueName(queue) && only(queue)))))
    if (due.length < PLAN_PAGE || isOver()) break
    // What was visited is due no more; what failed, was touched again or is no queue still stands in front.
    due = (await readPlan(PLAN_PAGE + known.size, false)).filter(({ queue }) => !known.has(queue))
  }
  // A score that is in no registry: the visit is made, and nothing is planned.
  const unknown = always.filter((queue) => !known.has(queue)).map((queue) => ({ queue, score: '' }))
  remaining.push(...(await work(unknown)))

  const isMarkFresh = markAgeMs() >= 0 && markAgeMs() < markMs
  if (options.only === undefined && (visited.size > 0 || !isMarkFresh)) {
    // A mark that is lost is made by the next run.
    const mark = Math.floor(serverNow())
    const [marked] = await run(port, [['SET', GLOBAL_KEYS.maintenance, mark]]).catch(() => [])
    if (marked instanceof Uint8Array) clock.markedAt = mark
  }
  clock.seenAt = now()
  return { queues: visited.size, ...totals, remaining: [...new Set(remaining)], failures }
}
