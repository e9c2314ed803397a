/** Claim with a limit: batches, repeats under a claimId, the limit of active jobs, and jobs with a startBy. */
import { expect, test } from 'vitest'
import { bareRedis, idOf } from './support/bare.ts'
import { batch } from './support/claims.ts'
import { type Hand, handOn } from './support/hand.ts'
import { look } from './support/world.ts'

const redis = bareRedis()

test('a batch claim returns the oldest jobs in mint order, whatever the order of their enqueues', async () => {
  const hand = redis.fresh()
  for (const n of [5, 1, 4, 2, 3]) await hand.enqueue(idOf(n))
  expect(batch(await hand.claimMany(3)).ids).toEqual([1, 2, 3].map(idOf))
  expect(batch(await hand.claimMany(100)).ids).toEqual([4, 5].map(idOf))
  expect(batch(await hand.claimMany(100)).ids).toEqual([])
  await redis.clean(hand)
})

test('185: a batch claim returns at most 4 MiB of payload, and the next one continues in order', async () => {
  const hand = redis.fresh()
  const mebibyte = 'x'.repeat(1024 * 1024)
  for (let n = 1; n <= 6; n++) await hand.enqueue(idOf(n), mebibyte)
  expect(batch(await hand.claimMany(100)).ids).toEqual([1, 2, 3, 4].map(idOf))
  const { pending, rows } = await redis.world(hand)
  expect(Object.keys(pending)).toEqual([5, 6].map(idOf))
  expect(rows[idOf(5)]).toMatchObject({ state: 'pending', attempts: '0' })
  expect(batch(await hand.claimMany(100)).ids).toEqual([5, 6].map(idOf))
  await redis.clean(hand)
})

test('a batch claim returns a job of more than 4 MiB alone', async () => {
  const hand = redis.fresh()
  await hand.enqueue(idOf(1), 'x'.repeat(9 * 1024 * 1024))
  await hand.enqueue(idOf(2), 'small')
  expect(batch(await hand.claimMany(100)).ids).toEqual([idOf(1)])
  expect(batch(await hand.claimMany(100)).ids).toEqual([idOf(2)])
  await redis.clean(hand)
})

test.each([1, 10, 100])('a batch claim of %i finds the one job behind 900 ghosts', async (limit) => {
  const hand = redis.fresh()
  await putGhosts(hand, 900)
  await hand.enqueue(idOf(9_999), 'good')
  expect(batch(await hand.claimMany(limit)).ids).toEqual([idOf(9_999)])
  expect((await redis.world(hand)).ghosts).toBe(900)
  await redis.clean(hand)
})

test('a batch claim that stops among ghosts returns nextMs 0, because there may be jobs behind them', async () => {
  const hand = redis.fresh()
  await putGhosts(hand, 1_500)
  expect(batch(await hand.claimMany(1))).toMatchObject({ ids: [], nextMs: 0 })
  expect(batch(await hand.claimMany(1))).toMatchObject({ ids: [], nextMs: -1 })
})

test('three batch claims at most return the job behind 1,250 ghosts', async () => {
  const hand = redis.fresh()
  await putGhosts(hand, 1_250)
  await hand.enqueue(idOf(9_999))
  const claimed = []
  for (let claim = 1; claim <= 3; claim++) claimed.push(...batch(await hand.claimMany(100)).ids)
  expect(claimed).toEqual([idOf(9_999)])
  expect((await redis.world(hand)).ghosts).toBe(1_250)
  await redis.clean(hand)
})

test('a batch claim of one removes and counts a ghost and returns the job behind it', async () => {
  const hand = redis.fresh()
  await putGhosts(hand, 1)
  await hand.enqueue(idOf(2))
  expect(await hand.claimMany(1)).toEqual(['ok', 100_000, idOf(2), 'payload', '1', 100_000, 1, 5, ''])
  const { ghosts, rows } = await redis.world(hand)
  expect([ghosts, Object.keys(rows)]).toEqual([1, [idOf(2)]])
  await redis.clean(hand)
})

