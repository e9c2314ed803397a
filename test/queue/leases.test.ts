/**
 * Leases and tokens over time: lapses, late reports, ghosts and strays, told as stories of more than one move. What one
 * move does from one state stands in `moves.test.ts`.
 */
import { describe, expect, test } from 'vitest'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { build, LATER_MS } from './support/states.ts'
import { look, serverNow, until, untilServer } from './support/world.ts'

const redis = bareRedis()

const ID = 'JOB00000000001'
const OTHER = 'JOB00000000002'
const fresh = (): Hand => handOn(redis.port, freshQueue())

const SUPERSEDED = (script: string) => ({ error: `EMQSTALE ${script} token mismatch` })
const RELEASED = (script: string) => ({ error: `EMQSTALE ${script} token mismatch (released)` })

async function clean({ queue }: Hand): Promise<void> {
  expect(await census(redis.port, queue)).toEqual([])
}

/** Nothing remains but counters. */
async function nothingRemains({ queue }: Hand): Promise<void> {
  const keys = await keysOf(redis.port, queue)
  expect(keys.filter((key) => !key.includes(':metrics:') && !key.endsWith(':meta'))).toEqual([])
}

async function lapse(hand: Hand): Promise<void> {
  await hand.claim(1)
  await untilServer(redis.port, (await serverNow(redis.port)) + 1)
}

describe('a late completion', () => {
  test('is accepted from the schedule, and from pending once the job was promoted from there', async () => {
    for (const promote of [false, true]) {
      const hand = fresh()
      await build('scheduled by a second lapse and due', hand, ID)
      if (promote) expect(await hand.promote()).toBe(1)
      expect(await hand.complete(ID, 2)).toBe(1)
      await nothingRemains(hand)
    }
  })

  test('is accepted after an operator has moved the waiting job to another time, or to now', async () => {
    for (const delayMs of [0, LATER_MS]) {
      const hand = fresh()
      await build('scheduled by a second lapse', hand, ID)
      await hand.reschedule(ID, { delayMs })
      expect(await hand.settle([{ action: 'complete', id: ID, token: 2 }])).toEqual(['completed', 0])
      await nothingRemains(hand)
    }
  })

  test('takes the job out of the index of starts as well', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, startBy: (await serverNow(redis.port)) + LATER_MS }])
    await lapse(hand)
    await hand.reap()
    expect(await hand.complete(ID, 1)).toBe(1)
    await nothingRemains(hand)
  })

  test('is refused as superseded once somebody else has claimed, whatever became of that claim', async () => {
    for (const end of ['claimed', 'retried', 'completed'] as const) {
      const hand = fresh()
      await hand.enqueue(ID)
      await lapse(hand)
      await hand.reap()
      await hand.claim()
      if (end === 'retried') await hand.retry(ID, 2, LATER_MS, 0)
      if (end === 'completed') await hand.complete(ID, 2)
      const before = (await look(redis.port, hand.queue)).world
      const expected = end === 'completed' ? 0 : SUPERSEDED('complete')
      expect(await hand.complete(ID, 1)).toEqual(expected)
      expect((await look(redis.port, hand.queue)).world).toEqual(before)
      await clean(hand)
    }
  })

  test('is refused as released when the job was redriven in between, and by nobody claimed', async () => {
    const hand = fresh()
    await build('dead by a lapse', hand, ID)
    await hand.redrive(ID)
    expect(await hand.complete(ID, 2)).toEqual(RELEASED('complete'))
    await hand.claim()
    expect(await hand.complete(ID, 2)).toEqual(SUPERSEDED('complete'))
    expect(await hand.complete(ID, 3)).toBe(1)
    await nothingRemains(hand)
  })

  test('is refused as released when a reaper that leaves no mark took the lease away', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await lapse(hand)
    // What an older client's reaper does.
    await hand.send('ZREM', hand.keys.active, ID)
    await hand.send('ZADD', hand.keys.pending, 0, ID)
    await hand.send('HSET', hand.keys.job(ID), 'state', 'pending')
    expect(await hand.complete(ID, 1)).toEqual(RELEASED('complete'))
    await clean(hand)
  })
})

