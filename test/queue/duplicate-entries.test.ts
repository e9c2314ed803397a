/**
 * Duplicate entries: an id that was a ghost in one set became a job in another, by a client that does not look at all
 * sets. The entry is removed by the next move that meets it, and the job stays in the set that its row names.
 */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { outcome } from './support/results.ts'

const redis = bareRedis()
const ID = idOf(2)
type SetName = 'pending' | 'active' | 'schedule' | 'dead'

/** Moves that look into a set, by the set. */
const MOVES: readonly [SetName, string, (hand: Hand) => Promise<unknown>][] = [
  ['schedule', 'promote', (hand) => redis.queueOf(hand).promote(10)],
  ['schedule', 'the core promote', (hand) => hand.promote()],
  ['schedule', 'sweep', (hand) => hand.sweep()],
  ['schedule', 'a batch claim', (hand) => hand.claimMany(0)],
  ['active', 'reap', (hand) => redis.queueOf(hand).reap(10)],
  ['active', 'the core reap', (hand) => hand.reap()],
  ['active', 'sweep', (hand) => hand.sweep()],
  ['active', 'a batch claim', (hand) => hand.claimMany(0)],
  ['dead', 'purge', (hand) => redis.queueOf(hand).purge('dead', 10)],
  ['schedule', 'purge', (hand) => redis.queueOf(hand).purge('scheduled', 10)],
  ['pending', 'purge', (hand) => redis.queueOf(hand).purge('pending', 10)],
]

/** Moves an enqueued job into a set. */
const JOBS: Readonly<Record<SetName, (hand: Hand) => Promise<unknown>>> = {
  pending: async () => {},
  active: (hand) => hand.claim(),
  dead: async (hand) => {
    await hand.claim()
    await hand.retry(ID, 1, 0, 1)
  },
  schedule: async (hand) => {
    await hand.claim()
    await hand.retry(ID, 1, 100_000, 0)
  },
}

const CASES = MOVES.flatMap(([duplicate, name, move]) =>
  (Object.keys(JOBS) as SetName[])
    .filter((job) => job !== duplicate)
    .map((job) => ({ duplicate, job, name, move })),
)

test.each(CASES)(
  '$name removes a duplicate entry in $duplicate and leaves the job in $job',
  async ({ duplicate, job, move }) => {
    const hand = redis.fresh()
    await hand.enqueue(ID)
    await JOBS[job](hand)
    const healthy = await redis.world(hand)
    await hand.send(
      'ZADD',
      hand.keys[duplicate],
      duplicate === 'schedule' || duplicate === 'active' ? 1 : 0,
      ID,
    )
    await move(hand)
    expect(await redis.world(hand)).toEqual(healthy)
    await redis.clean(hand)
  },
)

test('remove deletes a pending job that has a duplicate entry in active, because it has no lease', async () => {
  const hand = redis.fresh()
  await hand.send('ZADD', hand.keys.active, 9_000_000_000_000, ID)
  await hand.enqueue(ID)
  expect(outcome(await redis.queueOf(hand).remove(ID))).toEqual({ id: ID, status: 'removed' })
  await redis.clean(hand)
})

test('promote leaves the lease of an active job that has a duplicate entry in schedule', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await hand.send('ZADD', hand.keys.schedule, 1, ID)
  await hand.enqueue(ID)
  await hand.claim()
  await queue.promote(10)
  expect((await queue.claim({ limit: 10 })).jobs).toEqual([])
  expect(outcome(await queue.complete(ID, 1))).toEqual({ id: ID, status: 'completed' })
  await redis.clean(hand)
})
