/** Promote: due jobs become pending. What it does to jobs in other states is in moves.test.ts. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import { LATER_MS } from './support/states.ts'

const redis = bareRedis()

test('promote keeps jobs of one instant in the order of their ids, and a removed job is not among them', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([3, 1, 2].map((n) => ({ id: idOf(n), delayMs: LATER_MS })))
  for (const n of [3, 1, 2]) await hand.send('ZADD', hand.keys.schedule, 1, idOf(n))
  await hand.remove(idOf(2))
  expect(await hand.promote()).toBe(2)
  expect(await hand.claim()).toEqual([idOf(1), 'payload', 1])
  expect(await hand.claim()).toEqual([idOf(3), 'payload', 1])
  await redis.clean(hand)
})

test('promote removes the entry in schedule of an id that was enqueued again by the core script', async () => {
  const hand = redis.fresh()
  await hand.send('ZADD', hand.keys.schedule, 1, idOf(1))
  await hand.enqueue(idOf(1))
  expect(await hand.promote()).toBe(1)
  await redis.clean(hand)
})
