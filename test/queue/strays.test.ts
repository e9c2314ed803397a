/**
 * What should not be there: a key of another type in the place of a row, and an id that stands in a set although its
 * job lives in another one. Neither holds up the jobs beside it, and neither costs a job.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Settlement } from '../../src/queue/consume.ts'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import { UpstreamError } from '../../src/queue/redis.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { outcome } from './support/results.ts'
import { serverNow, untilServer } from './support/world.ts'

const redis = bareRedis()
const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`
const [FIRST, BROKEN, LAST] = [idOf(1), idOf(2), idOf(3)]

let hand: Hand
let queue: Queue
beforeEach(() => {
  hand = handOn(redis.port, freshQueue())
  queue = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined }).queue(hand.queue)
})

const clean = async (): Promise<void> => expect(await census(redis.port, hand.queue)).toEqual([])
const stateOf = (id: string) => hand.send('HGET', hand.keys.job(id), 'state')
const ghosts = async () => (await queue.stats()).ghosts

async function passed(): Promise<void> {
  await untilServer(redis.port, (await serverNow(redis.port)) + 1)
}

describe.each([
  ['a string', ['SET', 'x']],
  ['a list', ['RPUSH', 'x']],
  ['a set', ['SADD', 'x']],
  ['a sorted set', ['ZADD', '1', 'x']],
] as const)('%s in the place of a row', (_, [command, ...value]) => {
  const put = async (id: string): Promise<void> => {
    await hand.send('DEL', hand.keys.job(id))
    await hand.send(command, hand.keys.job(id), ...value)
  }

  /** Three jobs, made by the batch script so that they can be in any state, the middle one's row replaced. */
  async function three(state: 'pending' | 'active' | 'scheduled' | 'dead'): Promise<void> {
    await hand.enqueueMany(
      [FIRST, BROKEN, LAST].map((id) => ({ id, ...(state === 'scheduled' && { delayMs: 1 }) })),
    )
    if (state === 'active' || state === 'dead') await hand.claimMany(3, 1)
    if (state === 'dead')
      await hand.settle([FIRST, BROKEN, LAST].map((id) => ({ action: 'fail', id, token: 1, error: 'e' })))
    await put(BROKEN)
    await passed()
  }

  test('is no job: an enqueue of its id makes one, alone and in a batch', async () => {
    await put(BROKEN)
    expect(await hand.enqueue(BROKEN)).toBe(1)
    await hand.remove(BROKEN)
    await put(BROKEN)
    const jobs = [FIRST, BROKEN, LAST].map((id) => ({ id }))
    expect(await hand.enqueueMany(jobs)).toEqual(jobs.flatMap(({ id }) => ['enqueued', id]))
    await clean()
  })

  test('in the place of an idempotency key is none', async () => {
    await hand.send(command === 'SET' ? 'RPUSH' : command, hand.keys.idempotency('k'), ...value)
    const job = { id: FIRST, idempotency: { key: 'k', ttlMs: 60_000 } }
    expect(await hand.enqueueMany([job])).toEqual(['enqueued', FIRST])
    expect(await hand.enqueueMany([{ ...job, id: LAST }])).toEqual(['duplicate', FIRST])
    await clean()
  })

  test('is no job to who reads it, and none to a claim without a limit, which gives the next one', async () => {
    await hand.enqueue(BROKEN)
    await hand.enqueue(LAST)
    await put(BROKEN)
    expect(await queue.job(BROKEN)).toBeUndefined()
    expect((await queue.claim({})).jobs.map(({ id }) => id)).toEqual([LAST])
  })

  test('in the place of a claim that is remembered is none', async () => {
    await hand.enqueue(FIRST)
    await hand.claim()
    await hand.send(command === 'SET' ? 'RPUSH' : command, hand.keys.claim('c'), ...value)
    expect((await queue.claim({ limit: 1, claimId: 'c' })).jobs).toEqual([])
  })

  test('is dropped by a batch claim, which gives the jobs beside it', async () => {
    await three('pending')
    expect((await queue.claim({ limit: 10 })).jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
    expect(await ghosts()).toBe(1)
    await clean()
  })

  test('is dropped by promote, sweep and claim, which bring in what is due beside it', async () => {
    for (const move of [
      () => queue.promote(10),
      () => hand.promote(),
      () => hand.sweep(),
      () => hand.claimMany(0),
    ]) {
      await three('scheduled')
      await move()
      expect([await stateOf(FIRST), await stateOf(LAST)]).toEqual(['pending', 'pending'])
      await clean()
      for (const id of [FIRST, LAST]) await queue.remove(id)
    }
  })

  test('is dropped by reap, sweep and claim, which end what has lapsed beside it', async () => {
    for (const move of [
      () => queue.reap(10),
      () => hand.reap(),
      () => hand.sweep(),
      () => hand.claimMany(0),
    ]) {
      await three('active')
      await move()
      expect([await stateOf(FIRST), await stateOf(LAST)]).toEqual(['pending', 'pending'])
      await clean()
      for (const id of [FIRST, LAST]) await queue.remove(id)
    }
  })

  test('is gone to whoever would settle, move or remove it; those beside it are settled', async () => {
    const gone = { refused: 'gone' }
    await three('active')
    const items = [FIRST, BROKEN, LAST].map((id) => ({ action: 'complete' as const, id, token: 1 }))
    expect((await queue.settle(items)).results.map(outcome)).toEqual([
      { id: FIRST, status: 'completed' },
      gone,
      { id: LAST, status: 'completed' },
    ])
    for (const move of [
      () => queue.complete(BROKEN, 1),
      () => queue.retry(BROKEN, 1, {}),
      () => queue.redrive(BROKEN),
      () => queue.reschedule(BROKEN, { delayMs: 1 }),
      () => queue.remove(BROKEN),
    ]) {
      await put(BROKEN)
      expect(await move()).toEqual({ ok: false, refusal: gone })
    }
  })

  test('is passed over by a redrive of many and by a list, and taken out by a drain', async () => {
    await three('dead')
    const page = { state: 'dead', order: 'oldest', limit: 10, withErrors: true, withPayload: true } as const
    expect((await queue.list(page)).jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
    expect(await queue.redriveMany({ limit: 10 })).toMatchObject({ redriven: 2 })
    expect(await queue.purge('dead', 10)).toMatchObject({ more: false })
    expect([await stateOf(FIRST), await stateOf(LAST)]).toEqual(['pending', 'pending'])
    await clean()
  })

  test('does not hide the live jobs of a claim that is repeated', async () => {
    for (const id of [FIRST, BROKEN, LAST]) await hand.enqueue(id)
    const claim = { limit: 3, claimId: 'c', leaseMs: 60_000 }
    await queue.claim(claim)
    await put(BROKEN)
    expect((await queue.claim(claim)).jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
  })
})

describe('a job without a payload', () => {
  test('does not expire into a dead one', async () => {
    await hand.enqueueMany([{ id: BROKEN, startBy: 1 }])
    await hand.send('HDEL', hand.keys.job(BROKEN), 'payload')
    await hand.sweep()
    expect(await hand.send('ZCARD', hand.keys.dead)).toBe(0)
    await hand.claimMany(1)
    await clean()
  })

  test('is none to a redrive of many, dry or not, and to a list', async () => {
    await hand.send('HSET', hand.keys.job(BROKEN), 'state', 'dead', 'last_error', 'e')
    await hand.send('ZADD', hand.keys.dead, 0, BROKEN)
    for (const dryRun of [true, false])
      expect(await queue.redriveMany({ limit: 10, dryRun })).toMatchObject({ redriven: 0 })
    expect(await stateOf(BROKEN)).toBe('dead')
    const page = { state: 'dead', order: 'oldest', limit: 10, withErrors: true, withPayload: true } as const
    expect((await queue.list(page)).jobs).toEqual([])
  })
})

describe('an id that stood in a set as a ghost, and became a job elsewhere by a client that clears no other set', () => {
  /** The sets in which the id stands. */
  async function places(): Promise<string[]> {
    const found = []
    for (const set of ['pending', 'active', 'schedule', 'dead'] as const)
      if ((await hand.send('ZSCORE', hand.keys[set], BROKEN)) !== null) found.push(set)
    return found
  }

  /** The core's enqueue, and then what puts the job into a state. */
  const LIVES = {
    pending: async () => undefined,
    active: () => hand.claim(),
    dead: async () => {
      await hand.claim()
      await hand.retry(BROKEN, 1, 0, 1)
    },
    schedule: async () => {
      await hand.claim()
      await hand.retry(BROKEN, 1, 100_000, 0)
    },
  }

  const brought = [
    ['schedule', 'promote', () => queue.promote(10)],
    ['schedule', 'core promote', () => hand.promote()],
    ['schedule', 'sweep', () => hand.sweep()],
    ['schedule', 'claim', () => hand.claimMany(0)],
    ['active', 'reap', () => queue.reap(10)],
    ['active', 'core reap', () => hand.reap()],
    ['active', 'sweep', () => hand.sweep()],
    ['active', 'claim', () => hand.claimMany(0)],
    ['dead', 'drain', () => queue.purge('dead', 10)],
    ['schedule', 'drain', () => queue.purge('scheduled', 10)],
    ['pending', 'drain', () => queue.purge('pending', 10)],
  ] as const
  const cases = brought.flatMap(([stray, name, move]) =>
    (Object.keys(LIVES) as (keyof typeof LIVES)[])
      // One that is in the very set is no stray; and pending is what the core's own enqueue looks at.
      .filter((life) => life !== stray)
      .map((life) => [stray, life, name, move] as const),
  )

  test.each(cases)(
    'in %s, a job in %s: %s takes away the stray and leaves the job',
    async (stray, life, _, move) => {
      await hand.enqueue(BROKEN)
      await LIVES[life]()
      await hand.send('ZADD', hand.keys[stray], stray === 'schedule' || stray === 'active' ? 1 : 0, BROKEN)
      const row = await hand.send('HGETALL', hand.keys.job(BROKEN))
      await move()
      expect(await hand.send('HGETALL', hand.keys.job(BROKEN))).toEqual(row)
      expect(await places()).toEqual([life])
      await clean()
    },
  )

  test('is held by nobody: its job can be removed', async () => {
    await hand.send('ZADD', hand.keys.active, 9_000_000_000_000, BROKEN)
    await hand.enqueue(BROKEN)
    expect(outcome(await queue.remove(BROKEN))).toEqual({ id: BROKEN, status: 'removed' })
    await clean()
  })

  test('keeps its holder: a promote neither hands it out again nor takes the lease away', async () => {
    await hand.send('ZADD', hand.keys.schedule, 1, BROKEN)
    await hand.enqueue(BROKEN)
    await hand.claim()
    await queue.promote(10)
    expect((await queue.claim({ limit: 10 })).jobs).toEqual([])
    expect(outcome(await queue.complete(BROKEN, 1))).toMatchObject({ status: 'completed' })
    await clean()
  })
})

test('an extension of a lease that stands nowhere is refused, so that its holder does not rely on it', async () => {
  await hand.enqueue(FIRST)
  await hand.claim()
  await hand.send('ZREM', hand.keys.active, FIRST)
  const extend = { action: 'extend', id: FIRST, token: 1, leaseMs: 60_000 } as const
  expect((await queue.settle([extend])).results.map(outcome)).toEqual([
    { refused: 'stale', reason: 'lapsed' },
  ])
})

test('counters that hold no number stop no move', async () => {
  for (const key of [hand.keys.completed, hand.keys.failed, hand.keys.ghosts])
    await hand.send('HSET', key, 'count', 'none')
  for (const id of [FIRST, BROKEN, LAST]) await hand.enqueue(id)
  await hand.send('ZADD', hand.keys.pending, 0, idOf(0))
  expect((await queue.claim({ limit: 2 })).jobs).toHaveLength(2)
  expect(outcome(await queue.complete(FIRST, 1))).toMatchObject({ status: 'completed' })
  expect(outcome(await queue.retry(BROKEN, 1, { maxAttempts: 1 }))).toMatchObject({ status: 'dead' })
  await clean()
})

describe('a Redis that is full', () => {
  const FULL = ['CONFIG', 'SET', 'maxmemory', 1] as const
  const ROOM = ['CONFIG', 'SET', 'maxmemory', 0] as const
  afterEach(() => redis.port.send([ROOM]))

  test('takes no new job, and says so', async () => {
    await redis.port.send([FULL])
    await expect(queue.enqueueMany([{ payload: 'x' }])).rejects.toBeInstanceOf(UpstreamError)
    await clean()
  })

  test('takes none with an id of the caller’s either, where it has to look closer', async () => {
    await redis.port.send([ROOM])
    await hand.send('HSET', hand.keys.meta, 'maxAttempts', 3)
    await hand.enqueue(FIRST)
    await hand.claim()
    await hand.send('HSET', hand.keys.job(LAST), 'attempts', 3)
    await redis.port.send([FULL])
    for (const job of [{ id: BROKEN }, { id: BROKEN, delayMs: 20 }, { id: LAST }])
      await expect(queue.enqueueMany([{ payload: 'x', ...job }])).rejects.toBeInstanceOf(UpstreamError)
    expect(await hand.enqueue(LAST)).toHaveProperty('error')
    expect((await queue.stats()).counts).toEqual({ pending: 0, active: 1, scheduled: 0, dead: 0 })
  })

  test('still hands out its jobs, brings in what is due and lapsed, and lets every holder settle', async () => {
    const ids = Array.from({ length: 9 }, (_, n) => idOf(n + 1))
    const [due = '', lapsed = '', ...others] = ids
    await hand.enqueueMany([{ id: lapsed }])
    await hand.claim(1)
    await hand.enqueueMany([{ id: due, delayMs: 1 }, ...others.map((id) => ({ id }))])
    await passed()
    // Whatever is the first write of a script.
    for (const move of [() => queue.promote(10), () => queue.reap(10), () => hand.sweep()]) {
      await redis.port.send([FULL])
      await move()
    }
    const { jobs } = await queue.claim({ limit: 100 })
    expect(jobs.map(({ id }) => id)).toEqual(ids)
    const [one = '', two = '', three = '', four = '', five = '', ...rest] = ids
    const tokenOf = (id: string) => jobs.find((job) => job.id === id)?.token ?? 0
    const settled = async (item: object) =>
      (
        await queue.settle([{ token: tokenOf(String(Reflect.get(item, 'id'))), ...item } as Settlement])
      ).results.map(outcome)[0]
    expect(await settled({ id: one, action: 'extend', leaseMs: 60_000 })).toMatchObject({
      status: 'extended',
    })
    expect(await settled({ id: two, action: 'release' })).toMatchObject({ status: 'pending' })
    expect(await settled({ id: three, action: 'fail', error: 'e' })).toMatchObject({ status: 'dead' })
    expect(await settled({ id: four, action: 'retry', delayMs: 5 })).toMatchObject({ status: 'scheduled' })
    expect(outcome(await queue.retry(five, tokenOf(five), { delayMs: 5 }))).toMatchObject({
      status: 'scheduled',
    })
    for (const id of [one, ...rest])
      expect(outcome(await queue.complete(id, tokenOf(id)))).toMatchObject({ status: 'completed' })
    await clean()
  })
})

describe('a setting that is no whole number', () => {
  test.each(['0.5', '-5', 'nan', 'inf', 'x', ''])('%j has its default, in every script', async (value) => {
    const fields = ['maxAttempts', 'backoffBaseMs', 'backoffMaxMs', 'leaseMs', 'maxActive', 'maxPending']
    await hand.send('HSET', hand.keys.meta, ...fields.flatMap((field) => [field, value]))
    for (const id of [FIRST, BROKEN, LAST]) await queue.enqueueMany([{ payload: 'x', id }])
    const { jobs } = await queue.claim({ limit: 2, claimId: 'c' })
    expect(jobs.map(({ leaseMs }) => leaseMs)).toEqual([30_000, 30_000])
    expect((await queue.claim({ limit: 2, claimId: 'c' })).jobs).toHaveLength(2)
    const retried = outcome(await queue.retry(FIRST, 1, {}))
    expect(retried).toMatchObject({ status: 'scheduled' })
    expect('delayMs' in retried && retried.delayMs).toBeLessThanOrEqual(1_000)
    expect((await queue.claim({ limit: 5, leaseMs: 10 })).jobs).toHaveLength(1)
    await untilServer(redis.port, (await serverNow(redis.port)) + 12)
    await queue.reap(10)
    await clean()
  })
})
