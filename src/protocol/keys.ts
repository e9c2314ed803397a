/**
 * Names: the grammar of queue names, patterns, idempotency keys, claim ids and wire versions, and the Redis keys.
 * A key is a template, written as in the headers of the scripts, and `fillKey` is the only code that fills one.
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

/** The Redis keys of one queue, as templates. */
export const KEY_TEMPLATES = {
  /** zset of ids, score 0: mint order. */
  pending: 'emq:{q}:pending',
  /** zset of ids by lease deadline, server ms. */
  active: 'emq:{q}:active',
  /** zset of ids by run-at, ms. */
  schedule: 'emq:{q}:schedule',
  /** zset of ids, score 0: the dead letters. */
  dead: 'emq:{q}:dead',
  /** hash: the settings; the queue is paused while the field `paused` exists. */
  meta: 'emq:{q}:meta',
  /** hash, field `count`: jobs completed. */
  completed: 'emq:{q}:metrics:completed',
  /** hash, field `count`: jobs that died. */
  failed: 'emq:{q}:metrics:failed',
  /** hash, field `count`: ghosts removed. */
  ghosts: 'emq:{q}:metrics:ghosts',
  /** zset of ids by `startBy`, ms: the jobs that expire unless a consumer starts them. */
  startBy: 'emq:{q}:start-by',
  /** hash: the row of a job. */
  job: 'emq:{q}:job:<id>',
  /** string with a TTL: the id of the job that was enqueued under an idempotency key. */
  idempotency: 'emq:{q}:de:<key>',
  /** string with a TTL: the ids of the batch that was enqueued under an idempotency key, in order. */
  batch: 'emq:{q}:de:<batchKey>',
  /** The jobs that a batch claim returned, with a TTL. */
  claim: 'emq:{q}:claim:<claimId>',
} as const

/**
 * The key of a template, or undefined when there is no value for one of its `<words>`.
 *
 * @throws {RangeError} when the queue name is invalid: an unchecked name must never become a key.
 *
 * @example
 * fillKey('emq:{q}:job:<id>', { q: 'emails', id: 'JOB0KHTOWnGLuC' }) // 'emq:{emails}:job:JOB0KHTOWnGLuC'
 */
export function fillKey(template: string, values: Readonly<Record<string, unknown>>): string | undefined {
  const { q } = values
  if (template.includes('{q}') && !(typeof q === 'string' && isQueueName(q)))
    throw new RangeError('Invalid queue name')
  let isComplete = true
  const key = template.replace(/\{q\}|<(\w+)>/g, (_, word: string | undefined) => {
    if (word === undefined) return `{${q}}`
    isComplete &&= values[word] !== undefined
    return String(values[word])
  })
  return isComplete ? key : undefined
}

type Words = 'job' | 'idempotency' | 'batch' | 'claim'

/** The Redis keys of one queue. */
export type Keyspace = { readonly [Name in Exclude<keyof typeof KEY_TEMPLATES, Words>]: string } & {
  readonly [Name in Words]: (word: string) => string
} & {
  /** The beginning of the key of every row; the id is the rest. */
  readonly jobPrefix: string
}

/**
 * The keys of a queue.
 *
 * @throws {RangeError} when the queue name is invalid.
 */
export function keyspace(queue: string): Keyspace {
  const entries = Object.entries(KEY_TEMPLATES).map(([name, template]) => {
    const fill = (word = ''): string =>
      fillKey(template, { q: queue, id: word, key: word, batchKey: word, claimId: word }) ?? ''
    return [name, template.includes('<') ? fill : fill()]
  })
  const keys = Object.fromEntries(entries) as Omit<Keyspace, 'jobPrefix'>
  return { ...keys, jobPrefix: keys.job('') }
}

/** The keys that belong to no queue: all in the slot `{emq}`. */
export const GLOBAL_KEYS = {
  /** string: the deployment's wire version. */
  version: '{emq}:version',
  /** zset of queue names by next visit of the maintenance, ms. */
  queues: '{emq}:queues',
  /** string: server ms of the last completed maintenance run. */
  maintenance: '{emq}:maintenance',
} as const
