/** Claim without a limit: the contract's script, behind a sweep that an isolate remembers for one second. */
import { expect, test } from 'vitest'
import { bareRedis, idOf, recording } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { look } from './support/world.ts'

const redis = bareRedis()

test('a claim without a limit sends one command, and a sweep before it once a second', async () => {
  const hand = await filled(4)
  const { port, sent } = recording(redis.port)
  let clock = 0
  const queue = redis.queueOf(hand, { port, now: () => clock })
  const claim = async () => (await queue.claim({})).jobs.map(({ id }) => id)

  expect(await claim()).toEqual([idOf(1)])
  const first = sent.length
  expect(await claim()).toEqual([idOf(2)])
  expect(sent.slice(first).map((commands) => commands.map(([name]) => name))).toEqual([['EVALSHA']])
  clock = 999
  expect(await claim()).toEqual([idOf(3)])
  expect(sent).toHaveLength(first + 2)
  clock = 1000
  expect(await claim()).toEqual([idOf(4)])
  expect(sent).toHaveLength(first + 4)
  await redis.clean(hand)
})

test('a claim without a limit promotes due jobs and reaps lapsed ones before it claims', async () => {
  const hand = await filled(1)
  await hand.claim(1)
  await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
  await redis.pass(2)
  const queue = redis.queueOf(hand, { now: () => 0 })
  const jobs = [await queue.claim({}), await queue.claim({})].flatMap(({ jobs }) => jobs)
  expect(jobs.map(({ id, token }) => [id, token])).toEqual([
    [idOf(1), 2],
    [idOf(2), 1],
  ])
  await redis.clean(hand)
})

test('a claim without a limit obeys a pause by its own isolate at once, and by others after one second', async () => {
  const hand = await filled(3)
  let clock = 0
  const queue = redis.queueOf(hand, { now: () => clock })
  await queue.claim({})
  await hand.set('paused', 1)
  clock = 1000
  expect(await queue.claim({})).toEqual({ jobs: [], paused: true })
  await queue.resume()
  expect((await queue.claim({})).jobs.map(({ id }) => id)).toEqual([idOf(2)])
  await queue.pause()
  expect(await queue.claim({})).toEqual({ jobs: [], paused: true })
  await redis.clean(hand)
})

test('a claim without a limit obeys the limit of active jobs', async () => {
  const hand = await filled(3)
  await hand.set('maxActive', 1)
  const queue = redis.queueOf(hand, { now: () => 0 })
  expect((await queue.claim({})).jobs.map(({ id }) => id)).toEqual([idOf(1)])
  expect((await queue.claim({})).jobs).toEqual([])
  await redis.clean(hand)
})

test('a claim without a limit removes and counts the ghosts before the first job', async () => {
  const hand = redis.fresh()
  for (const n of [1, 2, 3]) await hand.send('ZADD', hand.keys.pending, 0, idOf(n))
  await hand.enqueue(idOf(4), 'good')
  const { jobs } = await redis.queueOf(hand, { now: () => 0 }).claim({})
  expect(jobs.map(({ id, payload }) => [id, new TextDecoder().decode(payload)])).toEqual([[idOf(4), 'good']])
  expect((await redis.world(hand)).ghosts).toBe(3)
  await redis.clean(hand)
})

test('a claim without a limit uses the lease of the queue unless the call has one', async () => {
  const hand = await filled(2)
  await hand.set('leaseMs', 41_000)
  const queue = redis.queueOf(hand, { now: () => 0 })
  const from = await redis.now()
  expect((await queue.claim({})).jobs[0]?.leaseMs).toBe(41_000)
  expect((await queue.claim({ leaseMs: 61_000 })).jobs[0]?.leaseMs).toBe(61_000)
  const { world, now } = await look(redis.port, hand.queue)
  for (const [n, leaseMs] of [
    [1, 41_000],
    [2, 61_000],
  ] as const) {
    expect(world.active[idOf(n)]).toBeGreaterThanOrEqual(from + leaseMs)
    expect(world.active[idOf(n)]).toBeLessThanOrEqual(now + leaseMs)
  }
})

test('the hint for the next claim doubles up to a second while the queue is empty, and starts again after a job', () => {
  const queue = redis.queueOf(redis.fresh(), { now: () => 0 })
  const hints = Array.from({ length: 8 }, () => queue.hintMs(0, undefined))
  expect(hints).toEqual([50, 100, 200, 400, 800, 1000, 1000, 1000])
  expect(queue.hintMs(0, 70)).toBe(70)
  expect(queue.hintMs(0, 0)).toBe(1)
  expect(queue.hintMs(3, undefined)).toBe(0)
  expect(queue.hintMs(0, undefined)).toBe(50)
})

test('the token rises by one with every claim, whatever move ended the claim before', async () => {
  const hand = redis.fresh()
  const id = idOf(1)
  await hand.enqueue(id)
  const lapse = () => hand.send('ZADD', hand.keys.active, 1, id)
  const ends = [
    (token: number) => hand.settle([{ action: 'release', id, token, ms: 0 }]),
    (token: number) => hand.retry(id, token, 0, 0),
    async (token: number) => {
      await hand.settle([{ action: 'fail', id, token, error: 'no' }])
      await hand.redrive(id)
    },
    async () => {
      await lapse()
      await hand.reap()
    },
    async () => {
      await lapse()
      await hand.sweep()
      await hand.reschedule(id, { delayMs: 0 })
    },
  ]
  for (let token = 1; token <= 20; token++) {
    const isBatch = token % 2 === 0
    const reply = isBatch ? ((await hand.claimMany(1)) as unknown[]).slice(2, 5) : await hand.claim()
    expect(reply).toEqual([id, 'payload', isBatch ? String(token) : token])
    await ends[token % ends.length]?.(token)
    await hand.promote()
    await redis.clean(hand)
  }
})

async function filled(count: number): Promise<Hand> {
  const hand = redis.fresh()
  for (let n = 1; n <= count; n++) await hand.enqueue(idOf(n))
  return hand
}
