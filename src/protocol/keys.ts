/**
 * The names: which texts are queues, patterns, idempotency keys, claim ids and wire versions, and under which Redis key
 * everything is kept. The only place that knows either.
 *
 * A queue name never holds a brace or a colon, so no name can reach another queue's keys, and the hash tag
 * `{q}` puts all keys of a queue into one slot of a Redis Cluster.
 */

// Without the flag `m`, `$` is the very end in JavaScript: a trailing newline does not match.
const QUEUE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const QUEUE_PREFIX = /^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,127})?\*$/
const IDEMPOTENCY_KEY = /^[A-Za-z0-9._:-]{1,255}$/
const CLAIM_ID = /^[A-Za-z0-9._:-]{1,128}$/
const WIRE_VERSION = /^[A-Za-z0-9._:+-]{0,127}[A-Za-z0-9]$/
const WIRE_PREFIX = /^[A-Za-z0-9._:+-]{1,127}[.*]$/

/** Whether a text is the name of a queue. `emq` is none: `{emq}` is the slot of the keys of no queue. */
export const isQueueName = (text: string): boolean => QUEUE_NAME.test(text) && text !== 'emq'

/** Whether a text is a queue pattern of a token: an exact name, or a prefix (also the empty one) and `*`. */
export const isQueuePattern = (text: string): boolean => isQueueName(text) || QUEUE_PREFIX.test(text)

/** Whether a queue falls under a pattern. Only a `*` at the end is special. */
export const queueMatches = (pattern: string, queue: string): boolean =>
  pattern.endsWith('*') ? queue.startsWith(pattern.slice(0, -1)) : queue === pattern

/** Whether a text may be the idempotency key of a job. */
export const isIdempotencyKey = (text: string): boolean => IDEMPOTENCY_KEY.test(text)

/** Whether a text may name a batch claim, so that it can be repeated. */
export const isClaimId = (text: string): boolean => CLAIM_ID.test(text)

/** Whether a text may be a wire version, the value of `{emq}:version`: `echomq:3.0.0`. */
export const isWireVersion = (text: string): boolean => WIRE_VERSION.test(text)

/**
 * Whether a text is a pattern of wire versions: an exact version, or a prefix, which ends in a dot (`echomq:3.`,
 * as no version does) or in `*` (`echomq:3*`).
 */
export const isWirePattern = (text: string): boolean => isWireVersion(text) || WIRE_PREFIX.test(text)

/** Whether a wire version falls under a pattern. */
export const wireMatches = (pattern: string, version: string): boolean => {
  if (pattern.endsWith('*')) return version.startsWith(pattern.slice(0, -1))
  return pattern.endsWith('.') ? version.startsWith(pattern) : version === pattern
}

/** The Redis keys of one queue. */
export type Keyspace = {
  /** zset of ids, score 0: mint order. */
  readonly pending: string
  /** zset of ids by lease deadline, server ms. */
  readonly active: string
  /** zset of ids by run-at, ms. */
  readonly schedule: string
  /** zset of ids, score 0: the morgue. */
  readonly dead: string
  /** hash: the settings; the field `paused` present means paused. */
  readonly meta: string
  /** hash, field `count`: jobs completed. */
  readonly completed: string
  /** hash, field `count`: jobs that died. */
  readonly failed: string
  /** hash, field `count`: ids met without a row. */
  readonly ghosts: string
  /** zset of ids by `startBy`, ms: the jobs that expire when nobody starts them. */
  readonly startBy: string
  /** What the key of every row begins with; the id is the rest. */
  readonly jobPrefix: string
  /** hash: the row of a job. */
  job(id: string): string
  /** string with a TTL: the id of the job that was enqueued under an idempotency key. */
  idempotency(key: string): string
  /** What a batch claim handed out, with a TTL. */
  claim(claimId: string): string
}

/**
 * The keys of a queue.
 *
 * @throws {RangeError} when the name is no queue name: an unchecked name must never become a key.
 */
export const keyspace = (queue: string): Keyspace => {
  if (!isQueueName(queue)) throw new RangeError('not a queue name')
  const prefix = `emq:{${queue}}:`
  const jobPrefix = `${prefix}job:`
  return {
    pending: `${prefix}pending`,
    active: `${prefix}active`,
    schedule: `${prefix}schedule`,
    dead: `${prefix}dead`,
    meta: `${prefix}meta`,
    completed: `${prefix}metrics:completed`,
    failed: `${prefix}metrics:failed`,
    ghosts: `${prefix}metrics:ghosts`,
    startBy: `${prefix}start-by`,
    jobPrefix,
    job: (id) => `${jobPrefix}${id}`,
    idempotency: (key) => `${prefix}de:${key}`,
    claim: (claimId) => `${prefix}claim:${claimId}`,
  }
}

/** The keys of no queue: all in the slot `{emq}`. */
export const GLOBAL_KEYS = {
  /** string: the deployment's wire version. */
  version: '{emq}:version',
  /** zset of queue names by next visit of the maintenance, ms. */
  queues: '{emq}:queues',
  /** string: server ms of the last completed maintenance run. */
  maintenance: '{emq}:maintenance',
} as const
