/** Observing: stats, settings, pages of jobs and single jobs. It changes nothing, and a list reads payloads only on request. */
import { classifyJobId, lowestIdAt } from '../protocol/ids.ts'
import { GLOBAL_KEYS, keyspace } from '../protocol/keys.ts'
import {
  DEFAULT_BACKOFF_BASE_MS,
  DEFAULT_BACKOFF_MAX_MS,
  DEFAULT_LEASE_MS,
  DEFAULT_MAX_ATTEMPTS,
  MAX_INSTANT_MS,
} from '../protocol/limits.ts'
import { isJobState, type JobState, SET_OF_STATE } from '../protocol/states.ts'
import type { QueueRef } from './context.ts'
import type { Command, RedisPort, Reply } from './redis.ts'
import {
  bytes,
  groups,
  integer,
  isOfAnotherType,
  list,
  optionalInteger,
  optionalNumber,
  optionalText,
  pairs,
  text,
} from './replies.ts'
import { run, runScript } from './scripts.ts'

/** The settings of a queue in force; 0 means no limit. */
export type QueueSettings = {
  readonly maxAttempts: number
  readonly backoff: { readonly baseMs: number; readonly maxMs: number }
  readonly leaseMs: number
  readonly maxActive: number
  readonly maxPending: number
}

export type Counts = { readonly [state in JobState]: number }

export type QueueStats = {
  readonly queue: string
  readonly counts: Counts
  readonly oldestPending: string | undefined
  readonly nextDueMs: number | undefined
  readonly nextLapseMs: number | undefined
  readonly paused: boolean
  readonly completed: number
  readonly failed: number
  readonly ghosts: number
  readonly settings: QueueSettings
  /** Whether anything shows that the queue was ever used. */
  readonly known: boolean
}

/** A failure in the history of a job. */
export type Failure = { readonly attempt: number; readonly at: number; readonly error: string }

/** A stored job. Instants are epoch ms. */
export type StoredJob = {
  readonly id: string
  readonly state: JobState
  readonly attempts: number
  readonly runAt?: number | undefined
  readonly leaseUntil?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly lapses?: number | undefined
  readonly startBy?: number | undefined
  readonly lastError?: string | undefined
  readonly history?: readonly Failure[] | undefined
  readonly payload?: Uint8Array | undefined
}

export type PageRequest = {
  readonly state: JobState
  readonly order: 'newest' | 'oldest'
  readonly limit: number
  readonly cursor?: PageCursor | undefined
  /** Mint time, epoch ms, inclusive; only for pending and dead. */
  readonly from?: number | undefined
  /** Mint time, epoch ms, exclusive; only for pending and dead. */
  readonly to?: number | undefined
  readonly withErrors: boolean
  readonly withPayload: boolean
}

/** Where a page ended. `seen` counts the ids with the same score that were already read. */
export type PageCursor = { readonly id: string; readonly score: string; readonly seen: number }

const STATS_COMMANDS = 12
/** The first of them read the sets and the settings: a queue is unreadable without these. */
const VITAL_COMMANDS = 8

/** How many ids with the score of the cursor may disappear between two pages without a job being skipped. */
const TIES_READ_AGAIN = 1000

/** The settings in force: the stored fields, else the defaults. */
export function readSettings(meta: ReadonlyMap<string, Reply>): QueueSettings {
  const setting = (field: string, otherwise: number): number => optionalInteger(meta.get(field)) ?? otherwise
  return {
    maxAttempts: setting('maxAttempts', DEFAULT_MAX_ATTEMPTS),
    backoff: {
      baseMs: setting('backoffBaseMs', DEFAULT_BACKOFF_BASE_MS),
      maxMs: setting('backoffMaxMs', DEFAULT_BACKOFF_MAX_MS),
    },
    leaseMs: setting('leaseMs', DEFAULT_LEASE_MS),
    maxActive: setting('maxActive', 0),
    maxPending: setting('maxPending', 0),
  }
}

function statsCommands(queue: string): Command[] {
  const keys = keyspace(queue)
  return [
    ['ZCARD', keys.pending],
    ['ZCARD', keys.active],
    ['ZCARD', keys.schedule],
    ['ZCARD', keys.dead],
    ['ZRANGE', keys.pending, 0, 0],
    ['ZRANGE', keys.schedule, 0, 0, 'WITHSCORES'],
    ['ZRANGE', keys.active, 0, 0, 'WITHSCORES'],
    ['HGETALL', keys.meta],
    ['HGET', keys.completed, 'count'],
    ['HGET', keys.failed, 'count'],
    ['HGET', keys.ghosts, 'count'],
    ['ZSCORE', GLOBAL_KEYS.queues, queue],
  ]
}