describe('a late report', () => {
  test('on a completed job leaves no key behind', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.claim()
    await hand.complete(ID, 1)
    const before = await keysOf(redis.port, hand.queue)

    expect(await hand.complete(ID, 1)).toBe(0)
    expect(await hand.retry(ID, 1, 0, 5)).toEqual({ error: 'EMQSTALE job gone' })
    for (const action of ['complete', 'retry', 'fail', 'release', 'extend'] as const)
      expect(await hand.settle([{ action, id: ID, token: 1, ms: 10_000 }])).toEqual(['gone', 0])

    expect(await keysOf(redis.port, hand.queue)).toEqual(before)
    await nothingRemains(hand)
  })

  test('twice in one batch is heard once', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.enqueue(OTHER)
    await hand.claimMany(2)
    const replies = await hand.settle([
      { action: 'complete', id: ID, token: 1 },
      { action: 'complete', id: ID, token: 1 },
      { action: 'retry', id: ID, token: 1, ms: 0, maxAttempts: 0 },
      { action: 'extend', id: ID, token: 1, ms: 10_000 },
      { action: 'retry', id: OTHER, token: 1, ms: LATER_MS, maxAttempts: 0 },
      { action: 'complete', id: OTHER, token: 1 },
    ])
    expect(replies).toEqual([
      ...['completed', 0, 'gone', 0, 'gone', 0, 'gone', 0],
      ...['scheduled', LATER_MS, 'stale', 'released'],
    ])
    const { world } = await look(redis.port, hand.queue)
    expect(world.completed).toBe(1)
    expect(Object.keys(world.rows)).toEqual([OTHER])
    await clean(hand)
  })
})

describe('a lease', () => {
  test('is extended from now each time, also to an earlier end than it had', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.claim(600_000)
    for (const ms of [50_000, 300_000, 10_000]) {
      const from = await serverNow(redis.port)
      await hand.settle([{ action: 'extend', id: ID, token: 1, ms }])
      const { world, now } = await look(redis.port, hand.queue)
      expect(world.active[ID]).toBeGreaterThanOrEqual(from + ms)
      expect(world.active[ID]).toBeLessThanOrEqual(now + ms)
    }
    await clean(hand)
  })

  test('that lapsed and was extended before the reaper came is not reaped', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await lapse(hand)
    await hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER_MS }])
    expect(await hand.reap()).toBe(0)
    expect(await hand.complete(ID, 1)).toBe(1)
  })

  test('ends in one way when its end, its completion, its extension and the reaper meet', async () => {
    const [reaper, holder] = [await createRespPort(redis.url), await createRespPort(redis.url)]
    for (let round = 0; round < 150; round++) {
      const hand = fresh()
      await hand.enqueue(ID)
      await hand.claim(round % 3)
      const [completed] = await Promise.all([
        handOn(holder, hand.queue).complete(ID, 1),
        handOn(reaper, hand.queue).reap(),
        hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER_MS }]),
      ])
      const { world } = await look(redis.port, hand.queue)
      // The newest token completes whether or not the reaper was faster, and nothing is left to deliver.
      expect(completed).toBe(1)
      expect(world).toMatchObject({ rows: {}, pending: {}, active: {}, schedule: {}, completed: 1 })
      expect(await hand.claim()).toEqual([])
    }
    reaper.close()
    holder.close()
  })

  test('that ends while it is extended leaves the job in one set, round after round', async () => {
    const other = await createRespPort(redis.url)
    for (let round = 0; round < 100; round++) {
      const hand = fresh()
      await hand.enqueue(ID)
      await hand.claim(round % 3)
      const [, extended] = await Promise.all([
        handOn(other, hand.queue).reap(),
        hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER_MS }]),
      ])
      const { world } = await look(redis.port, hand.queue)
      const lapsed = ID in world.pending
      expect(ID in world.active).toBe(!lapsed)
      expect(extended).toEqual(lapsed ? ['stale', 'lapsed'] : ['extended', LATER_MS])
      await clean(hand)
    }
    other.close()
  })

  test('counts by the clock of the server and from nothing that a caller sends', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    const from = await serverNow(redis.port)
    const reply = await hand.claimMany(1, 12_345)
    const { world, now } = await look(redis.port, hand.queue)
    expect(reply).toEqual(['ok', 12_345, ID, 'payload', '1', 12_345, 1, 5, ''])
    expect(world.active[ID]).toBeGreaterThanOrEqual(from + 12_345)
    expect(world.active[ID]).toBeLessThanOrEqual(now + 12_345)
  })
})

