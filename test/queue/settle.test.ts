/** Settle: many jobs in one call, each by its own action. Release and extend exist only here. */
import { expect, test } from 'vitest'
import { bareRedis, idOf, recording } from './support/bare.ts'
import { handOn } from './support/hand.ts'
import { outcome } from './support/results.ts'
import { build, LATER_MS } from './support/states.ts'
import { look } from './support/world.ts'

const redis = bareRedis()
const [ID, OTHER] = [idOf(1), idOf(2)]

test('settle accepts the first of several items of one job and rejects the others', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.enqueue(OTHER)
  await hand.claimMany(2)
  const replies = await hand.settle([
    { action: 'complete', id: ID, token: 1 },
    { action: 'complete', id: ID, token: 1 },
    { action: 'retry', id: ID, token: 1, ms: 0, maxAttempts: 0 },
    { action: 'extend', id: ID, token: 1, ms: 10_000 },
    { action: 'retry', id: OTHER, token: 1, ms: LATER_MS, maxAttempts: 0 },
    { action: 'complete', id: OTHER, token: 1 },
  ])
  expect(replies).toEqual([
    ...['completed', 0, 'gone', 0, 'gone', 0, 'gone', 0],
    ...['scheduled', LATER_MS, 'stale', 'released'],
  ])
  const { completed, rows } = await redis.world(hand)
  expect([completed, Object.keys(rows)]).toEqual([1, [OTHER]])
  await redis.clean(hand)
})

test('settle returns one result for each item in order, and claims the next jobs in the same round trip', async () => {
  const hand = redis.fresh()
  for (const n of [1, 2, 3, 4]) await hand.enqueue(idOf(n))
  const { port, sent } = recording(redis.port)
  const queue = redis.queueOf(hand, { port, now: () => 0 })
  await queue.claim({ limit: 2 })
  await queue.settle([])
  const trips = sent.length
  const { results, claimed } = await queue.settle(
    [
      { action: 'complete', id: idOf(1), token: 1 },
      { action: 'complete', id: idOf(9), token: 1 },
      { action: 'extend', id: idOf(2), token: 7, leaseMs: 60_000 },
      { action: 'extend', id: idOf(2), token: 1, leaseMs: 60_000 },
      { action: 'retry', id: idOf(2), token: 1, delayMs: 50_000, error: 'e' },
      { action: 'release', id: idOf(2), token: 1 },
    ],
    { limit: 1 },
  )
  expect(sent).toHaveLength(trips + 1)
  expect(results.map(outcome)).toEqual([
    { id: idOf(1), status: 'completed' },
    { refused: 'gone' },
    { refused: 'stale', reason: 'superseded' },
    { id: idOf(2), status: 'extended', leaseMs: 60_000 },
    { id: idOf(2), status: 'scheduled', delayMs: 50_000 },
    { refused: 'stale', reason: 'released' },
  ])
  expect(claimed?.jobs.map(({ id }) => id)).toEqual([idOf(3)])
  await redis.clean(hand)
})

test('settle rejects an unknown action and a malformed lease before it writes anything', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim()
  const before = await redis.world(hand)
  const malformed = { id: ID, token: 1, ms: 'none', jitter: 'none' } as const
  expect(await hand.settle([{ action: 'extend', ...malformed }])).toMatchObject({
    error: expect.stringContaining('arithmetic on local'),
  })
  expect(await hand.settle([{ action: 'forget' as 'fail', ...malformed }])).toMatchObject({
    error: expect.stringContaining('ERR settle has no such action'),
  })
  expect(await redis.world(hand)).toEqual(before)
})

test('settle ignores a malformed delay and a malformed jitter', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim()
  const malformed = { id: ID, ms: 'none', jitter: 'none' } as const
  expect(await hand.settle([{ action: 'retry', token: 1, ...malformed }])).toEqual(['scheduled', 1000])
  await hand.reschedule(ID, { delayMs: 0 })
  await hand.claim()
  expect(await hand.settle([{ action: 'release', token: 2, ...malformed }])).toEqual(['pending', 0])
  await redis.clean(hand)
})