function readStats(queue: string, replies: readonly Reply[]): QueueStats {
  const [pending, active, scheduled, dead, oldest, due, lapse, meta, completed, failed, ghosts, registered] =
    replies
  const fields = pairs(meta)
  const counts = {
    pending: integer(pending),
    active: integer(active),
    scheduled: integer(scheduled),
    dead: integer(dead),
  }
  // No move depends on a counter, so an unreadable counter is 0.
  const totals = [completed, failed, ghosts].map((reply) =>
    isOfAnotherType(reply) ? 0 : (optionalInteger(reply) ?? 0),
  )
  const [completedCount = 0, failedCount = 0, ghostCount = 0] = totals
  return {
    queue,
    counts,
    // An ill-formed id of another client has no mint time.
    oldestPending: list(oldest)
      .map(text)
      .find((id) => classifyJobId(id) !== 'ill-formed'),
    nextDueMs: optionalNumber(list(due)[1]),
    nextLapseMs: optionalNumber(list(lapse)[1]),
    paused: fields.has('paused'),
    completed: completedCount,
    failed: failedCount,
    ghosts: ghostCount,
    settings: readSettings(fields),
    known:
      optionalText(registered) !== undefined ||
      fields.size > 0 ||
      [...Object.values(counts), ...totals].some((count) => count > 0),
  }
}

/**
 * The stats of many queues in one round trip. A queue is unreadable when one of its keys has the wrong Redis type; the
 * others are returned all the same.
 */
export async function statsOf(
  port: RedisPort,
  queues: readonly string[],
): Promise<{ readable: QueueStats[]; unreadable: string[] }> {
  const readable: QueueStats[] = []
  const unreadable: string[] = []
  if (queues.length === 0) return { readable, unreadable }
  const replies = await run(port, queues.flatMap(statsCommands))
  for (const [nth, queue] of queues.entries()) {
    const own = replies.slice(nth * STATS_COMMANDS, (nth + 1) * STATS_COMMANDS)
    if (own.slice(0, VITAL_COMMANDS).some(isOfAnotherType)) unreadable.push(queue)
    else readable.push(readStats(queue, own))
  }
  return { readable, unreadable }
}

/** The fields of a row with its last failures. */
const FAILURE_FIELDS = ['error:0', 'error:1', 'error:2', 'error:3', 'error:4']

/** The last failures of a job, oldest first. A malformed entry is skipped. */
function readFailures(row: ReadonlyMap<string, Reply>): Failure[] {
  return FAILURE_FIELDS.flatMap((field) => {
    const entry = /^(\d{1,15}) (\d{1,15}) (.*)$/s.exec(optionalText(row.get(field)) ?? '')
    const [, attempt, at, error = ''] = entry ?? []
    return Number(at) <= MAX_INSTANT_MS ? [{ attempt: Number(attempt), at: Number(at), error }] : []
  }).sort((a, b) => a.at - b.at || a.attempt - b.attempt)
}

const at = (state: JobState, score: number | undefined): Pick<StoredJob, 'runAt' | 'leaseUntil'> => {
  if (state === 'scheduled') return { runAt: score }
  return state === 'active' ? { leaseUntil: score } : {}
}

/** The fields that the script `list` returns of each row, in its order. */
const LISTED_FIELDS = ['state', 'attempts', 'max_attempts', 'lapses', 'start_by', 'last_error', 'payload']

const readJob = (
  id: string,
  state: JobState,
  times: Pick<StoredJob, 'runAt' | 'leaseUntil'>,
  row: ReadonlyMap<string, Reply>,
): StoredJob => ({
  id,
  state,
  attempts: optionalInteger(row.get('attempts')) ?? 0,
  ...times,
  maxAttempts: optionalInteger(row.get('max_attempts')),
  lapses: optionalInteger(row.get('lapses')),
  startBy: optionalInteger(row.get('start_by')),
  lastError: optionalText(row.get('last_error')),
  payload: bytes(row.get('payload')),
})

