/** Malformed numbers in settings and rows, and rows without a payload: they count as absent, and no move stops. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { outcome } from './support/results.ts'

const redis = bareRedis()
const IDS = [1, 2, 3].map(idOf)
const [FIRST = '', SECOND = ''] = IDS

const SETTINGS = ['maxAttempts', 'backoffBaseMs', 'backoffMaxMs', 'leaseMs', 'maxActive', 'maxPending']

test('a setting that is not a number counts as absent in every script', async () => {
  const hand = redis.fresh()
  await setAll(hand, 'none')
  expect(await hand.enqueueMany([{ id: FIRST }, { id: SECOND }])).toEqual([
    ...['enqueued', FIRST, 'enqueued', SECOND],
  ])
  expect(await hand.claimMany(1, '')).toEqual(['ok', 30_000, FIRST, 'payload', '1', 30_000, 1, 5, ''])
  expect(await hand.retry(FIRST, 1, '', '', 'e', '0.5')).toEqual(['scheduled', 500])
  expect(await hand.claimMany(1, '')).toEqual([
    ...['ok', expect.any(Number), SECOND, 'payload', '1', 30_000, 1, 5, ''],
  ])
  expect(await hand.settle([{ action: 'retry', id: SECOND, token: 1, jitter: '0.5' }])).toEqual([
    ...['scheduled', 500],
  ])
  await redis.clean(hand)
})

test.each(['0.5', '-5', 'nan', 'inf', 'x', ''])(
  'a setting of %j has its default in every verb of the queue',
  async (value) => {
    const hand = redis.fresh()
    const queue = redis.queueOf(hand)
    await setAll(hand, value)
    await queue.enqueueMany(IDS.map((id) => ({ payload: 'x', id })))
    const { jobs } = await queue.claim({ limit: 2, claimId: 'c' })
    expect(jobs.map(({ id, leaseMs }) => [id, leaseMs])).toEqual([
      [FIRST, 30_000],
      [SECOND, 30_000],
    ])
    const { jobs: again } = await queue.claim({ limit: 2, claimId: 'c' })
    expect(again.map(({ id }) => id)).toEqual([FIRST, SECOND])
    const retried = outcome(await queue.retry(FIRST, 1, {}))
    expect(retried).toMatchObject({ status: 'scheduled' })
    expect('delayMs' in retried && retried.delayMs).toBeLessThanOrEqual(1_000)
    expect((await queue.claim({ limit: 1, leaseMs: 10 })).jobs.map(({ id }) => id)).toEqual([idOf(3)])
    await redis.pass(12)
    expect(await queue.reap(10)).toMatchObject({ reaped: 1, dead: 0 })
    await redis.clean(hand)
  },
)

test.each(['reap', 'sweep', 'claimMany'] as const)(
  '%s treats numbers of a row that are malformed as absent, and takes the jobs beside it',
  async (move) => {
    const hand = redis.fresh()
    await setAll(hand, 'none')
    for (const id of IDS) await hand.enqueue(id)
    for (const _ of IDS) await hand.claim(0)
    const fields = ['base', 'max_attempts', 'lapses', 'failures', 'start_by'].flatMap((name) => [
      name,
      'none',
    ])
    await hand.send('HSET', hand.keys.job(SECOND), ...fields, 'last_error', 'x')
    await redis.pass()
    await hand[move]()
    // A batch claim has claimed the first of them.
    const { pending } = await redis.world(hand)
    expect(Object.keys(pending)).toEqual(move === 'claimMany' ? IDS.slice(1) : IDS)
    await redis.clean(hand)
  },
)

test('a malformed startBy lets no job expire', async () => {
  const hand = redis.fresh()
  await hand.enqueue(FIRST)
  await hand.send('HSET', hand.keys.job(FIRST), 'start_by', 'none')
  await hand.send('ZADD', hand.keys.startBy, 1, FIRST)
  await hand.sweep()
  expect(await hand.claimMany(1)).toEqual(['ok', 100_000, FIRST, 'payload', '1', 100_000, 1, 5, ''])
  await redis.clean(hand)
})

test('a row without a payload does not become dead when its startBy passes', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: FIRST, startBy: 1 }])
  await hand.send('HDEL', hand.keys.job(FIRST), 'payload')
  await hand.sweep()
  expect((await redis.world(hand)).dead).toEqual({})
  await hand.claimMany(1)
  await redis.clean(hand)
})

test('a list omits a row without a payload', async () => {
  const hand = redis.fresh()
  await hand.send('HSET', hand.keys.job(FIRST), 'state', 'dead', 'last_error', 'e')
  await hand.send('ZADD', hand.keys.dead, 0, FIRST)
  const page = { state: 'dead', order: 'oldest', limit: 10, withErrors: true, withPayload: true } as const
  expect((await redis.queueOf(hand).list(page)).jobs).toEqual([])
})

async function setAll(hand: Hand, value: string): Promise<void> {
  await hand.set(...SETTINGS.flatMap((name) => [name, value]))
}
