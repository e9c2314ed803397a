/** Retry: which limit of attempts applies, how long the job is delayed, and the history of its failures. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'

const redis = bareRedis()
const ID = idOf(1)

test.each([
  { queue: 5, job: 5, call: 1, state: 'dead' },
  { queue: 1, job: 1, call: 2, state: 'scheduled' },
  { queue: 1, job: 1, call: 0, state: 'scheduled' },
  { queue: 5, job: 1, call: '', state: 'dead' },
  { queue: 1, job: 2, call: '', state: 'scheduled' },
  { queue: 1, job: 0, call: '', state: 'scheduled' },
  { queue: 1, job: '', call: '', state: 'dead' },
  { queue: 2, job: '', call: '', state: 'scheduled' },
  { queue: 0, job: '', call: '', state: 'scheduled' },
  { queue: '', job: '', call: '', state: 'scheduled' },
] as const)(
  'retry with a limit of "$call" in the call, "$job" in the job and "$queue" in the queue makes the job $state',
  async ({ queue, job, call, state }) => {
    for (const way of ['retry', 'settle'] as const) {
      const hand = redis.fresh()
      if (queue !== '') await hand.set('maxAttempts', queue)
      await hand.enqueueMany([{ id: ID, maxAttempts: job }])
      await hand.claim()
      if (way === 'retry') await hand.retry(ID, 1, 0, call)
      else await hand.settle([{ action: 'retry', id: ID, token: 1, ms: 0, maxAttempts: call }])
      expect((await redis.row(hand))?.['state'], way).toBe(state)
      await redis.clean(hand)
    }
  },
)

test('retry makes a job dead at its fifth attempt when no limit is set', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  const states = []
  for (let token = 1; token <= 5; token++) {
    await hand.claim()
    states.push(await hand.retry(ID, token, 0, ''))
    await hand.promote()
  }
  expect(states).toEqual(['scheduled', 'scheduled', 'scheduled', 'scheduled', 'dead'])
  await redis.clean(hand)
})

test.each([
  [1, 1000],
  [2, 2000],
  [5, 16_000],
])('retry of attempt %i delays the job by a random part of %i ms', async (attempts, ceiling) => {
  for (const jitter of [0, 0.25, 0.999]) {
    const hand = redis.fresh()
    await enqueueAtAttempt(hand, attempts)
    expect(await hand.retry(ID, attempts, '', 0, 'x', jitter)).toEqual([
      'scheduled',
      Math.floor(ceiling * jitter),
    ])
  }
})

test.each([1, 2, 40, 41, 1_000, 9_007_199_254_740_990])(
  'retry of attempt %i delays the job by less than the maximum backoff',
  async (attempts) => {
    const hand = redis.fresh()
    await hand.set('backoffBaseMs', 3_600_000, 'maxAttempts', 0)
    await enqueueAtAttempt(hand, attempts)
    const reply = await hand.settle([{ action: 'retry', id: ID, token: attempts, jitter: '0.9999999' }])
    expect(reply).toEqual(['scheduled', 599_999])
    await redis.clean(hand)
  },
)

test('retry after a redrive starts again with the first backoff', async () => {
  const hand = redis.fresh()
  await enqueueAtAttempt(hand, 31)
  await hand.settle([{ action: 'fail', id: ID, token: 31, error: 'x' }])
  await hand.redrive(ID)
  await hand.claim()
  expect(await hand.retry(ID, 32, '', '', 'x', '0.999')).toEqual(['scheduled', 999])
})

test('the history keeps the attempt, instant and error of the last five failures in order', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, maxAttempts: 0 }])
  const from = await redis.now()
  for (let token = 1; token <= 8; token++) {
    await hand.claim()
    await hand.settle([{ action: 'retry', id: ID, token, ms: 0, error: `line one of ${token}\nline  two ` }])
    await hand.promote()
  }
  expect(await historyOf(hand)).toEqual(
    [4, 5, 6, 7, 8].map((token) => [token, `line one of ${token}\nline  two `]),
  )
  const job = await redis.queueOf(hand).job(ID)
  for (const { at } of job?.history ?? []) {
    expect(at).toBeGreaterThanOrEqual(from)
    expect(at).toBeLessThanOrEqual(await redis.now())
  }
  expect(job?.lastError).toBe('line one of 8\nline  two ')
  await redis.clean(hand)
})

test('the history starts with the second failure when clients use the short form of retry', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  for (let token = 1; token <= 3; token++) {
    await hand.claim()
    await hand.retry(ID, token, 0, 0, `boom ${token}`)
    await hand.promote()
    if (token === 1)
      expect(await redis.row(hand)).toEqual({
        ...{ state: 'pending', attempts: '1', payload: 'payload', last_error: 'boom 1' },
      })
  }
  expect(await historyOf(hand)).toEqual([
    [2, 'boom 2'],
    [3, 'boom 3'],
  ])
  expect((await redis.queueOf(hand).job(ID))?.lastError).toBe('boom 3')
  await redis.clean(hand)
})

test('the history continues after a redrive', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  for (let token = 1; token <= 3; token++) {
    await hand.claim()
    await hand.settle([{ action: 'fail', id: ID, token, error: `no ${token}` }])
    if (token < 3) await hand.redrive(ID)
  }
  expect(await historyOf(hand)).toEqual([
    [1, 'no 1'],
    [2, 'no 2'],
    [3, 'no 3'],
  ])
  await redis.clean(hand)
})

test('the history of a job that failed before contains the lapse that made it dead', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, maxAttempts: 2 }])
  await hand.claim()
  await hand.settle([{ action: 'retry', id: ID, token: 1, ms: 0, error: 'first' }])
  await hand.promote()
  await hand.claim(0)
  await redis.pass()
  await hand.reap()
  expect(await historyOf(hand)).toEqual([
    [1, 'first'],
    [2, 'lease expired on attempt 2 of 2'],
  ])
})

/** A claimed job with a token as if it had been claimed that many times. */
async function enqueueAtAttempt(hand: Hand, attempts: number): Promise<void> {
  await hand.enqueue(ID)
  await hand.send('HSET', hand.keys.job(ID), 'attempts', attempts - 1)
  await hand.claim()
}

async function historyOf(hand: Hand) {
  const job = await redis.queueOf(hand).job(ID)
  return job?.history?.map(({ attempt, error }) => [attempt, error])
}
