/** Enqueue: batches, idempotency keys, delays, the limit of pending jobs, ghosts, and ids that two minters draw. */
import { expect, test } from 'vitest'
import { createMinter, type Minter } from '../../src/protocol/ids.ts'
import { bind } from '../../src/queue/context.ts'
import { enqueueMany } from '../../src/queue/produce.ts'
import { keysOf } from '../support/census.ts'
import { until } from '../support/until.ts'
import { bareRedis, idOf, recording } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { idsOf, outcome } from './support/results.ts'
import { build, LATER_MS } from './support/states.ts'
import { look } from './support/world.ts'

const redis = bareRedis()

test('enqueue of a batch returns one result for each job in order, and rejects only the affected one', async () => {
  const hand = redis.fresh()
  await hand.enqueue(idOf(1), 'old')
  const results = await redis.queueOf(hand).enqueueMany([
    { payload: 'a', id: idOf(1) },
    { payload: 'b', id: idOf(2) },
    { payload: 'c', id: 'USR00000000003' },
    { payload: 'd', id: idOf(2) },
    { payload: 'e', id: idOf(4), delayMs: 50_000 },
  ])
  expect(results.map(outcome)).toEqual([
    { id: idOf(1), status: 'duplicate' },
    { id: idOf(2), status: 'enqueued' },
    { refused: 'wrong_kind' },
    { id: idOf(2), status: 'duplicate' },
    { id: idOf(4), status: 'scheduled' },
  ])
  expect(await payloadsOf(hand)).toEqual({ [idOf(1)]: 'old', [idOf(2)]: 'b', [idOf(4)]: 'e' })
  await redis.clean(hand)
})

test('enqueue of a thousand jobs is one round trip and mints their ids in order', async () => {
  const hand = redis.fresh()
  const { port, sent } = recording(redis.port)
  const jobs = Array.from({ length: 1000 }, (_, n) => ({ payload: String(n) }))
  // Loads the script.
  await redis.queueOf(hand).enqueueMany([{ payload: 'x' }])
  const ids = idsOf(await redis.queueOf(hand, { port }).enqueueMany(jobs))
  expect(sent).toHaveLength(1)
  expect(new Set(ids).size).toBe(1000)
  expect(ids.toSorted()).toEqual(ids)
  await redis.clean(hand)
})

test('enqueue makes the queue known and due for maintenance in the same round trip', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([])
  const { port, sent } = recording(redis.port)
  await redis.queueOf(hand, { port }).enqueueMany([{ payload: 'x' }])
  expect(sent).toHaveLength(1)
  const score = Number(await hand.send('ZSCORE', '{emq}:queues', hand.queue))
  // Scores below 2^40 are those of an enqueue, scores above it are planned visits.
  expect(score).toBeGreaterThanOrEqual(1)
  expect(score).toBeLessThan(2 ** 40)
})

test('enqueue writes exactly the three fields of the contract into a plain row', async () => {
  const hand = redis.fresh()
  await redis.queueOf(hand).enqueueMany([{ payload: '{"n":9007199254740993}', id: idOf(1) }])
  const row = { state: 'pending', attempts: '0', payload: '{"n":9007199254740993}' }
  const { rows, others, startBy } = await redis.world(hand)
  expect([rows, others, startBy]).toEqual([{ [idOf(1)]: row }, {}, {}])
})

test('enqueue makes a job pending when its runAt has passed, and scheduled before it', async () => {
  const hand = redis.fresh()
  const from = await redis.now()
  await hand.enqueueMany([
    { id: idOf(1), runAt: from - 1 },
    { id: idOf(2), delayMs: 0 },
    { id: idOf(3), runAt: from + 60_000 },
    { id: idOf(4), delayMs: 60_000 },
  ])
  const { world, now } = await look(redis.port, hand.queue)
  expect(Object.keys(world.pending)).toEqual([1, 2].map(idOf))
  expect(world.schedule[idOf(3)]).toBe(from + 60_000)
  expect(world.schedule[idOf(4)]).toBeGreaterThanOrEqual(from + 60_000)
  expect(world.schedule[idOf(4)]).toBeLessThanOrEqual(now + 60_000)
  expect(world.rows[idOf(3)]).toEqual({ state: 'scheduled', attempts: '0', payload: 'payload' })
  await redis.clean(hand)
})

test('an idempotency key returns the id of the first job, even after that job is completed', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'a', idempotencyKey: 'k' }]))
  const again = async () => (await queue.enqueueMany([{ payload: 'b', idempotencyKey: 'k' }])).map(outcome)
  expect(await again()).toEqual([{ id, status: 'duplicate' }])
  await hand.claim()
  expect(await again()).toEqual([{ id, status: 'duplicate' }])
  await hand.complete(id, 1)
  expect(await again()).toEqual([{ id, status: 'duplicate' }])
  expect((await redis.world(hand)).rows).toEqual({})
  await redis.clean(hand)
})

