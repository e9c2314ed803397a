/**
 * The retry budget and crash loops: whose limit counts, what spends it, how long a job waits, what is remembered of its
 * failures.
 */
import { describe, expect, test } from 'vitest'
import { createDatabase } from '../../src/queue/database.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { look, serverNow, untilServer } from './support/world.ts'

const redis = bareRedis()
const queueOf = ({ queue }: Hand) =>
  createDatabase(redis.port, { wireAccept: [], wireClaim: undefined }).queue(queue)

const ID = 'JOB00000000001'
const fresh = (): Hand => handOn(redis.port, freshQueue())
const set = (hand: Hand, ...fields: (string | number)[]) => hand.send('HSET', hand.keys.meta, ...fields)
const row = async (hand: Hand, id = ID) => (await look(redis.port, hand.queue)).world.rows[id]
const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`

async function clean({ queue }: Hand): Promise<void> {
  expect(await census(redis.port, queue)).toEqual([])
}

/** Brings a job to pending whatever it waits for, and lets one lease of it run out. */
async function lapse(hand: Hand): Promise<string | undefined> {
  await hand.reschedule(ID, { delayMs: 0 })
  const claimed = await hand.claim(0)
  await untilServer(redis.port, (await serverNow(redis.port)) + 1)
  await hand.reap()
  return claimed === null || (claimed as unknown[]).length === 0 ? undefined : (await row(hand))?.['state']
}

async function lapses(hand: Hand, most: number): Promise<(string | undefined)[]> {
  const states = []
  for (let i = 0; i < most; i++) states.push(await lapse(hand))
  return states
}

describe('a job that kills whoever claims it', () => {
  test('is dead after five lapses when nothing is set', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    expect(await lapses(hand, 6)).toEqual([
      ...['pending', 'scheduled', 'scheduled', 'scheduled', 'dead', undefined],
    ])
    expect(await row(hand)).toMatchObject({ last_error: 'lease expired on attempt 5 of 5', lapses: '5' })
    expect((await look(redis.port, hand.queue)).world.failed).toBe(1)
    await clean(hand)
  })

  test("is dead by the job's limit, else by the queue's", async () => {
    const hand = fresh()
    await set(hand, 'maxAttempts', 2)
    await hand.enqueueMany([{ id: ID, maxAttempts: 3 }])
    expect(await lapses(hand, 3)).toEqual(['pending', 'scheduled', 'dead'])

    const other = fresh()
    await set(other, 'maxAttempts', 2)
    await other.enqueue(ID)
    expect(await lapses(other, 2)).toEqual(['pending', 'dead'])
  })

  test('is never dead where the limit is 0, the job its or the queue its', async () => {
    const alive = Array(12).fill('scheduled').with(0, 'pending')
    const hand = fresh()
    await set(hand, 'maxAttempts', 2)
    await hand.enqueueMany([{ id: ID, maxAttempts: 0 }])
    expect(await lapses(hand, 12)).toEqual(alive)

    const other = fresh()
    await set(other, 'maxAttempts', 0)
    await other.enqueue(ID)
    expect(await lapses(other, 12)).toEqual(alive)
  })

  test('does not keep the healthy jobs behind it waiting', async () => {
    const hand = fresh()
    for (const n of [1, 2, 3]) await hand.enqueue(idOf(n))
    const served = new Set<string>()
    for (let claim = 0; claim < 4; claim++) {
      const reply = (await hand.claimMany(1, 1)) as string[]
      const [, , id = '', , token = ''] = reply
      if (id !== ID && (await hand.complete(id, token)) === 1) served.add(id)
      await untilServer(redis.port, (await serverNow(redis.port)) + 1)
    }
    expect([...served]).toEqual([idOf(2), idOf(3)])
    await clean(hand)
  })

  test('is counted by the batch claim and by the sweep as it is by the reaper', async () => {
    for (const pump of ['reap', 'sweep', 'claimMany'] as const) {
      const hand = fresh()
      await hand.enqueueMany([{ id: ID, maxAttempts: 1 }])
      await hand.claim(0)
      await untilServer(redis.port, (await serverNow(redis.port)) + 1)
      await hand[pump]()
      const { world } = await look(redis.port, hand.queue)
      expect(world.failed).toBe(1)
      expect(world.rows[ID]).toEqual({
        ...{ state: 'dead', attempts: '1', payload: 'payload', max_attempts: '1' },
        ...{ lapsed: '1', lapses: '1', last_error: 'lease expired on attempt 1 of 1', failures: '1' },
        'error:1': expect.stringMatching(/^1 \d{13} lease expired on attempt 1 of 1$/),
      })
      await clean(hand)
    }
  })
})

describe('the limit', () => {
  const retryOnce = async (hand: Hand, call: number | '') => {
    await hand.claim()
    return hand.retry(ID, 1, 0, call)
  }

  test("of the call comes before the job's, and that before the queue's, and 5 is the last resort", async () => {
    const cases = [
      { queue: 5, job: 5, call: 1, dead: true },
      { queue: 1, job: 1, call: 2, dead: false },
      { queue: 1, job: 1, call: 0, dead: false },
      { queue: 5, job: 1, call: '', dead: true },
      { queue: 1, job: 2, call: '', dead: false },
      { queue: 1, job: 0, call: '', dead: false },
      { queue: 1, job: '', call: '', dead: true },
      { queue: 2, job: '', call: '', dead: false },
      { queue: 0, job: '', call: '', dead: false },
      { queue: '', job: '', call: '', dead: false },
    ] as const
    for (const { queue, job, call, dead } of cases) {
      for (const way of ['retry', 'settle'] as const) {
        const hand = fresh()
        if (queue !== '') await set(hand, 'maxAttempts', queue)
        await hand.enqueueMany([{ id: ID, maxAttempts: job }])
        if (way === 'retry') await retryOnce(hand, call)
        else {
          await hand.claim()
          await hand.settle([{ action: 'retry', id: ID, token: 1, ms: 0, maxAttempts: call }])
        }
        expect([queue, job, call, (await row(hand))?.['state']]).toEqual([
          ...[queue, job, call, dead ? 'dead' : 'scheduled'],
        ])
        await clean(hand)
      }
    }
  })

  test('is 5 where nobody says one', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    const states = []
    for (let token = 1; token <= 5; token++) {
      await hand.claim()
      states.push(await hand.retry(ID, token, 0, ''))
      await hand.promote()
    }
    expect(states).toEqual(['scheduled', 'scheduled', 'scheduled', 'scheduled', 'dead'])
    await clean(hand)
  })

  test('is not touched by releases, however many', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 2 }])
    for (let token = 1; token <= 10; token++) {
      await hand.claim()
      await hand.settle([{ action: 'release', id: ID, token, ms: 0 }])
    }
    await hand.claim()
    expect(await hand.retry(ID, 11, 0, '')).toBe('scheduled')
    await hand.promote()
    await hand.claim()
    expect(await hand.retry(ID, 12, 0, '')).toBe('dead')
    expect(await row(hand)).toMatchObject({ attempts: '12', base: '10' })
    await clean(hand)
  })

  test('begins anew with a redrive, for retries and for lapses', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 2 }])
    expect(await lapses(hand, 2)).toEqual(['pending', 'dead'])
    await hand.redrive(ID)
    // The first lapse after a redrive is a first lapse.
    expect(await lapses(hand, 2)).toEqual(['pending', 'dead'])
    expect(await row(hand)).toMatchObject({ attempts: '4', base: '2', lapses: '2' })
    await hand.redrive(ID)
    await hand.claim()
    expect(await hand.retry(ID, 5, 0, '')).toBe('scheduled')
    await clean(hand)
  })

  test('counts a redriven job right after further releases', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 1 }])
    await hand.claim()
    await hand.retry(ID, 1, 0, '')
    await hand.redrive(ID)
    await hand.claim()
    await hand.settle([{ action: 'release', id: ID, token: 2, ms: 0 }])
    await hand.claim()
    expect(await hand.retry(ID, 3, 0, '')).toBe('dead')
    await hand.redrive(ID)
    expect(await row(hand)).toMatchObject({ attempts: '3', base: '3' })
    await clean(hand)
  })
})

describe('the wait', () => {
  test('after a second lapse is between half and all of the ceiling, and not the same for all', async () => {
    const hand = fresh()
    await set(hand, 'backoffBaseMs', 10_000)
    for (let n = 1; n <= 100; n++) await hand.enqueue(idOf(n))
    for (let lapse = 1; lapse <= 2; lapse++) {
      for (let n = 0; n < 100; n++) await hand.claim(0)
      await untilServer(redis.port, (await serverNow(redis.port)) + 1)
      if (lapse === 1) await hand.reap()
    }
    const from = await serverNow(redis.port)
    expect(await hand.reap(100, '0.31')).toEqual([100, 0, 0, 0])
    const { world, now } = await look(redis.port, hand.queue)
    const waits = Object.values(world.schedule)
    expect(waits).toHaveLength(100)
    for (const at of waits) {
      expect(at).toBeGreaterThanOrEqual(from + 10_000)
      expect(at).toBeLessThanOrEqual(now + 20_000)
    }
    // Spread: those who lapsed together do not all come back together.
    expect(Math.max(...waits) - Math.min(...waits)).toBeGreaterThan(8_000)
    await clean(hand)
  })

  test('is bounded by the most, and by the default most, for any number of attempts', async () => {
    for (const attempts of [1, 2, 40, 41, 1_000, 9_007_199_254_740_990]) {
      const hand = fresh()
      await set(hand, 'backoffBaseMs', 3_600_000, 'maxAttempts', 0)
      await hand.enqueue(ID)
      await hand.send('HSET', hand.keys.job(ID), 'attempts', attempts - 1)
      await hand.claim()
      const reply = await hand.settle([{ action: 'retry', id: ID, token: attempts, jitter: '0.9999999' }])
      expect(reply).toEqual(['scheduled', 599_999])
      await clean(hand)
    }
  })

  test('is full jitter: from nothing up to the ceiling of the attempt', async () => {
    for (const [attempts, ceiling] of [
      [1, 1000],
      [2, 2000],
      [5, 16_000],
    ] as const) {
      for (const jitter of [0, 0.25, 0.999]) {
        const hand = fresh()
        await hand.enqueue(ID)
        await hand.send('HSET', hand.keys.job(ID), 'attempts', attempts - 1)
        await hand.claim()
        expect(await hand.retry(ID, attempts, '', 0, 'x', jitter)).toEqual([
          'scheduled',
          Math.floor(ceiling * jitter),
        ])
      }
    }
  })

  test('begins anew with a redrive', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.send('HSET', hand.keys.job(ID), 'attempts', 30, 'base', 0)
    await hand.claim()
    await hand.settle([{ action: 'fail', id: ID, token: 31, error: 'x' }])
    await hand.redrive(ID)
    await hand.claim()
    expect(await hand.retry(ID, 32, '', '', 'x', '0.999')).toEqual(['scheduled', 999])
  })
})

describe('the history', () => {
  test('keeps the last five failures with attempt, time and text, in order', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 0 }])
    const from = await serverNow(redis.port)
    for (let token = 1; token <= 8; token++) {
      await hand.claim()
      await hand.settle([
        { action: 'retry', id: ID, token, ms: 0, error: `line one of ${token}\nline  two ` },
      ])
      await hand.promote()
    }
    const job = await queueOf(hand).job(ID)
    expect(job?.history?.map(({ attempt, error }) => [attempt, error])).toEqual(
      [4, 5, 6, 7, 8].map((token) => [token, `line one of ${token}\nline  two `]),
    )
    for (const { at } of job?.history ?? []) {
      expect(at).toBeGreaterThanOrEqual(from)
      expect(at).toBeLessThanOrEqual(await serverNow(redis.port))
    }
    expect(job?.lastError).toBe('line one of 8\nline  two ')
    await clean(hand)
  })

  test('is there from the second failure on when plain clients of the core report', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    for (let token = 1; token <= 3; token++) {
      await hand.claim()
      await hand.retry(ID, token, 0, 0, `boom ${token}`)
      await hand.promote()
      if (token === 1)
        expect(await row(hand)).toEqual({
          ...{ state: 'pending', attempts: '1', payload: 'payload', last_error: 'boom 1' },
        })
    }
    const job = await queueOf(hand).job(ID)
    expect(job?.history?.map(({ attempt, error }) => [attempt, error])).toEqual([
      [2, 'boom 2'],
      [3, 'boom 3'],
    ])
    expect(job?.lastError).toBe('boom 3')
    await clean(hand)
  })

  test('survives a redrive and goes on', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    for (let token = 1; token <= 2; token++) {
      await hand.claim()
      await hand.settle([{ action: 'fail', id: ID, token, error: `no ${token}` }])
      await hand.redrive(ID)
    }
    await hand.claim()
    await hand.settle([{ action: 'fail', id: ID, token: 3, error: 'no 3' }])
    const job = await queueOf(hand).job(ID)
    expect(job?.history?.map(({ attempt, error }) => [attempt, error])).toEqual([
      [1, 'no 1'],
      [2, 'no 2'],
      [3, 'no 3'],
    ])
    await clean(hand)
  })

  test('holds the lapse that killed a job which had failed before', async () => {
    const hand = fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 2 }])
    await hand.claim()
    await hand.settle([{ action: 'retry', id: ID, token: 1, ms: 0, error: 'first' }])
    await hand.promote()
    expect(await lapse(hand)).toBe('dead')
    const job = await queueOf(hand).job(ID)
    expect(job?.history?.map(({ attempt, error }) => [attempt, error])).toEqual([
      [1, 'first'],
      [2, 'lease expired on attempt 2 of 2'],
    ])
  })
})

describe('a number that is none', () => {
  const SETTINGS = [
    'maxAttempts',
    'backoffBaseMs',
    'backoffMaxMs',
    'leaseMs',
    'maxActive',
    'maxPending',
  ] as const
  const spoil = async (hand: Hand) => {
    for (const field of SETTINGS) await set(hand, field, 'none')
  }

  test('in the settings is as if it were not there, and stops no move', async () => {
    const hand = fresh()
    await spoil(hand)
    expect(await hand.enqueueMany([{ id: ID }, { id: idOf(2) }])).toEqual([
      ...['enqueued', ID, 'enqueued', idOf(2)],
    ])
    expect(await hand.claimMany(1, '')).toEqual(['ok', 30_000, ID, 'payload', '1', 30_000, 1, 5, ''])
    expect(await hand.retry(ID, 1, '', '', 'e', '0.5')).toEqual(['scheduled', 500])
    expect(await hand.claimMany(1, '')).toEqual([
      ...['ok', expect.any(Number), idOf(2), 'payload', '1', 30_000, 1, 5, ''],
    ])
    expect(await hand.settle([{ action: 'retry', id: idOf(2), token: 1, jitter: '0.5' }])).toEqual([
      ...['scheduled', 500],
    ])
    await clean(hand)
  })

  test('in a row is as if it were not there, and one such job keeps no pump from the others', async () => {
    for (const pump of ['reap', 'sweep', 'claimMany'] as const) {
      const hand = fresh()
      await spoil(hand)
      for (const n of [1, 2, 3]) await hand.enqueue(idOf(n))
      for (const _ of [1, 2, 3]) await hand.claim(0)
      const fields = ['base', 'max_attempts', 'lapses', 'failures', 'start_by'].flatMap((field) => [
        field,
        'none',
      ])
      await hand.send('HSET', hand.keys.job(idOf(2)), ...fields, 'last_error', 'x')
      await untilServer(redis.port, (await serverNow(redis.port)) + 1)
      await hand[pump]()
      const { world } = await look(redis.port, hand.queue)
      expect(Object.keys(world.pending).length).toBe(pump === 'claimMany' ? 2 : 3)
      await clean(hand)
    }
  })

  test('in the place of startBy lets nothing expire', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.send('HSET', hand.keys.job(ID), 'start_by', 'none')
    await hand.send('ZADD', hand.keys.startBy, 1, ID)
    await hand.sweep()
    expect(await hand.claimMany(1)).toEqual(['ok', 100_000, ID, 'payload', '1', 100_000, 1, 5, ''])
    await clean(hand)
  })

  test('in a report is refused before anything is written, or does without', async () => {
    const hand = fresh()
    await hand.enqueue(ID)
    await hand.claim()
    const before = (await look(redis.port, hand.queue)).world
    const wrong = { id: ID, token: 1, ms: 'none', jitter: 'none' } as const
    expect(await hand.settle([{ action: 'extend', ...wrong }])).toHaveProperty('error')
    const unknown = { action: 'forget' as 'fail', ...wrong }
    expect(await hand.settle([unknown])).toHaveProperty('error')
    expect((await look(redis.port, hand.queue)).world).toEqual(before)
    expect(await hand.settle([{ action: 'retry', ...wrong }])).toEqual(['scheduled', 1000])
    await hand.reschedule(ID, { delayMs: 0 })
    await hand.claim()
    expect(await hand.settle([{ action: 'release', ...wrong, token: 2 }])).toEqual(['pending', 0])
    await clean(hand)
  })
})