test('release uses no attempt of the budget, however often it is repeated', async () => {
  const hand = redis.fresh()
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
  expect(await redis.row(hand)).toMatchObject({ attempts: '12', base: '10' })
  await redis.clean(hand)
})

test('release of a redriven job leaves it the budget of the redrive', async () => {
  const hand = redis.fresh()
  await hand.enqueueMany([{ id: ID, maxAttempts: 1 }])
  await hand.claim()
  await hand.retry(ID, 1, 0, '')
  await hand.redrive(ID)
  await hand.claim()
  await hand.settle([{ action: 'release', id: ID, token: 2, ms: 0 }])
  await hand.claim()
  expect(await hand.retry(ID, 3, 0, '')).toBe('dead')
  await hand.redrive(ID)
  expect(await redis.row(hand)).toMatchObject({ attempts: '3', base: '3' })
  await redis.clean(hand)
})

test('extend sets the end of the lease from now, even to an earlier end', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim(600_000)
  for (const ms of [50_000, 300_000, 10_000]) {
    const from = await redis.now()
    await hand.settle([{ action: 'extend', id: ID, token: 1, ms }])
    const { world, now } = await look(redis.port, hand.queue)
    expect(world.active[ID]).toBeGreaterThanOrEqual(from + ms)
    expect(world.active[ID]).toBeLessThanOrEqual(now + ms)
  }
  await redis.clean(hand)
})

test('extend of a lapsed lease that was not yet reaped keeps the job from the reaper', async () => {
  const hand = redis.fresh()
  await build('active with a lapsed lease', hand, ID)
  await hand.settle([{ action: 'extend', id: ID, token: 2, ms: LATER_MS }])
  expect(await hand.reap()).toBe(0)
  expect(await hand.complete(ID, 2)).toBe(1)
})

test('extend rejects an active job that is missing in the set active, because its lease would never lapse', async () => {
  const hand = redis.fresh()
  await hand.enqueue(ID)
  await hand.claim()
  await hand.send('ZREM', hand.keys.active, ID)
  expect(await hand.settle([{ action: 'extend', id: ID, token: 1, ms: 60_000 }])).toEqual(['stale', 'lapsed'])
})

test('complete, extend and reap at the end of a lease complete the job exactly once', async () => {
  const [reaper, holder] = [await redis.connect(), await redis.connect()]
  for (let round = 0; round < 150; round++) {
    const hand = redis.fresh()
    await hand.enqueue(ID)
    await hand.claim(round % 3)
    const [completed] = await Promise.all([
      handOn(holder, hand.queue).complete(ID, 1),
      handOn(reaper, hand.queue).reap(),
      hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER_MS }]),
    ])
    // The newest token completes the job whether or not the reaper was faster.
    expect(completed).toBe(1)
    const empty = { rows: {}, pending: {}, active: {}, schedule: {}, dead: {}, completed: 1 }
    expect(await redis.world(hand)).toMatchObject(empty)
    expect(await hand.claim()).toEqual([])
  }
})

test('extend and reap at the end of a lease leave the job in exactly one set', async () => {
  const reaper = await redis.connect()
  for (let round = 0; round < 100; round++) {
    const hand = redis.fresh()
    await hand.enqueue(ID)
    await hand.claim(round % 3)
    const [, extended] = await Promise.all([
      handOn(reaper, hand.queue).reap(),
      hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER_MS }]),
    ])
    const { pending, active } = await redis.world(hand)
    const lapsed = ID in pending
    expect(ID in active).toBe(!lapsed)
    expect(extended).toEqual(lapsed ? ['stale', 'lapsed'] : ['extended', LATER_MS])
    await redis.clean(hand)
  }
})
