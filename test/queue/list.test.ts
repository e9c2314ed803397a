/** Lists: pages that show each job that stays exactly once, whatever changes between them. A list changes nothing. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeSnowflake, SNOWFLAKE_EPOCH_MS } from '../../src/protocol/ids.ts'
import { MAX_INSTANT_MS } from '../../src/protocol/limits.ts'
import { bareRedis, idOf } from './support/bare.ts'
import { pageRequest, pagesOf, put } from './support/listed.ts'
import { wipe } from './support/world.ts'

const redis = bareRedis()
const orders = fc.constantFrom('newest' as const, 'oldest')

test('the pages of a list show every job of a state once and in order, in both directions', async () => {
  const jobs = fc.uniqueArray(fc.tuple(fc.nat(60), fc.integer({ min: 1, max: 3 })), {
    maxLength: 25,
    selector: ([n]) => n,
  })
  const states = fc.constantFrom('pending' as const, 'active', 'scheduled', 'dead')
  await fc.assert(
    fc.asyncProperty(
      jobs,
      states,
      orders,
      fc.integer({ min: 1, max: 7 }),
      async (jobs, state, order, limit) => {
        const hand = redis.fresh()
        const queue = redis.queueOf(hand)
        const isTimed = state === 'active' || state === 'scheduled'
        for (const [n, score] of jobs) await put(hand, state, idOf(n), isTimed ? score : 0)
        const expected = jobs
          .toSorted(([a, s], [b, t]) => (isTimed && s !== t ? s - t : byteOrder(idOf(a), idOf(b))))
          .map(([n]) => idOf(n))
        if (order === 'newest') expected.reverse()
        const before = await redis.world(hand)
        const read = await pagesOf(queue, { state, order, limit })
        expect(read.flat()).toEqual(expected)
        expect(read.slice(0, -1).every((page) => page.length === limit)).toBe(true)
        expect(await redis.world(hand)).toEqual(before)
        await wipe(redis.port, hand.queue)
      },
    ),
    { numRuns: 60 },
  )
}, 60_000)

test('the pages of a list show each job that stays exactly once while others of its instant come and go', async () => {
  const limits = fc.integer({ min: 1, max: 4 })
  const changes = fc.array(fc.record({ comes: fc.nat(99), goes: fc.nat(99) }), {
    minLength: 1,
    maxLength: 12,
  })
  await fc.assert(
    fc.asyncProperty(changes, orders, limits, fc.boolean(), async (changes, order, limit, withPayload) => {
      const hand = redis.fresh()
      const queue = redis.queueOf(hand)
      const stays = Array.from({ length: 12 }, (_, n) => idOf(n * 8 + 4))
      for (const id of stays) await put(hand, 'scheduled', id, 7)
      for (const { goes } of changes) await put(hand, 'scheduled', idOf(goes), 7)
      const read = await pagesOf(queue, { state: 'scheduled', order, limit, withPayload }, async (page) => {
        const change = changes[page - 1]
        if (change === undefined) return
        await put(hand, 'scheduled', idOf(change.comes), 7)
        if (!stays.includes(idOf(change.goes))) await hand.remove(idOf(change.goes))
      })
      const seen = read.flat().filter((id) => stays.includes(id))
      expect(seen).toEqual(order === 'newest' ? stays.toReversed() : stays)
      expect(new Set(read.flat()).size).toBe(read.flat().length)
      await wipe(redis.port, hand.queue)
    }),
    { numRuns: 60 },
  )
}, 60_000)

test('a list contains payloads and errors only on request', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await put(hand, 'dead', idOf(1), 0, 'why')
  const [plain] = (await queue.list(pageRequest({ state: 'dead' }))).jobs
  expect([plain?.payload, plain?.lastError]).toEqual([undefined, undefined])
  const whole = pageRequest({ state: 'dead', withErrors: true, withPayload: true })
  const [full] = (await queue.list(whole)).jobs
  expect(full?.lastError).toBe('why')
  expect(new TextDecoder().decode(full?.payload)).toBe(`p ${idOf(1)}`)
})

test('a list selects jobs minted at or after `from` and before `to`', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const start = Date.parse('2026-01-01T00:00:00Z')
  for (const [nth, state] of (['pending', 'dead'] as const).entries()) {
    const ids = [0, 1, 2, 3].map((ms) => mintedAt(start + ms, nth))
    for (const id of ids) await put(hand, state, id)
    for (const order of ['newest', 'oldest'] as const) {
      const read = await pagesOf(queue, { state, order, limit: 1, from: start + 1, to: start + 3 })
      expect(read.flat().toSorted(byteOrder)).toEqual([ids[1], ids[2]])
    }
    expect((await pagesOf(queue, { state, from: start + 4 })).flat()).toEqual([])
    expect((await pagesOf(queue, { state, to: start })).flat()).toEqual([])
    expect((await pagesOf(queue, { state, from: 0, to: MAX_INSTANT_MS })).flat()).toEqual(ids)
  }
})

test('a page after a cursor still obeys `from` and `to`', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const start = Date.parse('2026-01-01T00:00:00Z')
  const ids = [0, 1, 2, 3, 4, 5].map((ms) => mintedAt(start + ms))
  for (const state of ['pending', 'dead'] as const) {
    for (const id of ids) await put(hand, state, id)
    const listed = async (order: 'newest' | 'oldest', behind: number, from: number, to: number) => {
      const cursor = { id: ids[behind] ?? '', score: '0', seen: 1 }
      const page = pageRequest({ state, order, cursor, from: start + from, to: start + to })
      return (await queue.list(page)).jobs.map(({ id }) => ids.indexOf(id))
    }
    expect(await listed('newest', 5, 1, 3)).toEqual([2, 1])
    expect(await listed('newest', 3, 1, 3)).toEqual([2, 1])
    expect(await listed('newest', 2, 1, 3)).toEqual([1])
    expect(await listed('newest', 1, 1, 3)).toEqual([])
    expect(await listed('oldest', 0, 2, 4)).toEqual([2, 3])
    expect(await listed('oldest', 1, 2, 4)).toEqual([2, 3])
    expect(await listed('oldest', 2, 2, 4)).toEqual([3])
    expect(await listed('oldest', 5, 2, 4)).toEqual([])
  }
})

test('201: a page contains at most 4 MiB of payload, and the next page continues', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const large = 'x'.repeat(1.5 * 1024 * 1024)
  for (const n of [1, 2, 3, 4]) await hand.enqueue(idOf(n), large)
  const read = await pagesOf(queue, { withPayload: true })
  expect(read).toEqual([[1, 2].map(idOf), [3, 4].map(idOf)])
})

test('a list omits ghosts', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await put(hand, 'pending', idOf(2))
  for (const n of [1, 3]) await hand.send('ZADD', hand.keys.pending, 0, idOf(n))
  expect((await pagesOf(queue, { limit: 1 })).flat()).toEqual([idOf(2)])
})

test('a list returns runAt for scheduled jobs and leaseUntil for active ones', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  await put(hand, 'scheduled', idOf(1), 1_900_000_000_000)
  await put(hand, 'active', idOf(2), 1_900_000_000_001)
  const [scheduled] = (await queue.list(pageRequest({ state: 'scheduled' }))).jobs
  const [active] = (await queue.list(pageRequest({ state: 'active' }))).jobs
  expect([scheduled?.runAt, scheduled?.leaseUntil]).toEqual([1_900_000_000_000, undefined])
  expect([active?.runAt, active?.leaseUntil]).toEqual([undefined, 1_900_000_000_001])
})

function mintedAt(ms: number, n = 0): string {
  return `JOB${encodeSnowflake((BigInt(ms - SNOWFLAKE_EPOCH_MS) << 22n) | BigInt(n))}`
}

function byteOrder(a: string, b: string): number {
  return a < b ? -1 : 1
}
