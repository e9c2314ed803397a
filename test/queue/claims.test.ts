/**
 * Claiming: batches, repeated claims, caps, pauses, starts in time, and the two ways of the queue's own claim.
 */
import { describe, expect, test } from 'vitest'
import { createDatabase } from '../../src/queue/database.ts'
import type { Command, RedisPort } from '../../src/queue/redis.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { outcome } from './support/results.ts'
import { look, serverNow, untilServer } from './support/world.ts'

const redis = bareRedis()

const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`
const fresh = (): Hand => handOn(redis.port, freshQueue())
const set = (hand: Hand, ...fields: (string | number)[]) => hand.send('HSET', hand.keys.meta, ...fields)

async function filled(count: number): Promise<Hand> {
  const hand = fresh()
  for (let n = 1; n <= count; n++) await hand.enqueue(idOf(n), `payload ${n}`)
  return hand
}

type Batch = { status: string; nextMs: number; ids: string[]; tokens: string[]; leases: number[] }

function batch(reply: unknown): Batch {
  const [status, nextMs, ...jobs] = reply as [string, number, ...(string | number)[]]
  const every = <T>(offset: number) => jobs.filter((_, i) => i % 7 === offset) as T[]
  return { status, nextMs, ids: every(0), tokens: every(2), leases: every(3) }
}

async function clean({ queue }: Hand): Promise<void> {
  expect(await census(redis.port, queue)).toEqual([])
}

describe('a batch claim', () => {
  test('gives the oldest jobs in mint order, whatever the order they came in', async () => {
    const hand = fresh()
    for (const n of [5, 1, 4, 2, 3]) await hand.enqueue(idOf(n))
    expect(batch(await hand.claimMany(3)).ids).toEqual([1, 2, 3].map(idOf))
    expect(batch(await hand.claimMany(100)).ids).toEqual([4, 5].map(idOf))
    expect(batch(await hand.claimMany(100)).ids).toEqual([])
    await clean(hand)
  })

  test('185: stops short of 4 MiB of payload, and gives the rest to the next one, in order', async () => {
    const hand = fresh()
    const mebibyte = 'x'.repeat(1024 * 1024)
    for (let n = 1; n <= 6; n++) await hand.enqueue(idOf(n), mebibyte)
    expect(batch(await hand.claimMany(100)).ids).toEqual([1, 2, 3, 4].map(idOf))
    const { world } = await look(redis.port, hand.queue)
    expect(Object.keys(world.pending)).toEqual([5, 6].map(idOf))
    expect(world.rows[idOf(5)]).toMatchObject({ state: 'pending', attempts: '0' })
    expect(batch(await hand.claimMany(100)).ids).toEqual([5, 6].map(idOf))
    await clean(hand)
  })

  test('gives a job that is larger than that alone rather than never', async () => {
    const hand = fresh()
    await hand.enqueue(idOf(1), 'x'.repeat(9 * 1024 * 1024))
    await hand.enqueue(idOf(2), 'small')
    expect(batch(await hand.claimMany(100)).ids).toEqual([idOf(1)])
    expect(batch(await hand.claimMany(100)).ids).toEqual([idOf(2)])
    await clean(hand)
  })

  test('finds the one job behind hundreds of ids that are none, whatever its limit', async () => {
    const ids = Array.from({ length: 900 }, (_, n) => idOf(n + 1))
    for (const limit of [1, 10, 100]) {
      const hand = fresh()
      await hand.send('ZADD', hand.keys.pending, ...ids.flatMap((id) => [0, id]))
      await hand.enqueue(idOf(9_999), 'good')
      expect(batch(await hand.claimMany(limit)).ids).toEqual([idOf(9_999)])
      expect(await hand.send('HGET', hand.keys.ghosts, 'count')).toBe('900')
      await clean(hand)
    }
  })

  test('that found only such ids and looked at no more of them says that it pays to come again at once', async () => {
    const hand = fresh()
    const ids = Array.from({ length: 1_500 }, (_, n) => idOf(n + 1))
    await hand.send('ZADD', hand.keys.pending, ...ids.flatMap((id) => [0, id]))
    expect(batch(await hand.claimMany(1))).toMatchObject({ ids: [], nextMs: 0 })
    expect(batch(await hand.claimMany(1))).toMatchObject({ ids: [], nextMs: -1 })
  })

  test('promotes what is due and reaps what has lapsed in the same run, and gives it', async () => {
    const hand = await filled(1)
    await hand.claim(0)
    await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
    await hand.enqueueMany([{ id: idOf(3), delayMs: 100_000 }])
    await untilServer(redis.port, (await serverNow(redis.port)) + 2)
    const { ids, tokens } = batch(await hand.claimMany(100))
    expect([ids, tokens]).toEqual([
      [idOf(1), idOf(2)],
      ['2', '1'],
    ])
    await clean(hand)
  })

  test('that is empty tells in how many ms the next job is due or lapses', async () => {
    const hand = fresh()
    expect(batch(await hand.claimMany(1)).nextMs).toBe(-1)
    await hand.enqueueMany([{ id: idOf(1), delayMs: 50_000 }])
    const due = batch(await hand.claimMany(1)).nextMs
    expect(due).toBeLessThanOrEqual(50_000)
    expect(due).toBeGreaterThan(40_000)
    await hand.enqueue(idOf(2))
    await hand.claim(20_000)
    const lapse = batch(await hand.claimMany(1)).nextMs
    expect(lapse).toBeLessThanOrEqual(20_000)
    expect(lapse).toBeGreaterThan(10_000)
  })

  test('takes the lease of the queue when it names none, and 30 s when nobody does', async () => {
    const hand = await filled(2)
    expect(batch(await hand.claimMany(1, '')).leases).toEqual([30_000])
    await set(hand, 'leaseMs', 77_000)
    expect(batch(await hand.claimMany(1, '')).leases).toEqual([77_000])
  })

  test('gives nothing on a paused queue and says so, and still brings in what is due', async () => {
    const hand = await filled(1)
    await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
    await set(hand, 'paused', '')
    await untilServer(redis.port, (await serverNow(redis.port)) + 2)
    expect(batch(await hand.claimMany(10))).toMatchObject({ status: 'paused', ids: [] })
    expect(Object.keys((await look(redis.port, hand.queue)).world.pending)).toHaveLength(2)
    await hand.send('HDEL', hand.keys.meta, 'paused')
    expect(batch(await hand.claimMany(10)).ids).toHaveLength(2)
    await clean(hand)
  })
})

describe('a repeated claim', () => {
  test('gives the same jobs with the same tokens and what is left of the lease', async () => {
    const hand = await filled(5)
    const first = batch(await hand.claimMany(3, 60_000, 'claim-1'))
    const { now } = await look(redis.port, hand.queue)
    await untilServer(redis.port, now + 5)
    const again = batch(await hand.claimMany(3, 60_000, 'claim-1'))
    expect([again.ids, again.tokens]).toEqual([first.ids, first.tokens])
    for (const lease of again.leases) {
      expect(lease).toBeLessThan(60_000)
      expect(lease).toBeGreaterThan(50_000)
    }
    expect(batch(await hand.claimMany(3, 60_000, 'claim-2')).ids).toEqual([4, 5].map(idOf))
    expect(batch(await hand.claimMany(3, 60_000)).ids).toEqual([])
    await clean(hand)
  })

  test('gives them whether or not anything else is pending, and no more of it', async () => {
    const hand = await filled(3)
    const first = batch(await hand.claimMany(2, 60_000, 'claim-1'))
    for (const others of [1, 0]) {
      expect(await hand.send('ZCARD', hand.keys.pending)).toBe(others)
      const again = batch(await hand.claimMany(2, 60_000, 'claim-1'))
      expect([again.ids, again.tokens]).toEqual([first.ids, first.tokens])
      await hand.claimMany(2, 60_000, 'claim-2')
    }
    await clean(hand)
  })

  test('gives only those that are still live', async () => {
    const hand = await filled(6)
    await hand.claimMany(5, 60_000, 'c')
    await hand.settle([
      { action: 'complete', id: idOf(1), token: 1 },
      { action: 'retry', id: idOf(2), token: 1, ms: 50_000, maxAttempts: 0 },
      { action: 'release', id: idOf(3), token: 1, ms: 0 },
    ])
    await hand.claim()
    expect(batch(await hand.claimMany(5, 60_000, 'c')).ids).toEqual([4, 5].map(idOf))
    await clean(hand)
  })

  test('is a new claim when nothing of it is left', async () => {
    const hand = await filled(3)
    await hand.claimMany(1, 60_000, 'c')
    await hand.complete(idOf(1), 1)
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(2)])
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(2)])
    await clean(hand)
  })

  test('gives no job whose lease has run out, nor one that somebody else has claimed since', async () => {
    const hand = await filled(1)
    await hand.claimMany(1, 1, 'c')
    await untilServer(redis.port, (await serverNow(redis.port)) + 2)
    const again = batch(await hand.claimMany(1, 60_000, 'c'))
    expect([again.ids, again.tokens]).toEqual([[idOf(1)], ['2']])
    await hand.settle([{ action: 'release', id: idOf(1), token: 2, ms: 0 }])
    await hand.claimMany(1, 60_000, 'other')
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([])
    await clean(hand)
  })

  test('gives no job whose lease was cut short and has run out, though the claim is still remembered', async () => {
    const hand = await filled(1)
    await hand.claimMany(1, 60_000, 'c')
    await hand.settle([{ action: 'extend', id: idOf(1), token: 1, ms: 0 }])
    await untilServer(redis.port, (await serverNow(redis.port)) + 1)
    const again = batch(await hand.claimMany(1, 60_000, 'c'))
    expect([again.ids, again.tokens, again.leases]).toEqual([[idOf(1)], ['2'], [60_000]])
    await clean(hand)
  })

  test('of a claim that gave nothing is a claim like any other', async () => {
    const hand = fresh()
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([])
    await hand.enqueue(idOf(1))
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
  })

  test('gives its jobs also while the queue is paused or full: they are its own', async () => {
    const hand = await filled(2)
    await hand.claimMany(1, 60_000, 'c')
    await set(hand, 'maxActive', 1)
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
    await set(hand, 'paused', 1)
    expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
  })

  test('sent many times at once takes one batch and no more', async () => {
    const hand = await filled(10)
    const ports = await Promise.all(Array.from({ length: 8 }, () => createRespPort(redis.url)))
    const replies = await Promise.all(
      ports.map((port) => handOn(port, hand.queue).claimMany(3, 60_000, 'c').then(batch)),
    )
    for (const { ids, tokens } of replies) {
      expect(ids).toEqual([1, 2, 3].map(idOf))
      expect(tokens).toEqual(['1', '1', '1'])
    }
    for (const port of ports) port.close()
    await clean(hand)
  })

  test('is remembered for a minute longer than its leases, and then forgotten', async () => {
    const hand = await filled(1)
    await hand.claimMany(1, 20, 'c')
    const ttl = Number(await hand.send('PTTL', hand.keys.claim('c')))
    expect(ttl).toBeGreaterThan(20)
    expect(ttl).toBeLessThanOrEqual(60_020)
  })
})

describe('the cap on active jobs', () => {
  test('is never passed by claims in parallel, and is used up to the last place', async () => {
    const hand = await filled(60)
    await set(hand, 'maxActive', 25)
    const ports = await Promise.all(Array.from({ length: 6 }, () => createRespPort(redis.url)))
    const given: string[] = []
    await Promise.all(
      ports.map(async (port, nth) => {
        const own = handOn(port, hand.queue)
        for (let i = 0; i < 4; i++) given.push(...batch(await own.claimMany(1 + nth, 60_000)).ids)
      }),
    )
    expect(given).toHaveLength(25)
    expect(new Set(given).size).toBe(25)
    expect(batch(await hand.claimMany(1)).status).toBe('full')

    await hand.complete(given[0] ?? '', 1)
    expect(batch(await hand.claimMany(100)).ids).toHaveLength(1)
    for (const port of ports) port.close()
    await clean(hand)
  })

  test('of 0 is no cap, and one below the present number gives nothing and takes nothing back', async () => {
    const hand = await filled(5)
    await set(hand, 'maxActive', 0)
    expect(batch(await hand.claimMany(3)).ids).toHaveLength(3)
    await set(hand, 'maxActive', 1)
    expect(batch(await hand.claimMany(3)).ids).toHaveLength(0)
    expect(Object.keys((await look(redis.port, hand.queue)).world.active)).toHaveLength(3)
  })

  test('counts a lapsed lease no more: its place is free at once', async () => {
    const hand = await filled(2)
    await set(hand, 'maxActive', 1)
    await hand.claimMany(1, 1)
    await untilServer(redis.port, (await serverNow(redis.port)) + 2)
    expect(batch(await hand.claimMany(5)).ids).toEqual([idOf(1)])
    await clean(hand)
  })
})

describe('a job that was to start by a certain time', () => {
  test('is given before it and expires after it', async () => {
    const hand = fresh()
    const now = await serverNow(redis.port)
    await hand.enqueueMany([
      { id: idOf(1), startBy: now - 1 },
      { id: idOf(2), startBy: now + 100_000 },
      { id: idOf(3) },
    ])
    expect(batch(await hand.claimMany(10)).ids).toEqual([2, 3].map(idOf))
    const { world } = await look(redis.port, hand.queue)
    expect(world.rows[idOf(1)]).toMatchObject({ state: 'dead', last_error: 'expired', attempts: '0' })
    expect(world.failed).toBe(1)
    expect(world.startBy).toEqual({})
    await clean(hand)
  })

  test('has started once it was claimed: a late second attempt is made all the same', async () => {
    for (const give of ['release', 'retry', 'lapse'] as const) {
      const hand = fresh()
      const startBy = (await serverNow(redis.port)) + 60
      await hand.enqueueMany([{ id: idOf(1), startBy }])
      await hand.claim(give === 'lapse' ? 1 : 60_000)
      if (give === 'release') await hand.settle([{ action: 'release', id: idOf(1), token: 1, ms: 0 }])
      if (give === 'retry') await hand.retry(idOf(1), 1, 0, 0)
      await untilServer(redis.port, startBy + 1)
      await hand.sweep()
      expect(batch(await hand.claimMany(1)).tokens).toEqual(['2'])
      expect((await look(redis.port, hand.queue)).world.startBy).toEqual({})
      await clean(hand)
    }
  })

  test('expires in a crowd without holding up a job behind it', async () => {
    const hand = fresh()
    const past = (await serverNow(redis.port)) - 1
    await hand.enqueueMany(Array.from({ length: 30 }, (_, n) => ({ id: idOf(n), startBy: past })))
    await hand.enqueue(idOf(99))
    expect(batch(await hand.claimMany(5)).ids).toEqual([idOf(99)])
    expect((await look(redis.port, hand.queue)).world.failed).toBe(30)
    await clean(hand)
  })

  test('has no such time any more after a redrive', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: idOf(1), startBy: (await serverNow(redis.port)) - 1 }])
    await hand.sweep()
    await hand.redrive(idOf(1))
    await hand.sweep()
    expect(batch(await hand.claimMany(1)).ids).toEqual([idOf(1)])
    await clean(hand)
  })
})

describe("the queue's own claim without a limit", () => {
  type Recorder = { port: RedisPort; sent: Command[][] }
  const recorder = (): Recorder => {
    const sent: Command[][] = []
    return {
      sent,
      port: {
        send(commands) {
          sent.push([...commands])
          return redis.port.send(commands)
        },
      },
    }
  }
  const databaseOn = (port: RedisPort, now: () => number) =>
    createDatabase(port, { wireAccept: ['echomq:2.', 'echomq:3.'], wireClaim: undefined }, now)

  test('is one run of the contract and nothing beside it, but for a look once a second', async () => {
    const hand = await filled(4)
    const { port, sent } = recorder()
    let clock = 0
    const queue = databaseOn(port, () => clock).queue(hand.queue)
    const claims = async () => (await queue.claim({})).jobs.map(({ id }) => id)

    expect(await claims()).toEqual([idOf(1)])
    const first = sent.length
    expect(await claims()).toEqual([idOf(2)])
    expect(sent.slice(first)).toHaveLength(1)
    expect(sent[first]?.[0]?.[0]).toBe('EVALSHA')
    clock = 999
    expect(await claims()).toEqual([idOf(3)])
    expect(sent).toHaveLength(first + 2)
    clock = 1000
    expect(await claims()).toEqual([idOf(4)])
    expect(sent).toHaveLength(first + 4)
    await clean(hand)
  })

  test('sees within a second what is due and what has lapsed', async () => {
    const hand = await filled(1)
    await hand.claim(1)
    await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
    await untilServer(redis.port, (await serverNow(redis.port)) + 2)
    const queue = databaseOn(redis.port, () => 0).queue(hand.queue)
    const jobs = [await queue.claim({}), await queue.claim({})].flatMap(({ jobs }) => jobs)
    expect(jobs.map(({ id, token }) => [id, token])).toEqual([
      [idOf(1), 2],
      [idOf(2), 1],
    ])
    await clean(hand)
  })

  test('stops within a second of a pause by others, and at once of its own', async () => {
    const hand = await filled(3)
    let clock = 0
    const database = databaseOn(redis.port, () => clock)
    const queue = database.queue(hand.queue)
    await queue.claim({})
    await set(hand, 'paused', 1)
    clock = 1000
    expect(await queue.claim({})).toEqual({ jobs: [], paused: true })
    await queue.resume()
    expect((await queue.claim({})).jobs).toHaveLength(1)
    await queue.pause()
    expect(await queue.claim({})).toEqual({ jobs: [], paused: true })
    await clean(hand)
  })

  test('takes the way of the batch on a queue with a cap, and keeps to the cap', async () => {
    const hand = await filled(3)
    await set(hand, 'maxActive', 1)
    const queue = databaseOn(redis.port, () => 0).queue(hand.queue)
    expect((await queue.claim({})).jobs).toHaveLength(1)
    expect((await queue.claim({})).jobs).toHaveLength(0)
    await clean(hand)
  })

  test('removes the ghosts it meets and gives the job behind them', async () => {
    const hand = fresh()
    for (const n of [1, 2, 3]) await hand.send('ZADD', hand.keys.pending, 0, idOf(n))
    await hand.enqueue(idOf(4), 'good')
    const queue = databaseOn(redis.port, () => 0).queue(hand.queue)
    const { jobs } = await queue.claim({})
    expect(jobs.map(({ id, payload }) => [id, new TextDecoder().decode(payload)])).toEqual([
      [idOf(4), 'good'],
    ])
    expect((await look(redis.port, hand.queue)).world.ghosts).toBe(3)
    await clean(hand)
  })

  test('takes the lease of the queue when it names none', async () => {
    const hand = await filled(2)
    await set(hand, 'leaseMs', 41_000)
    const queue = databaseOn(redis.port, () => 0).queue(hand.queue)
    expect((await queue.claim({})).jobs[0]?.leaseMs).toBe(41_000)
    expect((await queue.claim({ leaseMs: 61_000 })).jobs[0]?.leaseMs).toBe(61_000)
    const { world, now } = await look(redis.port, hand.queue)
    expect(Math.round(((world.active[idOf(1)] ?? 0) - now) / 10_000)).toBe(4)
    expect(Math.round(((world.active[idOf(2)] ?? 0) - now) / 10_000)).toBe(6)
  })

  test('and settling, with the next claim in the same round trip, answer for each job in its place', async () => {
    const hand = await filled(4)
    const { port, sent } = recorder()
    const queue = databaseOn(port, () => 0).queue(hand.queue)
    await queue.claim({ limit: 2 })
    await queue.settle([])
    const trips = sent.length
    const { results, claimed } = await queue.settle(
      [
        { action: 'complete', id: idOf(1), token: 1 },
        { action: 'complete', id: idOf(9), token: 1 },
        { action: 'extend', id: idOf(2), token: 7, leaseMs: 60_000 },
        { action: 'extend', id: idOf(2), token: 1, leaseMs: 60_000 },
        { action: 'retry', id: idOf(2), token: 1, delayMs: 50_000, error: 'e' },
        { action: 'release', id: idOf(2), token: 1 },
      ],
      { limit: 1 },
    )
    expect(sent).toHaveLength(trips + 1)
    expect(results.map(outcome)).toEqual([
      { id: idOf(1), status: 'completed' },
      { refused: 'gone' },
      { refused: 'stale', reason: 'superseded' },
      { id: idOf(2), status: 'extended', leaseMs: 60_000 },
      { id: idOf(2), status: 'scheduled', delayMs: 50_000 },
      { refused: 'stale', reason: 'released' },
    ])
    expect(claimed?.jobs.map(({ id }) => id)).toEqual([idOf(3)])
    await clean(hand)
  })

  test('hints to come again later and later while a queue stays empty, and at once when it does not', () => {
    const queue = databaseOn(redis.port, () => 0).queue(freshQueue())
    const hints = Array.from({ length: 8 }, () => queue.hintMs(0, undefined))
    expect(hints).toEqual([50, 100, 200, 400, 800, 1000, 1000, 1000])
    expect(queue.hintMs(0, 70)).toBe(70)
    expect(queue.hintMs(0, 0)).toBe(1)
    expect(queue.hintMs(3, undefined)).toBe(0)
    expect(queue.hintMs(0, undefined)).toBe(50)
  })
})
