/**
 * Observing: pages that show every job that stays exactly once, whatever comes and goes between them; stats, single jobs
 * and the registry. Nothing that is read is changed by it.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeSnowflake, SNOWFLAKE_EPOCH_MS } from '../../src/protocol/ids.ts'
import { MAX_INSTANT_MS } from '../../src/protocol/limits.ts'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import type { PageCursor, PageRequest } from '../../src/queue/observe.ts'
import { freshQueue } from '../support/api.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { build } from './support/states.ts'
import { look, serverNow, wipe } from './support/world.ts'

const redis = bareRedis()

const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`
const mintedAt = (ms: number, n = 0): string =>
  `JOB${encodeSnowflake((BigInt(ms - SNOWFLAKE_EPOCH_MS) << 22n) | BigInt(n))}`

type Bench = { hand: Hand; queue: Queue }

function bench(): Bench {
  const hand = handOn(redis.port, freshQueue())
  return {
    hand,
    queue: createDatabase(redis.port, { wireAccept: [], wireClaim: undefined }).queue(hand.queue),
  }
}

const SETS = { pending: 'pending', active: 'active', scheduled: 'schedule', dead: 'dead' } as const
type State = keyof typeof SETS

/** Puts a job into a state with a score, as a move would have. */
async function put({ hand }: Bench, state: State, id: string, score = 0, error = ''): Promise<void> {
  await hand.send('HSET', hand.keys.job(id), 'state', state, 'attempts', 1, 'payload', `p ${id}`)
  if (error !== '') await hand.send('HSET', hand.keys.job(id), 'last_error', error)
  await hand.send('ZADD', hand.keys[SETS[state]], score, id)
}

const request = (over: Partial<PageRequest>): PageRequest => ({
  ...{ state: 'pending', order: 'oldest', limit: 10, withErrors: false, withPayload: false },
  ...over,
})

/** Reads page after page; `between` happens behind each of them. */
async function pages(
  { queue }: Bench,
  over: Partial<PageRequest>,
  between: (page: number) => Promise<unknown> = async () => {},
): Promise<string[][]> {
  const read: string[][] = []
  let cursor: PageCursor | undefined
  do {
    const page = await queue.list(request({ ...over, cursor }))
    read.push(page.jobs.map(({ id }) => id))
    cursor = page.cursor
    expect(page.jobs.length).toBeLessThanOrEqual(over.limit ?? 10)
    expect(read.length).toBeLessThan(200)
    await between(read.length)
  } while (cursor !== undefined)
  return read
}

const byteOrder = (a: string, b: string): number => (a < b ? -1 : 1)

