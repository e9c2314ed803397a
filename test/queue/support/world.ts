/**
 * The world of one queue: everything that Redis stores of it, read at one instant. Tests compare it as a whole, so that
 * they see every key that a move changes.
 */
import { type Keyspace, keyspace } from '../../../src/protocol/keys.ts'
import { RedisError, type RedisPort, type Reply } from '../../../src/queue/redis.ts'
import { groups, integer, list, text } from '../../../src/queue/replies.ts'

export type Scores = Readonly<Record<string, number>>
export type Row = Readonly<Record<string, string>>

export type World = {
  readonly rows: Readonly<Record<string, Row>>
  readonly pending: Scores
  readonly active: Scores
  readonly schedule: Scores
  readonly dead: Scores
  readonly startBy: Scores
  readonly completed: number
  readonly failed: number
  readonly ghosts: number
  /** Every further key of the queue: settings, idempotency keys, remembered claims. */
  readonly others: Readonly<Record<string, unknown>>
}

/** A reply with its bytes as text. An error differs from a string of the same text. */
export type Readable = string | number | null | { readonly error: string } | readonly Readable[]

export function readable(reply: Reply | undefined): Readable {
  if (reply === undefined || reply === null) return null
  if (typeof reply === 'number') return reply
  if (reply instanceof RedisError) return { error: reply.text }
  if (reply instanceof Uint8Array) return new TextDecoder().decode(reply)
  return (reply as readonly Reply[]).map(readable)
}

const DUMP = `
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else value = {redis.call('GET', key)} end
  found[#found + 1] = {key, kind, value}
end
return {redis.call('TIME'), found}
`

/** Everything of a queue, and the server's time in ms. */
export async function look(port: RedisPort, queue: string): Promise<{ world: World; now: number }> {
  const keys = keyspace(queue)
  const [reply] = await port.send([['EVAL', DUMP, 0, `emq:{${queue}}:*`]])
  const [time, found] = list(reply)
  const [seconds, micros] = list(time).map(integer)
  const dump = new Map<string, Record<string, string> | string>()
  for (const entry of list(found)) {
    const [key, kind, value] = list(entry)
    const values = list(value).map(text)
    if (text(kind) === 'string') dump.set(text(key), values[0] ?? '')
    else dump.set(text(key), Object.fromEntries(pairs(values)))
  }
  const take = (key: string): Record<string, string> => {
    const value = dump.get(key) ?? {}
    dump.delete(key)
    return typeof value === 'string' ? { '': value } : value
  }
  const scores = (key: string): Scores =>
    Object.fromEntries(Object.entries(take(key)).map(([id, score]) => [id, Number(score)]))
  const count = (key: string): number => Number(take(key)['count'] ?? 0)
  const world = {
    pending: scores(keys.pending),
    active: scores(keys.active),
    schedule: scores(keys.schedule),
    dead: scores(keys.dead),
    startBy: scores(keys.startBy),
    completed: count(keys.completed),
    failed: count(keys.failed),
    ghosts: count(keys.ghosts),
    rows: rowsOf(dump, keys, take),
    others: Object.fromEntries(dump),
  }
  return { world, now: (seconds ?? 0) * 1000 + Math.floor((micros ?? 0) / 1000) }
}

function pairs(values: readonly string[]): [string, string][] {
  return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i] ?? '', values[2 * i + 1] ?? ''])
}

function rowsOf(
  dump: ReadonlyMap<string, unknown>,
  keys: Keyspace,
  take: (key: string) => Row,
): Record<string, Row> {
  const rows = [...dump.keys()].filter((key) => key.startsWith(keys.jobPrefix))
  return Object.fromEntries(
    rows.map((key) => {
      // When a job became pending or dead is tested on its own.
      const { since, died_at, ...row } = take(key)
      return [key.slice(keys.jobPrefix.length), row]
    }),
  )
}

/** A world with its instants as units of ten seconds from now, so that two worlds made a moment apart are equal. */
export function timeless(world: World, now: number): World {
  const relative = (scores: Scores): Scores =>
    Object.fromEntries(Object.entries(scores).map(([id, score]) => [id, Math.round((score - now) / 10_000)]))
  const rows = Object.entries(world.rows).map(([id, row]): [string, Row] => [
    id,
    Object.fromEntries(
      Object.entries(row).map(([field, value]) => [
        field,
        field.startsWith('error:') ? value.replace(/ \d{13} /, ' <now> ') : value,
      ]),
    ),
  ])
  return {
    ...world,
    active: relative(world.active),
    schedule: relative(world.schedule),
    rows: Object.fromEntries(rows),
  }
}

/** Pairs of a flat reply. */
export const pairsOf = (reply: Reply | undefined): Reply[][] => groups(list(reply), 2)

/** Deletes everything of a queue. */
export async function wipe(port: RedisPort, queue: string): Promise<void> {
  const script = `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end`
  await port.send([['EVAL', script, 0, `emq:{${queue}}:*`]])
}
