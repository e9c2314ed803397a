/**
 * The registry of queues: which exist, and when maintenance should look at each of them next.
 *
 * A score is the next visit, in ms of the server's clock. An enqueue writes a score of its own that lies far in the
 * past and is drawn at random: the queue is due at once, and a visit that was planned from an older score does not
 * overwrite it. So no clock of ours is needed to enqueue, and no enqueue is ever forgotten.
 */
import { GLOBAL_KEYS } from '../protocol/keys.ts'
import type { Command } from './redis.ts'

/** Scores below this one (a day in 2004, in ms) were written by an enqueue; scores above it are planned visits. */
const PLANNED_FROM = 2 ** 40

const touchedScore = (): number => 1 + Math.floor(Math.random() * (PLANNED_FROM - 1))

/** The command that makes a queue known and due; it goes before the job, in the same round trip. */
export const registerQueue = (queue: string): Command => ['ZADD', GLOBAL_KEYS.queues, touchedScore(), queue]

/** The same for a move of a job that may not be there: a queue that is not known does not become so by it. */
export const touchQueue = (queue: string): Command => [
  'ZADD',
  GLOBAL_KEYS.queues,
  'XX',
  touchedScore(),
  queue,
]

/** Whether somebody has enqueued since the last visit. */
export const isTouched = (score: number): boolean => score < PLANNED_FROM