test('a batch claim returns jobs that it has just promoted and reaped', async () => {
  const hand = await filled(1)
  await hand.claim(0)
  await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
  await hand.enqueueMany([{ id: idOf(3), delayMs: 100_000 }])
  await redis.pass(2)
  expect(batch(await hand.claimMany(100))).toMatchObject({ ids: [1, 2].map(idOf), tokens: ['2', '1'] })
  await redis.clean(hand)
})

test('an empty batch claim returns the time until the next job is due or the next lease lapses', async () => {
  const hand = redis.fresh()
  expect(batch(await hand.claimMany(1)).nextMs).toBe(-1)
  await hand.enqueueMany([{ id: idOf(1), delayMs: 50_000 }])
  await expectNext(hand, async () => (await redis.world(hand)).schedule[idOf(1)] ?? 0)
  await hand.enqueue(idOf(2))
  await hand.claim(20_000)
  await expectNext(hand, async () => (await redis.world(hand)).active[idOf(2)] ?? 0)
})

test('a batch claim without a lease uses that of the queue, which is 30 s by default', async () => {
  const hand = await filled(2)
  expect(batch(await hand.claimMany(1, '')).leases).toEqual([30_000])
  await hand.set('leaseMs', 77_000)
  expect(batch(await hand.claimMany(1, '')).leases).toEqual([77_000])
})

test('the lease of a batch claim ends by the clock of the server', async () => {
  const hand = await filled(1)
  const from = await redis.now()
  const reply = await hand.claimMany(1, 12_345)
  const { world, now } = await look(redis.port, hand.queue)
  expect(reply).toEqual(['ok', 12_345, idOf(1), 'payload 1', '1', 12_345, 1, 5, ''])
  expect(world.active[idOf(1)]).toBeGreaterThanOrEqual(from + 12_345)
  expect(world.active[idOf(1)]).toBeLessThanOrEqual(now + 12_345)
})

test('a batch claim on a paused queue promotes due jobs, claims none and reports the pause', async () => {
  const hand = await filled(1)
  await hand.enqueueMany([{ id: idOf(2), delayMs: 1 }])
  await hand.set('paused', '')
  await redis.pass(2)
  expect(batch(await hand.claimMany(10))).toMatchObject({ status: 'paused', ids: [] })
  expect(Object.keys((await redis.world(hand)).pending)).toEqual([1, 2].map(idOf))
  await hand.send('HDEL', hand.keys.meta, 'paused')
  expect(batch(await hand.claimMany(10)).ids).toEqual([1, 2].map(idOf))
  await redis.clean(hand)
})

test('a repeated claim returns the same jobs with the same tokens and the rest of their leases', async () => {
  const hand = await filled(5)
  const first = batch(await hand.claimMany(3, 60_000, 'claim-1'))
  await redis.pass(5)
  const from = await redis.now()
  const again = batch(await hand.claimMany(3, 60_000, 'claim-1'))
  const { world, now } = await look(redis.port, hand.queue)
  expect([again.ids, again.tokens]).toEqual([first.ids, first.tokens])
  for (const [nth, lease] of again.leases.entries()) {
    const end = world.active[idOf(nth + 1)] ?? 0
    expect(lease).toBeGreaterThanOrEqual(end - now)
    expect(lease).toBeLessThanOrEqual(end - from)
  }
  expect(batch(await hand.claimMany(3, 60_000, 'claim-2')).ids).toEqual([4, 5].map(idOf))
  expect(batch(await hand.claimMany(3, 60_000)).ids).toEqual([])
  await redis.clean(hand)
})

test('a repeated claim returns its jobs and no others, whether or not other jobs are pending', async () => {
  const hand = await filled(3)
  const first = batch(await hand.claimMany(2, 60_000, 'claim-1'))
  for (const others of [1, 0]) {
    expect(await hand.send('ZCARD', hand.keys.pending)).toBe(others)
    const again = batch(await hand.claimMany(2, 60_000, 'claim-1'))
    expect([again.ids, again.tokens]).toEqual([first.ids, first.tokens])
    await hand.claimMany(2, 60_000, 'claim-2')
  }
  await redis.clean(hand)
})