describe('a token', () => {
  test('rises with every claim and never goes back, whatever happens between them', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    const ways = [
      (token: number) => hand.settle([{ action: 'release', id: ID, token, ms: 0 }]),
      (token: number) => hand.retry(ID, token, 0, 0),
      async (token: number) => {
        await hand.settle([{ action: 'fail', id: ID, token, error: 'no' }])
        await hand.redrive(ID)
      },
      async () => {
        await hand.send('ZADD', hand.keys.active, 1, ID)
        await hand.reap()
      },
      async () => {
        await hand.send('ZADD', hand.keys.active, 1, ID)
        await hand.sweep()
        await hand.reschedule(ID, { delayMs: 0 })
      },
    ]
    for (let token = 1; token <= 20; token++) {
      const claim =
        token % 2 === 0 ? await hand.claimMany(1) : ['ok', -1, ...((await hand.claim()) as string[])]
      expect([ID, 'payload', String(token)]).toEqual((claim as string[]).slice(2, 5).map(String))
      await ways[token % ways.length]?.(token)
      await hand.promote()
      await clean(hand)
    }
  })

  test('of a job whose budget was renewed does not work for the holder of before', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 3 }])
    for (let attempt = 1; attempt <= 2; attempt++) {
      await hand.claim()
      await hand.retry(ID, attempt, 0, 3)
      await hand.promote()
    }
    await lapse(hand)
    await hand.reap()
    expect((await look(redis.port, hand.queue)).world.rows[ID]).toMatchObject({
      state: 'dead',
      last_error: 'lease expired on attempt 3 of 3',
    })
    await hand.redrive(ID)
    expect(await hand.claim()).toEqual([ID, 'payload', 4])
    expect(await hand.complete(ID, 3)).toEqual(SUPERSEDED('complete'))
    for (let attempt = 4; attempt <= 5; attempt++) {
      expect(await hand.retry(ID, attempt, 0, '')).toBe('scheduled')
      await hand.promote()
      await hand.claim()
    }
    expect(await hand.retry(ID, 6, 0, '')).toBe('dead')
    await clean(hand)
  })
})

describe('a ghost', () => {
  test('in front of a good job is dropped and counted, and the good job delivered', async () => {
    const hand = fresh()
    await hand.send('ZADD', hand.keys.pending, 0, ID)
    await hand.enqueue(OTHER)
    expect(await hand.claimMany(1)).toEqual(['ok', 100_000, OTHER, 'payload', '1', 100_000, 1, 5, ''])
    const { world } = await look(redis.port, hand.queue)
    expect(world.ghosts).toBe(1)
    expect(Object.keys(world.rows)).toEqual([OTHER])
    await clean(hand)
  })

  test('among a crowd of them is dropped in bounded steps, and the good job behind it is delivered', async () => {
    const hand = fresh()
    for (let i = 100; i < 1350; i++)
      await hand.send('ZADD', hand.keys.pending, 0, `JOB0000000${String(i).padStart(4, '0')}`)
    await hand.enqueue('JOB0000000zzzz')
    let claims = 0
    const job = await until(async () => {
      claims += 1
      const reply = (await hand.claimMany(100)) as unknown[]
      return reply.length > 2 && reply[2]
    })
    expect(job).toBe('JOB0000000zzzz')
    expect(claims).toBeLessThanOrEqual(3)
    expect((await look(redis.port, hand.queue)).world.ghosts).toBe(1250)
    await clean(hand)
  })

  test('lends nothing to a job that is enqueued under its id', async () => {
    const hand = fresh()
    await build('half a row in active', hand, ID)
    await hand.enqueueMany([{ id: ID, payload: 'new' }])
    expect((await look(redis.port, hand.queue)).world.rows).toEqual({
      [ID]: { state: 'pending', attempts: '0', payload: 'new' },
    })
    expect(await hand.claim()).toEqual([ID, 'new', 1])
    await clean(hand)
  })

  test('in every set at once is cleared by an enqueue that chose its id, beside other jobs', async () => {
    for (const delayMs of [0, LATER_MS]) {
      const hand = fresh()
      await hand.enqueue(OTHER)
      for (const set of ['pending', 'active', 'schedule', 'dead'] as const)
        await hand.send('ZADD', hand.keys[set], 0, ID)
      const reply = await hand.enqueueMany([{ id: ID, delayMs }])
      expect(reply).toEqual([delayMs > 0 ? 'scheduled' : 'enqueued', ID])
      await clean(hand)
    }
  })

  test('of a job with a startBy cannot let another job of its id expire', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, startBy: (await serverNow(redis.port)) - 1 }])
    await hand.send('DEL', hand.keys.job(ID))
    await hand.enqueueMany([{ id: ID }])
    await hand.sweep()
    const { world } = await look(redis.port, hand.queue)
    expect(world.rows[ID]).toMatchObject({ state: 'pending' })
    expect(world.startBy).toEqual({})
    await clean(hand)
  })

  test('that the core enqueue could not clear is cleared by the pump that meets it', async () => {
    const lapsed = fresh()
    await lapsed.send('ZADD', lapsed.keys.active, 1, ID)
    await lapsed.enqueue(ID)
    await lapsed.reap()
    await clean(lapsed)

    const due = fresh()
    await due.send('ZADD', due.keys.schedule, 1, ID)
    await due.enqueue(ID)
    await due.promote()
    await clean(due)
  })
})