test('an idempotency key can be used again after it has expired', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([keyed(idOf(1), 'k', 15)])
  await until(async () => (await hand.send('EXISTS', hand.keys.idempotency('k'))) === 0)
  expect(await hand.enqueueMany([keyed(idOf(2), 'k')])).toEqual(['enqueued', idOf(2)])
})

test('an idempotency key twice in one batch makes one job', async () => {
  const hand = redis.fresh()
  const reply = await hand.enqueueMany([
    keyed(idOf(1), 'k'),
    { id: idOf(2) },
    keyed(idOf(3), 'k'),
    keyed(idOf(4), 'other'),
  ])
  expect(reply).toEqual([
    ...['enqueued', idOf(1), 'enqueued', idOf(2), 'duplicate', idOf(1), 'enqueued', idOf(4)],
  ])
  await redis.clean(hand)
})

test('eight enqueues at once with one idempotency key make one job, and all return its id', async () => {
  const hand = redis.fresh()
  const ports = await Promise.all(Array.from({ length: 8 }, redis.connect))
  const results = await Promise.all(
    ports.map((port) =>
      redis.queueOf(hand, { port }).enqueueMany([{ payload: 'once', idempotencyKey: 'k' }]),
    ),
  )
  const [id = ''] = Object.keys((await redis.world(hand)).rows)
  const statuses = results.flat().map((result) => (result.ok ? result.value.status : ''))
  expect(statuses.toSorted()).toEqual([...Array(7).fill('duplicate'), 'enqueued'])
  expect(idsOf(results.flat())).toEqual(Array(8).fill(id))
  await redis.clean(hand)
})

test('the idempotency key of a rejected job is not stored', async () => {
  const hand = redis.fresh()
  await hand.set('maxPending', 1)
  await hand.enqueue(idOf(1))
  expect(await hand.enqueueMany([keyed(idOf(2), 'full')])).toEqual(['EMQFULL', idOf(2)])
  expect(await hand.enqueueMany([keyed('USR00000000003', 'kind')])).toEqual(['EMQKIND', 'USR00000000003'])
  const keys = await keysOf(redis.port, hand.queue)
  expect(keys.filter((key) => key.includes(':de:'))).toEqual([])
  await hand.claim()
  expect(await hand.enqueueMany([keyed(idOf(2), 'full')])).toEqual(['enqueued', idOf(2)])
  await redis.clean(hand)
})

test('the idempotency key of a job whose id exists returns that id from then on', async () => {
  const hand = redis.fresh()
  await hand.enqueue(idOf(1))
  expect(await hand.enqueueMany([keyed(idOf(1), 'k')])).toEqual(['duplicate', idOf(1)])
  expect(await hand.enqueueMany([keyed(idOf(2), 'k')])).toEqual(['duplicate', idOf(1)])
  await redis.clean(hand)
})

test('parallel enqueues fill the limit of pending jobs exactly, and the others are rejected as overloaded', async () => {
  const hand = redis.fresh()
  await hand.set('maxPending', 100)
  const ports = await Promise.all(Array.from({ length: 6 }, redis.connect))
  const results = await Promise.all(
    ports.map(async (port, nth) => {
      const enqueue = minting({ ...hand, port }, createMinter({ random: () => nth / 10 }))
      const all = []
      for (let i = 0; i < 4; i++) all.push(...(await enqueue(Array(7).fill({ payload: 'x' }))))
      return all
    }),
  )
  const rejected = results.flat().filter((result) => !result.ok)
  expect(results.flat()).toHaveLength(168)
  expect(rejected.map(outcome)).toEqual(Array(68).fill({ refused: 'overloaded' }))
  expect(Object.keys((await redis.world(hand)).pending)).toHaveLength(100)
  await redis.clean(hand)
})

test('a limit of pending jobs of 0 is no limit, and a duplicate is not rejected on a full queue', async () => {
  const hand = redis.fresh()
  await hand.set('maxPending', 0)
  expect(await hand.enqueueMany([{ id: idOf(1) }, { id: idOf(2) }])).toEqual([
    ...['enqueued', idOf(1), 'enqueued', idOf(2)],
  ])
  await hand.set('maxPending', 2)
  expect(await hand.enqueueMany([{ id: idOf(1) }, { id: idOf(3) }])).toEqual([
    ...['duplicate', idOf(1), 'EMQFULL', idOf(3)],
  ])
})

