/**
 * Producing: batches whose jobs answer each for itself, idempotency keys, times, the depth cap, and ids that collide.
 */
import { describe, expect, test } from 'vitest'
import { createMinter } from '../../src/protocol/ids.ts'
import { accept, refuse } from '../../src/protocol/refusals.ts'
import { bind } from '../../src/queue/context.ts'
import { createDatabase } from '../../src/queue/database.ts'
import { enqueueMany } from '../../src/queue/produce.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { idsOf, outcome } from './support/results.ts'
import { look, serverNow, until } from './support/world.ts'

const redis = bareRedis()

const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`
const fresh = (): Hand => handOn(redis.port, freshQueue())
const producerOn = ({ port, queue, keys }: Pick<Hand, 'port' | 'queue' | 'keys'>, minter = createMinter()) =>
  bind({ port, queue, keys, minter }, { enqueueMany })
const world = async (hand: Hand) => (await look(redis.port, hand.queue)).world

async function clean({ queue }: Hand): Promise<void> {
  expect(await census(redis.port, queue)).toEqual([])
}

describe('a batch', () => {
  test('answers for each job in its place, and one bad job stops no other', async () => {
    const hand = fresh()
    await hand.enqueue(idOf(1), 'old')
    const results = await producerOn(hand).enqueueMany([
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
    const { rows } = await world(hand)
    expect(Object.fromEntries(Object.entries(rows).map(([id, { payload }]) => [id, payload]))).toEqual({
      [idOf(1)]: 'old',
      [idOf(2)]: 'b',
      [idOf(4)]: 'e',
    })
    await clean(hand)
  })

  test('of a thousand is one round trip, in mint order', async () => {
    const hand = fresh()
    let trips = 0
    const counting = {
      send: (commands: Parameters<typeof redis.port.send>[0]) => {
        trips += 1
        return redis.port.send(commands)
      },
    }
    const jobs = Array.from({ length: 1000 }, (_, n) => ({ payload: String(n) }))
    await producerOn(hand).enqueueMany([{ payload: 'load the script' }])
    const results = await producerOn({ ...hand, port: counting }).enqueueMany(jobs)
    expect(trips).toBe(1)
    const ids = idsOf(results)
    expect(new Set(ids).size).toBe(1000)
    expect(ids.toSorted()).toEqual(ids)
    await clean(hand)
  })

  test('leaves exactly the three fields of the contract in a plain row', async () => {
    const hand = fresh()
    await producerOn(hand).enqueueMany([{ payload: '{"n":9007199254740993}', id: idOf(1) }])
    const { rows, others, startBy } = await world(hand)
    expect(rows).toEqual({
      [idOf(1)]: { state: 'pending', attempts: '0', payload: '{"n":9007199254740993}' },
    })
    expect([others, startBy]).toEqual([{}, {}])
  })

  test('takes a time that has passed for now', async () => {
    const hand = fresh()
    const now = await serverNow(redis.port)
    await hand.enqueueMany([
      { id: idOf(1), runAt: now - 1 },
      { id: idOf(2), delayMs: 0 },
      { id: idOf(3), runAt: now + 60_000 },
      { id: idOf(4), delayMs: 60_000 },
    ])
    const { pending, schedule, rows } = await world(hand)
    expect(Object.keys(pending)).toEqual([1, 2].map(idOf))
    expect(schedule[idOf(3)]).toBe(now + 60_000)
    expect(schedule[idOf(4)]).toBeGreaterThanOrEqual(now + 60_000)
    expect(rows[idOf(3)]).toEqual({ state: 'scheduled', attempts: '0', payload: 'payload' })
    await clean(hand)
  })

  test('of jobs at one instant comes back in the order of their ids, and one of them can be taken out', async () => {
    const hand = fresh()
    const runAt = (await serverNow(redis.port)) + 20
    await hand.enqueueMany([3, 1, 2].map((n) => ({ id: idOf(n), runAt })))
    await hand.remove(idOf(2))
    await until(async () => Number(await hand.promote()) > 0)
    expect(await hand.claim()).toEqual([idOf(1), 'payload', 1])
    expect(await hand.claim()).toEqual([idOf(3), 'payload', 1])
    await clean(hand)
  })
})

describe('an idempotency key', () => {
  const keyed = (id: string, key: string, ttlMs = 60_000) => ({ id, idempotency: { key, ttlMs } })

  test('answers with the first job within its window, whatever became of that job', async () => {
    const hand = fresh()
    const producer = producerOn(hand)
    const [first] = await producer.enqueueMany([{ payload: 'a', idempotencyKey: 'k' }])
    const id = first?.ok ? first.value.id : ''
    const again = () => producer.enqueueMany([{ payload: 'b', idempotencyKey: 'k' }])
    expect(await again()).toEqual([accept({ id, status: 'duplicate' })])
    await hand.claim()
    expect(await again()).toEqual([accept({ id, status: 'duplicate' })])
    await hand.complete(id, 1)
    expect(await again()).toEqual([accept({ id, status: 'duplicate' })])
    expect((await world(hand)).rows).toEqual({})
    await clean(hand)
  })

  test('is forgotten after its window', async () => {
    const hand = fresh()
    await hand.enqueueMany([keyed(idOf(1), 'k', 15)])
    await until(async () => (await hand.send('EXISTS', hand.keys.idempotency('k'))) === 0)
    expect(await hand.enqueueMany([keyed(idOf(2), 'k')])).toEqual(['enqueued', idOf(2)])
  })

  test('twice in one batch names one job', async () => {
    const hand = fresh()
    const reply = await hand.enqueueMany([
      keyed(idOf(1), 'k'),
      { id: idOf(2) },
      keyed(idOf(3), 'k'),
      keyed(idOf(4), 'other'),
    ])
    expect(reply).toEqual([
      ...['enqueued', idOf(1), 'enqueued', idOf(2), 'duplicate', idOf(1), 'enqueued', idOf(4)],
    ])
    await clean(hand)
  })

  test('sent by many at once makes one job, and all are told its id', async () => {
    const hand = fresh()
    const ports = await Promise.all(Array.from({ length: 8 }, () => createRespPort(redis.url)))
    const answers = await Promise.all(
      ports.map((port) =>
        producerOn({ ...hand, port }).enqueueMany([{ payload: 'once', idempotencyKey: 'k' }]),
      ),
    )
    const ids = idsOf(answers.flat())
    expect(new Set(ids).size).toBe(1)
    const statuses = answers.flat().map((answer) => (answer.ok ? answer.value.status : ''))
    expect(statuses.filter((status) => status === 'enqueued')).toHaveLength(1)
    expect(Object.keys((await world(hand)).rows)).toHaveLength(1)
    for (const port of ports) port.close()
    await clean(hand)
  })

  test('of a refused job is not remembered', async () => {
    const hand = fresh()
    await hand.send('HSET', hand.keys.meta, 'maxPending', 1)
    await hand.enqueue(idOf(1))
    expect(await hand.enqueueMany([keyed(idOf(2), 'full')])).toEqual(['EMQFULL', idOf(2)])
    expect(await hand.enqueueMany([keyed('USR00000000003', 'kind')])).toEqual(['EMQKIND', 'USR00000000003'])
    const keys = await keysOf(redis.port, hand.queue)
    expect(keys.filter((key) => key.includes(':de:'))).toEqual([])
    await hand.claim()
    expect(await hand.enqueueMany([keyed(idOf(2), 'full')])).toEqual(['enqueued', idOf(2)])
    await clean(hand)
  })

  test('with an id of its own that is taken names the job that is there', async () => {
    const hand = fresh()
    await hand.enqueue(idOf(1))
    expect(await hand.enqueueMany([keyed(idOf(1), 'k')])).toEqual(['duplicate', idOf(1)])
    expect(await hand.enqueueMany([keyed(idOf(2), 'k')])).toEqual(['duplicate', idOf(1)])
    await clean(hand)
  })
})

describe('the depth cap', () => {
  test('takes exactly as many as there is room for from producers in parallel', async () => {
    const hand = fresh()
    await hand.send('HSET', hand.keys.meta, 'maxPending', 100)
    const ports = await Promise.all(Array.from({ length: 6 }, () => createRespPort(redis.url)))
    const answers = await Promise.all(
      ports.map(async (port, nth) => {
        const producer = producerOn({ ...hand, port }, createMinter({ random: () => nth / 10 }))
        const all = []
        for (let i = 0; i < 4; i++)
          all.push(...(await producer.enqueueMany(Array.from({ length: 7 }, () => ({ payload: 'x' })))))
        return all
      }),
    )
    const refused = answers.flat().filter((answer) => !answer.ok)
    expect(answers.flat()).toHaveLength(168)
    expect(refused).toHaveLength(68)
    expect(refused[0]).toEqual(refuse({ refused: 'overloaded' }))
    expect(Object.keys((await world(hand)).pending)).toHaveLength(100)
    for (const port of ports) port.close()
    await clean(hand)
  })

  test('of 0 is none, and a duplicate is a duplicate also on a full queue', async () => {
    const hand = fresh()
    await hand.send('HSET', hand.keys.meta, 'maxPending', 0)
    await hand.enqueueMany([{ id: idOf(1) }, { id: idOf(2) }])
    await hand.send('HSET', hand.keys.meta, 'maxPending', 2)
    expect(await hand.enqueueMany([{ id: idOf(1) }, { id: idOf(3) }])).toEqual([
      ...['duplicate', idOf(1), 'EMQFULL', idOf(3)],
    ])
  })
})

describe('ids that two minters both draw', () => {
  /** A minter whose clock stands and whose node is always the same at first, as a second isolate's may be. */
  const twin = (nodes = [0.5, 0.1, 0.7]) => {
    let drawn = 0
    return createMinter({ now: () => 1_800_000_000_000, random: () => nodes[drawn++ % nodes.length] ?? 0 })
  }

  test('are minted again, so that no job is lost', async () => {
    const hand = fresh()
    const payloads = (who: string) => Array.from({ length: 100 }, (_, n) => ({ payload: `${who} ${n}` }))
    const first = await producerOn(hand, twin()).enqueueMany(payloads('first'))
    const second = await producerOn(hand, twin([0.5, 0.2])).enqueueMany(payloads('second'))
    expect([...first, ...second].every((result) => result.ok && result.value.status === 'enqueued')).toBe(
      true,
    )
    const { rows } = await world(hand)
    expect(Object.values(rows).map(({ payload }) => payload)).toHaveLength(200)
    expect(new Set(Object.values(rows).map(({ payload }) => payload)).size).toBe(200)
    await clean(hand)
  })

  test('are soon drawn apart: a crowd of taken ids in a row does not use up the patience', async () => {
    const hand = fresh()
    await producerOn(hand, twin()).enqueueMany(Array.from({ length: 1000 }, () => ({ payload: 'first' })))
    const few = Array.from({ length: 3 }, () => ({ payload: 'second' }))
    expect(await producerOn(hand, twin([0.5, 0.2])).enqueueMany(few)).toMatchObject(
      few.map(() => ({ ok: true, value: { status: 'enqueued' } })),
    )
    await clean(hand)
  })

  test('let no idempotency key name the job of somebody else', async () => {
    const hand = fresh()
    await producerOn(hand, twin()).enqueueMany([{ payload: 'mine' }])
    const [answer] = await producerOn(hand, twin([0.5, 0.2])).enqueueMany([
      { payload: 'yours', idempotencyKey: 'k' },
    ])
    expect(answer).toMatchObject({ ok: true, value: { status: 'enqueued' } })
    const { rows, others } = await world(hand)
    const id = answer?.ok ? answer.value.id : ''
    expect(rows[id]?.['payload']).toBe('yours')
    expect(others).toEqual({ [hand.keys.idempotency('k')]: id })
    await clean(hand)
  })

  test('that a caller chose are duplicates and are not minted again', async () => {
    const hand = fresh()
    const job = { payload: 'x', id: idOf(7) }
    expect(await producerOn(hand).enqueueMany([job, job])).toEqual([
      accept({ id: idOf(7), status: 'enqueued' }),
      accept({ id: idOf(7), status: 'duplicate' }),
    ])
  })
})

test('an enqueue makes the queue known and due for maintenance in the same round trip', async () => {
  const queue = freshQueue()
  const database = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
  await database.queue(queue).enqueueMany([{ payload: 'x' }])
  const score = Number(await handOn(redis.port, queue).send('ZSCORE', '{emq}:queues', queue))
  expect(score).toBeGreaterThan(0)
  expect(score).toBeLessThan(2 ** 40)
})