/** The range to read, in the order of reading, and how many of its first jobs belong to the page before. */
function rangeOf({ state, order, cursor, ...page }: PageRequest) {
  const reverse = order === 'newest'
  const ordered = (low: string, high: string) =>
    reverse ? { first: high, last: low } : { first: low, last: high }
  if (state === 'active' || state === 'scheduled') {
    const seen = cursor?.seen ?? 0
    const again = Math.min(seen, TIES_READ_AGAIN)
    const range = ordered('-inf', '+inf')
    return { by: 'BYSCORE', ...range, first: cursor?.score ?? range.first, offset: seen - again, again }
  }
  const from = page.from === undefined ? undefined : lowestIdAt(page.from)
  const to = page.to === undefined ? undefined : lowestIdAt(page.to)
  let low = from === undefined ? '-' : `[${from}`
  let high = to === undefined ? '+' : `(${to}`
  // The tighter one of the cursor and the instant on its side.
  if (cursor !== undefined && reverse && (to === undefined || cursor.id < to)) high = `(${cursor.id}`
  if (cursor !== undefined && !reverse && (from === undefined || cursor.id >= from)) low = `(${cursor.id}`
  return { by: 'BYLEX', ...ordered(low, high), offset: 0, again: 0 }
}

/** The state of a job whose row names none: that of the set that contains it. */
async function stateBySet(
  { port, keys }: QueueRef,
  id: string,
  found: Record<'runAt' | 'deadline', Reply | undefined>,
): Promise<JobState> {
  if (optionalText(found.deadline) !== undefined) return 'active'
  if (optionalText(found.runAt) !== undefined) return 'scheduled'
  const [dead] = await run(port, [['ZSCORE', keys.dead, id]])
  return optionalText(dead) === undefined ? 'pending' : 'dead'
}

/** Counts, ages and settings in one round trip. */
export async function stats({ port, queue }: QueueRef): Promise<QueueStats> {
  return readStats(queue, await run(port, statsCommands(queue)))
}

/** One page of the jobs of a state, with a cursor when there are more. */
export async function listJobs(
  ref: QueueRef,
  page: PageRequest,
): Promise<{ jobs: StoredJob[]; cursor?: PageCursor }> {
  const { by, first, last, offset, again } = rangeOf(page)
  const { cursor } = page
  const reply = await runScript(ref, 'list', {
    ...{ set: SET_OF_STATE[page.state], by, first, last, offset },
    order: page.order === 'newest' ? 'REV' : '',
    limit: page.limit,
    withError: page.withErrors,
    withPayload: page.withPayload,
    ...(cursor === undefined || by === 'BYLEX' ? {} : { after: cursor.id, again }),
  })
  const [more, ...found] = list(reply)
  const shown = groups(found, 9).map((row) => ({ id: text(row[0]), score: text(row[1]), row }))
  const jobs = shown.flatMap(({ id, score, row }): StoredJob[] => {
    const fields = new Map(LISTED_FIELDS.map((field, nth) => [field, row[nth + 2] ?? null]))
    const word = optionalText(fields.get('state'))
    // An id without a row is a ghost: no job, and maintenance will remove it.
    if (word === undefined) return []
    // A job with an unknown state, written by another client, is in the state of the set that contains it.
    const state = isJobState(word) ? word : page.state
    return [readJob(id, state, at(page.state, Number(score)), fields)]
  })
  const end = shown.at(-1)
  if (integer(more) === 0) return { jobs }
  if (end === undefined) {
    // All jobs that were read are new ones at the very score of the cursor: the next page reads behind them.
    return cursor === undefined ? { jobs } : { jobs, cursor: { ...cursor, seen: cursor.seen + page.limit } }
  }
  const ties = shown.filter(({ score }) => score === end.score).length
  const seen = ties + (cursor?.score === end.score ? cursor.seen : 0)
  return { jobs, cursor: { id: end.id, score: end.score, seen } }
}

/** One job with all its fields. */
export async function job(ref: QueueRef, id: string): Promise<StoredJob | undefined> {
  const { port, keys } = ref
  const [reply, runAt, deadline] = await run(port, [
    ['HGETALL', keys.job(id)],
    ['ZSCORE', keys.schedule, id],
    ['ZSCORE', keys.active, id],
  ])
  if (isOfAnotherType(reply)) return undefined
  const row = pairs(reply)
  if (bytes(row.get('payload')) === undefined) return undefined
  const word = optionalText(row.get('state'))
  const state = isJobState(word) ? word : await stateBySet(ref, id, { runAt, deadline })
  const history = readFailures(row)
  return {
    ...readJob(id, state, at(state, optionalNumber(state === 'active' ? deadline : runAt)), row),
    history: history.length > 0 ? history : undefined,
  }
}
