/** The read of one job. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import { build } from './support/states.ts'

const redis = bareRedis()
const ID = idOf(1)

test('a read of one job returns its state, instants and limit, and the stored payload', async () => {
  const hand = redis.fresh()
  const startBy = (await redis.now()) + 100_000
  await hand.enqueueMany([{ id: ID, startBy, maxAttempts: 7, delayMs: 50_000 }])
  const runAt = (await redis.world(hand)).schedule[ID]
  expect(await redis.queueOf(hand).job(ID)).toEqual({
    ...{ id: ID, state: 'scheduled', attempts: 0, maxAttempts: 7, startBy, runAt },
    payload: new TextEncoder().encode('payload'),
  })
})

test('a read of one job returns nothing for an unknown id and for a half row', async () => {
  const hand = redis.fresh()
  await build('half a row in active', hand, ID)
  const queue = redis.queueOf(hand)
  expect([await queue.job(ID), await queue.job(idOf(2))]).toEqual([undefined, undefined])
})

test('a read of one job returns how often its leases lapsed', async () => {
  const hand = redis.fresh()
  await build('scheduled by a second lapse', hand, ID)
  expect(await redis.queueOf(hand).job(ID)).toMatchObject({ lapses: 2, attempts: 2, state: 'scheduled' })
})
