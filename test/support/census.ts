/**
 * The census: reads every key of a queue and compares it with the invariants of the protocol. Returns one sentence for
 * each violation; an empty list means that the queue is consistent.
 */
import { expect } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import type { RedisPort, Reply } from '../../src/queue/redis.ts'
import { groups, integer, list, optionalText, text } from '../../src/queue/replies.ts'

const STATE_OF_SET = { pending: 'pending', active: 'active', schedule: 'scheduled', dead: 'dead' } as const

async function scan(port: RedisPort, pattern: string): Promise<string[]> {
  const found: string[] = []
  let cursor = '0'
  do {
    const [reply] = await port.send([['SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000]])
    const [next, keys] = list(reply)
    cursor = text(next)
    found.push(...list(keys).map(text))
  } while (cursor !== '0')
  return found
}

/** A queue name as a glob that matches only itself. */
const literal = (queue: string): string => queue.replace(/[?*[\]\\]/g, '\\$&')

/** The violations of the invariants in one queue. */
export async function census(port: RedisPort, queue: string): Promise<string[]> {
  const keys = keyspace(queue)
  const violations: string[] = []
  const places = new Map<string, string[]>()
  for (const [set, state] of Object.entries(STATE_OF_SET) as [keyof typeof STATE_OF_SET, string][]) {
    const [members] = await port.send([['ZRANGE', keys[set], 0, -1, 'WITHSCORES']])
    for (const [member, score] of groups(list(members), 2)) {
      const id = text(member)
      places.set(id, [...(places.get(id) ?? []), state])
      if ((set === 'pending' || set === 'dead') && integer(score) !== 0)
        violations.push(`${id} has a score in ${set}`)
    }
  }
  const rows = (await scan(port, `${literal(keys.jobPrefix)}*`)).map((key) =>
    key.slice(keys.jobPrefix.length),
  )
  const replies: readonly Reply[] =
    rows.length === 0
      ? []
      : await port.send(rows.map((id) => ['HMGET', keys.job(id), 'state', 'attempts', 'payload']))
  for (const [nth, id] of rows.entries()) {
    const [state, attempts, payload] = list(replies[nth])
    const where = places.get(id) ?? []
    if (payload === null) violations.push(`${id} is a row without a payload`)
    if (attempts === null) violations.push(`${id} is a row without attempts`)
    if (where.length === 0) violations.push(`${id} is in no set`)
    if (where.length > 1) violations.push(`${id} is in ${where.join(' and ')}`)
    if (where.length === 1 && where[0] !== optionalText(state))
      violations.push(`${id} is in ${where[0]} and says ${optionalText(state)}`)
    places.delete(id)
  }
  for (const [id, where] of places) violations.push(`${id} is a ghost in ${where.join(' and ')}`)
  const [index] = await port.send([['ZRANGE', keys.startBy, 0, -1]])
  for (const id of list(index).map(text)) {
    if (!rows.includes(id)) violations.push(`${id} is indexed by its startBy and has no row`)
  }
  return violations
}

/** Checks that the census of each queue finds no violation. */
export async function expectConsistent(port: RedisPort, ...queues: readonly string[]): Promise<void> {
  for (const queue of queues) expect(await census(port, queue), queue).toEqual([])
}

/** Every key of a queue. */
export const keysOf = (port: RedisPort, queue: string): Promise<string[]> =>
  scan(port, `emq:{${literal(queue)}}:*`)

/** The keys that belong to no queue. */
export const globalKeys = Object.values(GLOBAL_KEYS)
