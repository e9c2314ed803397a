/**
 * The registry of queues: a sorted set with the time of each queue's next visit by maintenance.
 *
 * A score is that time, in ms of the server's clock. An enqueue writes a random score far in the past: the queue is due
 * at once, and a visit that was planned from an older score does not overwrite it. So an enqueue needs no clock, and
 * maintenance never forgets one.
 */

import { GLOBAL_KEYS, isQueueName } from '../protocol/keys.ts'
import { call } from '../protocol/script-call.ts'
import { type QueueStats, statsOf } from './observe.ts'
import type { Command, RedisPort } from './redis.ts'
import { groups, integer, list, text } from './replies.ts'
import { run } from './scripts.ts'

/** A queue that is due for a visit. The score decides whether a plan may replace it. */
export type Due = { readonly queue: string; readonly score: string }

/** Scores below this one (a day in 2004, in ms) were written by an enqueue; scores above it are planned visits. */
const PLANNED_FROM = 2 ** 40

const touchedScore = (): number => 1 + Math.floor(Math.random() * (PLANNED_FROM - 1))

/** The command that registers a queue and makes it due; it goes before the job, in the same round trip. */
export const registerQueue = (queue: string): Command => ['ZADD', GLOBAL_KEYS.queues, touchedScore(), queue]

/** The same for a move of a job that may not exist: it registers no new queue. */
export const touchQueue = (queue: string): Command => [
  'ZADD',
  GLOBAL_KEYS.queues,
  'XX',
  touchedScore(),
  queue,
]

/** Whether an enqueue has made the queue due since the last visit. */
export const isTouched = ({ score }: Due): boolean => Number(score) < PLANNED_FROM

export const createRegistry = (port: RedisPort) => ({
  /** The names of all queues, in byte order. A member that is no queue name is skipped. */
  async names(): Promise<string[]> {
    const [reply] = await run(port, [['ZRANGE', GLOBAL_KEYS.queues, 0, -1]])
    return list(reply).map(text).filter(isQueueName).sort()
  },

  /** The stats of many queues in one round trip; `unreadable` names queues with a key of the wrong type. */
  stats: (queues: readonly string[]): Promise<{ readable: QueueStats[]; unreadable: string[] }> =>
    statsOf(port, queues),

  /** The members that are due at `serverMs`, longest overdue first. */
  async due(serverMs: number, limit: number): Promise<Due[]> {
    const range = ['BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES']
    const [reply] = await run(port, [['ZRANGE', GLOBAL_KEYS.queues, '-inf', Math.ceil(serverMs), ...range]])
    return groups(list(reply), 2).map(([queue, score]) => ({ queue: text(queue), score: text(score) }))
  },

  /** Plans the next visits, except of queues whose score has changed since it was read. */
  async postpone(visits: readonly (Due & { readonly nextVisitAt: number })[]): Promise<void> {
    const each = visits.map(({ queue, score, nextVisitAt }) => ({ queue, seenScore: score, nextVisitAt }))
    const [planned] = await run(port, [call('postpone', { each })])
    integer(planned)
  },

  /** Records when maintenance was last completed. */
  async mark(serverMs: number): Promise<void> {
    await run(port, [['SET', GLOBAL_KEYS.maintenance, Math.floor(serverMs)]])
  },
})