test('enqueue of the id of a half row takes over none of its fields', async () => {
  const hand = redis.fresh()
  await build('half a row in active', hand, idOf(1))
  await hand.enqueueMany([{ id: idOf(1), payload: 'new' }])
  expect(await redis.row(hand)).toEqual({ state: 'pending', attempts: '0', payload: 'new' })
  expect(await hand.claim()).toEqual([idOf(1), 'new', 1])
  await redis.clean(hand)
})

test.each([
  ['enqueued', 0],
  ['scheduled', LATER_MS],
])(
  'enqueue of a caller-chosen id that is %s removes its ghosts from all four sets',
  async (word, delayMs) => {
    const hand = redis.fresh()
    await hand.enqueue(idOf(2))
    for (const set of ['pending', 'active', 'schedule', 'dead'] as const)
      await hand.send('ZADD', hand.keys[set], 0, idOf(1))
    expect(await hand.enqueueMany([{ id: idOf(1), delayMs }])).toEqual([word, idOf(1)])
    await redis.clean(hand)
  },
)

test('enqueue of the id of a ghost with a startBy makes a job that does not expire', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: idOf(1), startBy: (await redis.now()) - 1 }])
  await hand.send('DEL', hand.keys.job(idOf(1)))
  await hand.enqueueMany([{ id: idOf(1) }])
  await hand.sweep()
  const { rows, startBy } = await redis.world(hand)
  expect(rows[idOf(1)]).toEqual({ state: 'pending', attempts: '0', payload: 'payload' })
  expect(startBy).toEqual({})
  await redis.clean(hand)
})

test('enqueue mints ids again that another minter has used, so that no job is lost', async () => {
  const hand = redis.fresh()
  const payloads = (who: string) => Array.from({ length: 100 }, (_, n) => ({ payload: `${who} ${n}` }))
  const results = [
    ...(await minting(hand, twin())(payloads('first'))),
    ...(await minting(hand, twin([0.5, 0.2]))(payloads('second'))),
  ]
  expect(results.map((result) => result.ok && result.value.status)).toEqual(Array(200).fill('enqueued'))
  const stored = Object.values(await payloadsOf(hand))
  const expected = [...payloads('first'), ...payloads('second')].map(({ payload }) => payload)
  expect(stored.toSorted()).toEqual(expected.toSorted())
  await redis.clean(hand)
})

test('enqueue finds free ids although another minter has used a thousand in a row', async () => {
  const hand = redis.fresh()
  await minting(hand, twin())(Array(1000).fill({ payload: 'first' }))
  const results = await minting(hand, twin([0.5, 0.2]))(Array(3).fill({ payload: 'second' }))
  expect(results.map((result) => result.ok && result.value.status)).toEqual(Array(3).fill('enqueued'))
  await redis.clean(hand)
})

test('an idempotency key is stored with the id that was minted again, not with the id of another job', async () => {
  const hand = redis.fresh()
  await minting(hand, twin())([{ payload: 'mine' }])
  const results = await minting(hand, twin([0.5, 0.2]))([{ payload: 'yours', idempotencyKey: 'k' }])
  const [id = ''] = idsOf(results)
  expect(results.map(outcome)).toEqual([{ id, status: 'enqueued' }])
  const { rows, others } = await redis.world(hand)
  expect(rows[id]?.['payload']).toBe('yours')
  expect(others).toEqual({ [hand.keys.idempotency('k')]: id })
  await redis.clean(hand)
})

test('enqueue returns a caller-chosen id that exists as a duplicate, and does not mint another', async () => {
  const hand = redis.fresh()
  const job = { payload: 'x', id: idOf(7) }
  expect((await redis.queueOf(hand).enqueueMany([job, job])).map(outcome)).toEqual([
    { id: idOf(7), status: 'enqueued' },
    { id: idOf(7), status: 'duplicate' },
  ])
})

function keyed(id: string, key: string, ttlMs = 60_000) {
  return { id, idempotency: { key, ttlMs } }
}

/** Enqueues with ids of a given minter. */
function minting({ port, queue, keys }: Pick<Hand, 'port' | 'queue' | 'keys'>, minter: Minter) {
  return bind({ port, queue, keys, minter }, { enqueueMany }).enqueueMany
}

/** A minter whose clock stands still and that begins with the same node as its twin in another isolate. */
function twin(nodes = [0.5, 0.1, 0.7]): Minter {
  let drawn = 0
  return createMinter({ now: () => 1_800_000_000_000, random: () => nodes[drawn++ % nodes.length] ?? 0 })
}

async function payloadsOf(hand: Hand): Promise<Record<string, string | undefined>> {
  const { rows } = await redis.world(hand)
  return Object.fromEntries(Object.entries(rows).map(([id, { payload }]) => [id, payload]))
}
