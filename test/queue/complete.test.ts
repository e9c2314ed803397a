/** Complete: only with the token of the current lease, or with that of the last lease after it lapsed. */
import { expect, test } from 'vitest'
import { keysOf } from '../support/census.ts'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { build, LATER_MS } from './support/states.ts'

const redis = bareRedis()
const ID = idOf(1)

test.each([
  ['scheduled', false],
  ['pending', true],
] as const)('complete accepts the token of a lapsed lease while the job is %s', async (_, promotes) => {
  const hand = redis.fresh()
  await build('scheduled by a second lapse and due', hand, ID)
  if (promotes) expect(await hand.promote()).toBe(1)
  expect(await hand.complete(ID, 2)).toBe(1)
  await expectNothingLeft(hand)
})

test.each([0, LATER_MS])(
  'complete accepts the token of a lapsed lease after an operator rescheduled the job by %i ms',
  async (delayMs) => {
    const hand = redis.fresh()
    await build('scheduled by a second lapse', hand, ID)
    await hand.reschedule(ID, { delayMs })
    expect(await hand.settle([{ action: 'complete', id: ID, token: 2 }])).toEqual(['completed', 0])
    await expectNothingLeft(hand)
  },
)

test('a late complete removes the job from the start-by index', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, startBy: (await redis.now()) + LATER_MS }])
  await lapseAndReap(hand)
  expect(await hand.complete(ID, 1)).toBe(1)
  await expectNothingLeft(hand)
})

test.each(['claimed', 'retried', 'completed'] as const)(
  'complete rejects the token of a lapsed lease once another consumer has %s the job',
  async (end) => {
    const hand = redis.fresh()
    await hand.enqueue(ID)
    await lapseAndReap(hand)
    await hand.claim()
    if (end === 'retried') await hand.retry(ID, 2, LATER_MS, 0)
    if (end === 'completed') await hand.complete(ID, 2)
    const before = await redis.world(hand)
    expect(await hand.complete(ID, 1)).toEqual(end === 'completed' ? 0 : stale())
    expect(await redis.world(hand)).toEqual(before)
    await redis.clean(hand)
  },
)

test('complete rejects the token of a lapsed lease after a redrive', async () => {
  const hand = redis.fresh()
  await build('dead by a lapse', hand, ID)
  await hand.redrive(ID)
  expect(await hand.complete(ID, 2)).toEqual(stale(' (released)'))
  await hand.claim()
  expect(await hand.complete(ID, 2)).toEqual(stale())
  expect(await hand.complete(ID, 3)).toBe(1)
  await expectNothingLeft(hand)
})

test('complete rejects the token of a lease that was ended by a reaper that records no lapse', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim(1)
  await redis.pass()
  // The reaper of an older client.
  await hand.send('ZREM', hand.keys.active, ID)
  await hand.send('ZADD', hand.keys.pending, 0, ID)
  await hand.send('HSET', hand.keys.job(ID), 'state', 'pending')
  expect(await hand.complete(ID, 1)).toEqual(stale(' (released)'))
  await redis.clean(hand)
})

test('every further report on a completed job is rejected and creates no key', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim()
  await hand.complete(ID, 1)
  const before = await redis.world(hand)

  expect(await hand.complete(ID, 1)).toBe(0)
  expect(await hand.retry(ID, 1, 0, 5)).toEqual({ error: 'EMQSTALE job gone' })
  for (const action of ['complete', 'retry', 'fail', 'release', 'extend'] as const)
    expect(await hand.settle([{ action, id: ID, token: 1, ms: 10_000 }])).toEqual(['gone', 0])

  expect(await redis.world(hand)).toEqual(before)
  await expectNothingLeft(hand)
})

function stale(reason = '') {
  return { error: `EMQSTALE complete token mismatch${reason}` }
}

async function lapseAndReap(hand: Hand): Promise<void> {
  await hand.claim(1)
  await redis.pass()
  await hand.reap()
}

/** Only counters and settings are left. */
async function expectNothingLeft({ queue }: Hand): Promise<void> {
  const keys = await keysOf(redis.port, queue)
  expect(keys.filter((key) => !key.includes(':metrics:') && !key.endsWith(':meta'))).toEqual([])
}