test('a repeated claim leaves out jobs that were completed, retried, or released and claimed again', async () => {
  const hand = await filled(6)
  await hand.claimMany(5, 60_000, 'c')
  await hand.settle([
    { action: 'complete', id: idOf(1), token: 1 },
    { action: 'retry', id: idOf(2), token: 1, ms: 50_000, maxAttempts: 0 },
    { action: 'release', id: idOf(3), token: 1, ms: 0 },
  ])
  await hand.claim()
  expect(batch(await hand.claimMany(5, 60_000, 'c')).ids).toEqual([4, 5].map(idOf))
  await redis.clean(hand)
})

test('a repeated claim claims new jobs when none of its own are active', async () => {
  const hand = await filled(3)
  await hand.claimMany(1, 60_000, 'c')
  await hand.complete(idOf(1), 1)
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(2)])
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(2)])
  await redis.clean(hand)
})

test('a repeated claim does not return a job whose lease lapsed or that another claim holds', async () => {
  const hand = await filled(1)
  await hand.claimMany(1, 1, 'c')
  await redis.pass(2)
  expect(batch(await hand.claimMany(1, 60_000, 'c'))).toMatchObject({ ids: [idOf(1)], tokens: ['2'] })
  await hand.settle([{ action: 'release', id: idOf(1), token: 2, ms: 0 }])
  await hand.claimMany(1, 60_000, 'other')
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([])
  await redis.clean(hand)
})

test('a repeated claim does not return a job whose lease was shortened and has lapsed', async () => {
  const hand = await filled(1)
  await hand.claimMany(1, 60_000, 'c')
  await hand.settle([{ action: 'extend', id: idOf(1), token: 1, ms: 0 }])
  await redis.pass()
  const { ids, tokens, leases } = batch(await hand.claimMany(1, 60_000, 'c'))
  expect([ids, tokens, leases]).toEqual([[idOf(1)], ['2'], [60_000]])
  await redis.clean(hand)
})

test('a repeat of a claim that returned nothing claims new jobs', async () => {
  const hand = redis.fresh()
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([])
  await hand.enqueue(idOf(1))
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
})

test('a repeated claim returns its jobs although the queue is full or paused', async () => {
  const hand = await filled(2)
  await hand.claimMany(1, 60_000, 'c')
  await hand.set('maxActive', 1)
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
  await hand.set('paused', 1)
  expect(batch(await hand.claimMany(1, 60_000, 'c')).ids).toEqual([idOf(1)])
})

test('eight claims at once under one claimId return the same batch', async () => {
  const hand = await filled(10)
  const ports = await Promise.all(Array.from({ length: 8 }, redis.connect))
  const replies = await Promise.all(
    ports.map((port) => handOn(port, hand.queue).claimMany(3, 60_000, 'c').then(batch)),
  )
  for (const { ids, tokens } of replies) expect([ids, tokens]).toEqual([[1, 2, 3].map(idOf), ['1', '1', '1']])
  await redis.clean(hand)
})

test('a claim is remembered for a minute longer than its leases', async () => {
  const hand = await filled(1)
  await hand.claimMany(1, 20, 'c')
  const { now } = await look(redis.port, hand.queue)
  const expiresAt = Number(await hand.send('PEXPIRETIME', hand.keys.claim('c')))
  expect(expiresAt).toBeLessThanOrEqual(now + 60_020)
  expect(expiresAt).toBeGreaterThan(now + 50_000)
})

test('parallel claims use the limit of active jobs up completely and never exceed it', async () => {
  const hand = await filled(60)
  await hand.set('maxActive', 25)
  const ports = await Promise.all(Array.from({ length: 6 }, redis.connect))
  const claimed: string[] = []
  await Promise.all(
    ports.map(async (port, nth) => {
      const own = handOn(port, hand.queue)
      for (let i = 0; i < 4; i++) claimed.push(...batch(await own.claimMany(1 + nth, 60_000)).ids)
    }),
  )
  expect(claimed.toSorted()).toEqual(Array.from({ length: 25 }, (_, nth) => idOf(nth + 1)))
  expect(batch(await hand.claimMany(1)).status).toBe('full')

  await hand.complete(idOf(1), 1)
  expect(batch(await hand.claimMany(100)).ids).toEqual([idOf(26)])
  await redis.clean(hand)
})

