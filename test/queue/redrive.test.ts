/** Redrive: a dead letter becomes pending with a new budget. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import { batch } from './support/claims.ts'
import type { Hand } from './support/hand.ts'
import { build } from './support/states.ts'

const redis = bareRedis()
const ID = idOf(1)

test('redrive gives a job a new budget for lapses and for retries', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, maxAttempts: 2 }])
  for (const redrives of [0, 1]) {
    expect(await stateAfterLapse(hand), `redriven ${redrives} times`).toBe('pending')
    expect(await stateAfterLapse(hand), `redriven ${redrives} times`).toBe('dead')
    if (redrives === 1) expect(await redis.row(hand)).toMatchObject({ attempts: '4', base: '2', lapses: '2' })
    await hand.redrive(ID)
  }
  await hand.claim()
  expect(await hand.retry(ID, 5, 0, '')).toBe('scheduled')
  await redis.clean(hand)
})

test('redrive keeps the count of claims, so that the token from before does not complete the job', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, maxAttempts: 3 }])
  for (let attempt = 1; attempt <= 2; attempt++) {
    await hand.claim()
    await hand.retry(ID, attempt, 0, 3)
    await hand.promote()
  }
  expect(await stateAfterLapse(hand)).toBe('dead')
  expect((await redis.row(hand))?.['last_error']).toBe('lease expired on attempt 3 of 3')
  await hand.redrive(ID)
  expect(await hand.claim()).toEqual([ID, 'payload', 4])
  expect(await hand.complete(ID, 3)).toEqual({ error: 'EMQSTALE complete token mismatch' })
  for (let attempt = 4; attempt <= 5; attempt++) {
    expect(await hand.retry(ID, attempt, 0, '')).toBe('scheduled')
    await hand.promote()
    await hand.claim()
  }
  expect(await hand.retry(ID, 6, 0, '')).toBe('dead')
  await redis.clean(hand)
})

test('redrive removes the startBy of a job, so that it does not expire again', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, startBy: (await redis.now()) - 1 }])
  await hand.sweep()
  await hand.redrive(ID)
  await hand.sweep()
  expect(batch(await hand.claimMany(1)).ids).toEqual([ID])
  await redis.clean(hand)
})

test('a dry redrive returns the number of dead letters and changes neither the queue nor the registry', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await build('dead by a fail', hand, ID)
  const before = await redis.world(hand)
  const later = '9000000000000'
  const scoreInRegistry = () => hand.send('ZSCORE', '{emq}:queues', hand.queue)
  await hand.send('ZADD', '{emq}:queues', later, hand.queue)
  expect(await queue.redriveMany({ limit: 10, dryRun: true })).toMatchObject({ redriven: 1, more: false })
  expect(await redis.world(hand)).toEqual(before)
  expect(await scoreInRegistry()).toBe(later)

  expect(await queue.redriveMany({ limit: 10 })).toMatchObject({ redriven: 1, more: false })
  expect(Number(await scoreInRegistry())).toBeLessThan(2 ** 40)
})

test.each([true, false])('a redrive of many with dryRun %s skips a row without a payload', async (dryRun) => {
  const hand = redis.fresh()
  await hand.send('HSET', hand.keys.job(ID), 'state', 'dead', 'last_error', 'e')
  await hand.send('ZADD', hand.keys.dead, 0, ID)
  const before = await redis.world(hand)
  expect(await redis.queueOf(hand).redriveMany({ limit: 10, dryRun })).toMatchObject({ redriven: 0 })
  expect(await redis.world(hand)).toEqual(before)
})

async function stateAfterLapse(hand: Hand): Promise<string | undefined> {
  await hand.claim(0)
  await redis.pass()
  await hand.reap()
  return (await redis.row(hand))?.['state']
}
