/** Reap: what a lapsed lease does to its job. The batch claim and the sweep reap in the same way. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { look } from './support/world.ts'

const redis = bareRedis()
const ID = idOf(1)

test('a job is dead after five lapses when no limit is set', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  expect(await statesAfterLapses(hand, 6)).toEqual([
    ...['pending', 'scheduled', 'scheduled', 'scheduled', 'dead', undefined],
  ])
  expect(await redis.row(hand)).toMatchObject({ last_error: 'lease expired on attempt 5 of 5', lapses: '5' })
  expect((await redis.world(hand)).failed).toBe(1)
  await redis.clean(hand)
})

test.each([
  [3, ['pending', 'scheduled', 'dead']],
  ['', ['pending', 'dead']],
] as const)(
  'a job with the limit "%s" in a queue with the limit 2 goes through the states %j when it lapses',
  async (maxAttempts, states) => {
    const hand = redis.fresh()
    await hand.set('maxAttempts', 2)
    await hand.enqueueMany([{ id: ID, maxAttempts }])
    expect(await statesAfterLapses(hand, states.length)).toEqual(states)
  },
)

test.each([
  ['job', 2, 0],
  ['queue', 0, ''],
] as const)(
  'a lapse never makes a job dead when the limit of the %s is 0',
  async (_, ofQueue, maxAttempts) => {
    const hand = redis.fresh()
    await hand.set('maxAttempts', ofQueue)
    await hand.enqueueMany([{ id: ID, maxAttempts }])
    expect(await statesAfterLapses(hand, 12)).toEqual(Array(12).fill('scheduled').with(0, 'pending'))
  },
)

test('a job that lapses again and again does not keep the jobs behind it waiting', async () => {
  const hand = redis.fresh()
  for (const n of [1, 2, 3]) await hand.enqueue(idOf(n))
  const completed = []
  for (let claim = 0; claim < 4; claim++) {
    const [, , id = '', , token = ''] = (await hand.claimMany(1, 1)) as string[]
    if (id !== ID && (await hand.complete(id, token)) === 1) completed.push(id)
    await redis.pass()
  }
  expect(completed).toEqual([2, 3].map(idOf))
  await redis.clean(hand)
})

test.each(['reap', 'sweep', 'claimMany'] as const)(
  '%s makes a job dead whose lease lapsed at its last attempt',
  async (move) => {
    const hand = redis.fresh()
    await hand.enqueueMany([{ id: ID, maxAttempts: 1 }])
    await hand.claim(0)
    await redis.pass()
    await hand[move]()
    const { failed, rows } = await redis.world(hand)
    expect(failed).toBe(1)
    expect(rows[ID]).toEqual({
      ...{ state: 'dead', attempts: '1', payload: 'payload', max_attempts: '1' },
      ...{ lapsed: '1', lapses: '1', last_error: 'lease expired on attempt 1 of 1', failures: '1' },
      'error:1': expect.stringMatching(/^1 \d{13} lease expired on attempt 1 of 1$/),
    })
    await redis.clean(hand)
  },
)

test('reap delays jobs after their second lapse by different parts between half and all of the backoff', async () => {
  const hand = redis.fresh()
  await hand.set('backoffBaseMs', 10_000)
  for (let n = 1; n <= 100; n++) await hand.enqueue(idOf(n))
  for (let lapse = 1; lapse <= 2; lapse++) {
    for (let n = 0; n < 100; n++) await hand.claim(0)
    await redis.pass()
    if (lapse === 1) await hand.reap()
  }
  const from = await redis.now()
  expect(await hand.reap(100, '0.31')).toEqual([100, 0, 0, 0])
  const { world, now } = await look(redis.port, hand.queue)
  const instants = Object.values(world.schedule)
  expect(instants).toHaveLength(100)
  expect(Math.min(...instants)).toBeGreaterThanOrEqual(from + 10_000)
  expect(Math.max(...instants)).toBeLessThanOrEqual(now + 20_000)
  // Jobs that lapsed together do not all become due together.
  expect(Math.max(...instants) - Math.min(...instants)).toBeGreaterThan(8_000)
  await redis.clean(hand)
})

test('reap removes the entry in active of an id that was enqueued again by the core script', async () => {
  const hand = redis.fresh()
  await hand.send('ZADD', hand.keys.active, 1, ID)
  await hand.enqueue(ID)
  expect(await hand.reap()).toBe(1)
  await redis.clean(hand)
})

/** The state of a job after each of its lapses; undefined when it could not be claimed. */
async function statesAfterLapses(hand: Hand, lapses: number): Promise<(string | undefined)[]> {
  const states = []
  for (let lapse = 0; lapse < lapses; lapse++) {
    await hand.reschedule(ID, { delayMs: 0 })
    const claimed = (await hand.claim(0)) as unknown[]
    await redis.pass()
    await hand.reap()
    states.push(claimed.length === 0 ? undefined : (await redis.row(hand))?.['state'])
  }
  return states
}