test('a limit of active jobs of 0 is no limit, and one below the present number takes no job back', async () => {
  const hand = await filled(5)
  await hand.set('maxActive', 0)
  expect(batch(await hand.claimMany(3)).ids).toEqual([1, 2, 3].map(idOf))
  await hand.set('maxActive', 1)
  expect(batch(await hand.claimMany(3)).ids).toEqual([])
  expect(Object.keys((await redis.world(hand)).active)).toEqual([1, 2, 3].map(idOf))
})

test('a lapsed lease does not count towards the limit of active jobs', async () => {
  const hand = await filled(2)
  await hand.set('maxActive', 1)
  await hand.claimMany(1, 1)
  await redis.pass(2)
  expect(batch(await hand.claimMany(5)).ids).toEqual([idOf(1)])
  await redis.clean(hand)
})

test('a batch claim returns a job before its startBy and moves it to dead after it', async () => {
  const hand = redis.fresh()
  const now = await redis.now()
  await hand.enqueueMany([
    { id: idOf(1), startBy: now - 1 },
    { id: idOf(2), startBy: now + 100_000 },
    { id: idOf(3) },
  ])
  expect(batch(await hand.claimMany(10)).ids).toEqual([2, 3].map(idOf))
  const { rows, failed, startBy } = await redis.world(hand)
  expect(rows[idOf(1)]).toMatchObject({ state: 'dead', last_error: 'expired', attempts: '0' })
  expect([failed, startBy]).toEqual([1, {}])
  await redis.clean(hand)
})

test.each(['release', 'retry', 'lapse'] as const)(
  'a job that was claimed before its startBy can be claimed after it, following a %s',
  async (end) => {
    const hand = redis.fresh()
    await hand.enqueueMany([{ id: idOf(1), startBy: (await redis.now()) + 100_000 }])
    await hand.claim(end === 'lapse' ? 1 : 60_000)
    const passed = (await redis.now()) - 1
    await hand.send('HSET', hand.keys.job(idOf(1)), 'start_by', passed)
    await hand.send('ZADD', hand.keys.startBy, 'XX', passed, idOf(1))
    if (end === 'release') await hand.settle([{ action: 'release', id: idOf(1), token: 1, ms: 0 }])
    if (end === 'retry') await hand.retry(idOf(1), 1, 0, 0)
    await redis.pass(2)
    await hand.sweep()
    expect(batch(await hand.claimMany(1)).tokens).toEqual(['2'])
    expect((await redis.world(hand)).startBy).toEqual({})
    await redis.clean(hand)
  },
)

test('a batch claim of five returns the job behind thirty jobs whose startBy has passed', async () => {
  const hand = redis.fresh()
  const past = (await redis.now()) - 1
  await hand.enqueueMany(Array.from({ length: 30 }, (_, n) => ({ id: idOf(n), startBy: past })))
  await hand.enqueue(idOf(99))
  expect(batch(await hand.claimMany(5)).ids).toEqual([idOf(99)])
  expect((await redis.world(hand)).failed).toBe(30)
  await redis.clean(hand)
})

async function filled(count: number): Promise<Hand> {
  const hand = redis.fresh()
  for (let n = 1; n <= count; n++) await hand.enqueue(idOf(n), `payload ${n}`)
  return hand
}

async function putGhosts({ keys, send }: Hand, count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, nth) => idOf(nth + 1))
  await send('ZADD', keys.pending, ...ids.flatMap((id) => [0, id]))
}

/** Checks the `nextMs` of an empty claim against the instant that it counts to. */
async function expectNext(hand: Hand, instant: () => Promise<number>): Promise<void> {
  const from = await redis.now()
  const { ids, nextMs } = batch(await hand.claimMany(1))
  const to = await redis.now()
  expect(ids).toEqual([])
  expect(nextMs).toBeGreaterThanOrEqual((await instant()) - to)
  expect(nextMs).toBeLessThanOrEqual((await instant()) - from)
}
