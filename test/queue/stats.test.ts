/** Stats of one queue and of many, the settings that they show, and the registry. */
import { expect, test } from 'vitest'
import { createDatabase } from '../../src/queue/database.ts'
import { bareRedis, idOf } from './support/bare.ts'
import { put } from './support/listed.ts'

const redis = bareRedis()
const DEFAULTS = {
  ...{ maxAttempts: 5, leaseMs: 30_000, maxActive: 0, maxPending: 0 },
  backoff: { baseMs: 1_000, maxMs: 600_000 },
}

test('stats of an unused queue have no job and the default settings', async () => {
  const hand = redis.fresh()
  expect(await redis.queueOf(hand).stats()).toEqual({
    ...{ queue: hand.queue, known: false, paused: false, completed: 0, failed: 0, ghosts: 0 },
    counts: { pending: 0, active: 0, scheduled: 0, dead: 0 },
    settings: DEFAULTS,
  })
})

test('stats return the count of each state, the oldest pending job and the next instants', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await put(hand, 'pending', idOf(3))
  await put(hand, 'pending', idOf(2))
  await put(hand, 'active', idOf(4), 111)
  await put(hand, 'scheduled', idOf(5), 222)
  await put(hand, 'scheduled', idOf(6), 333)
  await put(hand, 'dead', idOf(7))
  await queue.pause()
  await queue.changeSettings({ maxAttempts: 9, backoff: { baseMs: 7 }, leaseMs: 11, maxPending: 5 })
  expect(await queue.stats()).toEqual({
    ...{ queue: hand.queue, known: true, paused: true, completed: 0, failed: 0, ghosts: 0 },
    ...{ oldestPending: idOf(2), nextDueMs: 222, nextLapseMs: 111 },
    counts: { pending: 2, active: 1, scheduled: 2, dead: 1 },
    settings: {
      ...{ maxAttempts: 9, leaseMs: 11, maxActive: 0, maxPending: 5 },
      backoff: { baseMs: 7, maxMs: 600_000 },
    },
  })
})

test('stats of many queues are in their order, and a queue with a key of the wrong type is listed as unreadable', async () => {
  const [one, two, unused] = [redis.fresh(), redis.fresh(), redis.fresh()]
  await put(one, 'pending', idOf(1))
  await put(two, 'dead', idOf(2))
  const queues = [one.queue, two.queue, unused.queue]
  const { registry } = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
  const { readable } = await registry.stats(queues)
  expect(readable.map(({ counts, known }) => [counts.pending, counts.dead, known])).toEqual([
    [1, 0, true],
    [0, 1, true],
    [0, 0, false],
  ])
  expect(await registry.stats([])).toEqual({ readable: [], unreadable: [] })

  await two.send('DEL', two.keys.dead)
  await two.send('SET', two.keys.dead, 'x')
  const after = await registry.stats(queues)
  expect(after.readable.map(({ queue }) => queue)).toEqual([one.queue, unused.queue])
  expect(after.unreadable).toEqual([two.queue])
})

test('a change of settings keeps the others, and null restores a default', async () => {
  const queue = redis.queueOf()
  const backoff = { baseMs: 5, maxMs: 6 }
  await queue.changeSettings({ maxAttempts: 3, maxActive: 4, backoff })
  const changed = { ...DEFAULTS, maxActive: 4, leaseMs: 70, backoff }
  expect(await queue.changeSettings({ maxAttempts: null, leaseMs: 70 })).toEqual(changed)
  expect(await queue.changeSettings({ backoff: null })).toEqual({ ...changed, backoff: DEFAULTS.backoff })
  const last = { ...changed, maxActive: 0, backoff: { baseMs: 1_000, maxMs: 99 } }
  expect(await queue.changeSettings({ backoff: { maxMs: 99 }, maxActive: 0 })).toEqual(last)
  expect(await queue.changeSettings({})).toEqual(last)
})

test('the registry returns the names of queues in byte order', async () => {
  const names = ['b', 'B', 'a', 'a.1']
  await redis.port.send(names.map((name) => ['ZADD', '{emq}:queues', 5, name]))
  const { registry } = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
  const found = (await registry.names()).filter((name) => names.includes(name))
  expect(found).toEqual(['B', 'a', 'a.1', 'b'])
})

test('browse returns the newest pending jobs first, and pendingSize counts all of them', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  for (const n of [2, 3, 1]) await hand.enqueue(idOf(n))
  expect(await queue.browse(2)).toEqual([3, 2].map(idOf))
  expect(await queue.pendingSize()).toBe(3)
})