describe('pages', () => {
  const orders = fc.constantFrom('newest' as const, 'oldest')

  test('of any state, in both directions, show every job once and in order', async () => {
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
          const stage = bench()
          const isTimed = state === 'active' || state === 'scheduled'
          for (const [n, score] of jobs) await put(stage, state, idOf(n), isTimed ? score : 0)
          const expected = jobs
            .toSorted(([a, s], [b, t]) => (isTimed && s !== t ? s - t : byteOrder(idOf(a), idOf(b))))
            .map(([n]) => idOf(n))
          if (order === 'newest') expected.reverse()
          const before = (await look(redis.port, stage.hand.queue)).world
          const read = await pages(stage, { state, order, limit })
          expect(read.flat()).toEqual(expected)
          expect(read.slice(0, -1).every((page) => page.length === limit)).toBe(true)
          expect((await look(redis.port, stage.hand.queue)).world).toEqual(before)
          await wipe(redis.port, stage.hand.queue)
        },
      ),
      { numRuns: 60 },
    )
  }, 60_000)

  test('show every job that stays exactly once, also while others of the same instant come and go', async () => {
    const limits = fc.integer({ min: 1, max: 4 })
    const changes = fc.array(fc.record({ comes: fc.nat(99), goes: fc.nat(99) }), {
      minLength: 1,
      maxLength: 12,
    })
    await fc.assert(
      fc.asyncProperty(changes, orders, limits, fc.boolean(), async (changes, order, limit, withPayload) => {
        const stage = bench()
        const stays = Array.from({ length: 12 }, (_, n) => idOf(n * 8 + 4))
        for (const id of stays) await put(stage, 'scheduled', id, 7)
        for (const { goes } of changes) await put(stage, 'scheduled', idOf(goes), 7)
        const read = await pages(stage, { state: 'scheduled', order, limit, withPayload }, async (page) => {
          const change = changes[page - 1]
          if (change === undefined) return
          await put(stage, 'scheduled', idOf(change.comes), 7)
          if (!stays.includes(idOf(change.goes))) await stage.hand.remove(idOf(change.goes))
        })
        const seen = read.flat().filter((id) => stays.includes(id))
        expect(seen).toEqual(order === 'newest' ? stays.toReversed() : stays)
        expect(new Set(read.flat()).size).toBe(read.flat().length)
        await wipe(redis.port, stage.hand.queue)
      }),
      { numRuns: 60 },
    )
  }, 60_000)

  test('come without payload and error unless asked for, and then with both', async () => {
    const stage = bench()
    await put(stage, 'dead', idOf(1), 0, 'why')
    const [plain] = (await stage.queue.list(request({ state: 'dead' }))).jobs
    expect([plain?.payload, plain?.lastError]).toEqual([undefined, undefined])
    const whole = request({ state: 'dead', withErrors: true, withPayload: true })
    const [full] = (await stage.queue.list(whole)).jobs
    expect(full?.lastError).toBe('why')
    expect(new TextDecoder().decode(full?.payload)).toBe(`p ${idOf(1)}`)
  })

  test('select by mint time, the first instant in and the last one out', async () => {
    const stage = bench()
    const start = Date.parse('2026-01-01T00:00:00Z')
    for (const [nth, state] of (['pending', 'dead'] as const).entries()) {
      const ids = [0, 1, 2, 3].map((ms) => mintedAt(start + ms, nth))
      for (const id of ids) await put(stage, state, id)
      for (const order of ['newest', 'oldest'] as const) {
        const read = await pages(stage, { state, order, limit: 1, from: start + 1, to: start + 3 })
        expect(read.flat().toSorted(byteOrder)).toEqual([ids[1], ids[2]])
      }
      expect((await pages(stage, { state, from: start + 4 })).flat()).toEqual([])
      expect((await pages(stage, { state, to: start })).flat()).toEqual([])
      expect((await pages(stage, { state, from: 0, to: MAX_INSTANT_MS })).flat()).toEqual(ids)
    }
  })

  test('of a cursor keep within the instants that come with it, whichever is tighter', async () => {
    const stage = bench()
    const start = Date.parse('2026-01-01T00:00:00Z')
    const ids = [0, 1, 2, 3, 4, 5].map((ms) => mintedAt(start + ms))
    for (const state of ['pending', 'dead'] as const) {
      for (const id of ids) await put(stage, state, id)
      const listed = async (order: 'newest' | 'oldest', behind: number, from: number, to: number) => {
        const cursor = { id: ids[behind] ?? '', score: '0', seen: 1 }
        const page = request({ state, order, cursor, from: start + from, to: start + to })
        return (await stage.queue.list(page)).jobs.map(({ id }) => ids.indexOf(id))
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

  test('201: are short of 4 MiB of payload, and the next one goes on', async () => {
    const stage = bench()
    const large = 'x'.repeat(1.5 * 1024 * 1024)
    for (const n of [1, 2, 3, 4]) await stage.hand.enqueue(idOf(n), large)
    const read = await pages(stage, { withPayload: true })
    expect(read).toEqual([[1, 2].map(idOf), [3, 4].map(idOf)])
  })

  test('show no ghost', async () => {
    const stage = bench()
    await put(stage, 'pending', idOf(2))
    for (const n of [1, 3]) await stage.hand.send('ZADD', stage.hand.keys.pending, 0, idOf(n))
    expect((await pages(stage, { limit: 1 })).flat()).toEqual([idOf(2)])
  })

  test('tell of each state what belongs to it', async () => {
    const stage = bench()
    await put(stage, 'scheduled', idOf(1), 1_900_000_000_000)
    await put(stage, 'active', idOf(2), 1_900_000_000_001)
    const [scheduled] = (await stage.queue.list(request({ state: 'scheduled' }))).jobs
    const [active] = (await stage.queue.list(request({ state: 'active' }))).jobs
    expect([scheduled?.runAt, scheduled?.leaseUntil]).toEqual([1_900_000_000_000, undefined])
    expect([active?.runAt, active?.leaseUntil]).toEqual([undefined, 1_900_000_000_001])
  })
})

describe('one job', () => {
  test('is told with all that is known of it, and a ghost is no job', async () => {
    const { hand, queue } = bench()
    const startBy = (await serverNow(redis.port)) + 100_000
    await hand.enqueueMany([{ id: idOf(1), startBy, maxAttempts: 7, delayMs: 50_000 }])
    const job = await queue.job(idOf(1))
    expect(job).toMatchObject({ id: idOf(1), state: 'scheduled', attempts: 0, maxAttempts: 7, startBy })
    expect(job?.runAt).toBe((await look(redis.port, hand.queue)).world.schedule[idOf(1)])
    expect(await queue.job(idOf(2))).toBeUndefined()
    await build('half a row in active', bench().hand, idOf(3))
    expect(await queue.job(idOf(3))).toBeUndefined()
  })

  test('that lapsed tells how often', async () => {
    const { hand, queue } = bench()
    await build('scheduled by a second lapse', hand, idOf(1))
    expect(await queue.job(idOf(1))).toMatchObject({ lapses: 2, attempts: 2, state: 'scheduled' })
  })
})

describe('stats', () => {
  test('count each state, and tell the oldest and the next', async () => {
    const stage = bench()
    expect(await stage.queue.stats()).toMatchObject({ known: false, paused: false })
    await put(stage, 'pending', idOf(3))
    await put(stage, 'pending', idOf(2))
    await put(stage, 'active', idOf(4), 111)
    await put(stage, 'scheduled', idOf(5), 222)
    await put(stage, 'scheduled', idOf(6), 333)
    await put(stage, 'dead', idOf(7))
    await stage.queue.pause()
    await stage.queue.changeSettings({ maxAttempts: 9, backoff: { baseMs: 7 }, leaseMs: 11, maxPending: 5 })
    expect(await stage.queue.stats()).toEqual({
      ...{ queue: stage.hand.queue, known: true, paused: true, completed: 0, failed: 0, ghosts: 0 },
      ...{ oldestPending: idOf(2), nextDueMs: 222, nextLapseMs: 111 },
      counts: { pending: 2, active: 1, scheduled: 2, dead: 1 },
      settings: {
        ...{ maxAttempts: 9, leaseMs: 11, maxActive: 0, maxPending: 5 },
        backoff: { baseMs: 7, maxMs: 600_000 },
      },
    })
  })

  test('of many queues are one round trip, each its own', async () => {
    const [one, two] = [bench(), bench()]
    await put(one, 'pending', idOf(1))
    await put(two, 'dead', idOf(2))
    const queues = [one.hand.queue, two.hand.queue, freshQueue()]
    const { registry } = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
    const [first, second, third] = (await registry.stats(queues)).readable
    expect([first?.counts.pending, second?.counts.dead, third?.known]).toEqual([1, 1, false])
    expect(await registry.stats([])).toEqual({ readable: [], unreadable: [] })
    await two.hand.send('DEL', two.hand.keys.dead)
    await two.hand.send('SET', two.hand.keys.dead, 'x')
    const { readable, unreadable } = await registry.stats(queues)
    expect(readable.map(({ queue }) => queue)).toEqual([queues[0], queues[2]])
    expect(unreadable).toEqual([queues[1]])
  })
})

describe('settings', () => {
  test('are merged, and null takes one back to its default', async () => {
    const { queue } = bench()
    await queue.changeSettings({ maxAttempts: 3, maxActive: 4, backoff: { baseMs: 5, maxMs: 6 } })
    expect(await queue.changeSettings({ maxAttempts: null, leaseMs: 70 })).toMatchObject({
      ...{ maxAttempts: 5, maxActive: 4, leaseMs: 70, backoff: { baseMs: 5, maxMs: 6 } },
    })
    expect(await queue.changeSettings({ backoff: null })).toMatchObject({
      backoff: { baseMs: 1_000, maxMs: 600_000 },
    })
    expect(await queue.changeSettings({ backoff: { maxMs: 99 }, maxActive: 0 })).toMatchObject({
      ...{ maxActive: 0, backoff: { baseMs: 1_000, maxMs: 99 } },
    })
    expect(await queue.changeSettings({})).toMatchObject({ leaseMs: 70 })
  })
})

test('the registry tells its queues in byte order', async () => {
  for (const name of ['b', 'B', 'a', 'a.1'])
    await handOn(redis.port, name).send('ZADD', '{emq}:queues', 5, name)
  const { registry } = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
  expect((await registry.names()).filter((name) => name.length <= 3)).toEqual(['B', 'a', 'a.1', 'b'])
})

test('browsing tells the newest first, and the size all of them', async () => {
  const { hand, queue } = bench()
  for (const n of [2, 3, 1]) await hand.enqueue(idOf(n))
  expect(await queue.browse(2)).toEqual([3, 2].map(idOf))
  expect(await queue.pendingSize()).toBe(3)
})

test('a dry redrive tells how many there would be, and changes nothing, the registry included', async () => {
  const { hand, queue } = bench()
  await build('dead by a fail', hand, idOf(1))
  const before = (await look(redis.port, hand.queue)).world
  expect(await queue.redriveMany({ limit: 10, dryRun: true })).toMatchObject({ redriven: 1, more: false })
  expect((await look(redis.port, hand.queue)).world).toEqual(before)
  const later = '9000000000000'
  await hand.send('ZADD', '{emq}:queues', later, hand.queue)
  await queue.redriveMany({ limit: 10, dryRun: true })
  expect(await hand.send('ZSCORE', '{emq}:queues', hand.queue)).toBe(later)
  expect(await queue.redriveMany({ limit: 10 })).toMatchObject({ redriven: 1, more: false })
  expect(Number(await hand.send('ZSCORE', '{emq}:queues', hand.queue))).toBeLessThan(2 ** 40)
})
