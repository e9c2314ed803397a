/** Backlogs: every move of many jobs takes bounded steps, and a script also accepts a limit of everything at once. */
import { beforeEach, expect, test, vi } from 'vitest'
import { maintain } from '../../src/maintenance/maintenance.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import { integer, list, optionalText } from '../../src/queue/replies.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'

// Many round trips: on a busy machine they take their time.
vi.setConfig({ testTimeout: 60_000 })

const redis = bareRedis()

const MANY = 10_000
const STEP = 1_000

/** Puts jobs straight into a set. */
const SEED = `
local fields = {'attempts', ARGV[4], 'payload', 'p'}
for i = ARGV[7] + 1, ARGV[7] + ARGV[2] do
  local id = string.format('JOB%011d', i)
  redis.call('HSET', KEYS[1] .. id, 'state', ARGV[1], unpack(fields))
  if ARGV[5] ~= '' then redis.call('HSET', KEYS[1] .. id, ARGV[5], ARGV[6]) end
  redis.call('ZADD', KEYS[2], ARGV[3], id)
  if ARGV[5] == 'start_by' then redis.call('ZADD', KEYS[3], ARGV[6], id) end
end
`

let hand: Hand
let queue: Queue
beforeEach(async () => {
  await redis.port.send([['FLUSHALL']])
  hand = redis.fresh()
  queue = redis.queueOf(hand)
})

const ALL_IN_STEPS = Array(MANY / STEP).fill(STEP)
const NONE = { pending: 0, active: 0, scheduled: 0, dead: 0 }

test('ten thousand due jobs are promoted in steps of a thousand', async () => {
  await seed({ state: 'scheduled' })
  const moved = await steps(async () => {
    const { promoted, more } = await queue.promote(STEP)
    return { moved: promoted, more }
  })
  expect(moved).toEqual(ALL_IN_STEPS)
  expect(await counts()).toEqual({ ...NONE, pending: MANY })
  await redis.clean(hand)
})

test.each([
  ['pending after a first lapse', 'pending', {}],
  ['scheduled after a second lapse', 'scheduled', { lapses: 1 }],
  ['dead without budget', 'dead', { max_attempts: 1 }],
] as const)(
  'ten thousand lapsed jobs are reaped in steps of a thousand and become %s',
  async (_, state, fields) => {
    await hand.set('backoffBaseMs', 600_000)
    const [[field, value] = ['', '']] = Object.entries(fields)
    await seed({ state: 'active' }, field, value)
    const moved = await steps(async () => {
      const { reaped, more } = await queue.reap(STEP)
      return { moved: reaped, more }
    })
    expect(moved).toEqual(ALL_IN_STEPS)
    expect(await counts()).toEqual({ ...NONE, [state]: MANY })
    await redis.clean(hand)
  },
)

test('ten thousand dead letters are redriven in steps of a thousand', async () => {
  await seed({ state: 'dead' })
  let cursor: string | undefined
  const moved = await steps(async () => {
    const result = await queue.redriveMany({ limit: STEP, cursor })
    cursor = result.cursor
    return { moved: result.redriven, more: result.more }
  })
  expect(moved).toEqual(ALL_IN_STEPS)
  expect(await counts()).toEqual({ ...NONE, pending: MANY })
  await redis.clean(hand)
})

test('ten thousand dead letters are searched for an error in steps of a thousand, each with a cursor', async () => {
  await seed({ state: 'dead' }, 'last_error', 'nothing to see')
  await hand.send('HSET', `${hand.keys.jobPrefix}JOB00000009500`, 'last_error', 'it was the needle, 100%')
  let cursor: string | undefined
  const moved = await steps(async () => {
    const result = await queue.redriveMany({ limit: STEP, cursor, errorContains: 'needle, 100%' })
    cursor = result.cursor
    return { moved: result.redriven, more: result.more }
  })
  expect(moved).toEqual(ALL_IN_STEPS.map((_, nth) => (nth === 9 ? 1 : 0)))
  expect(await queue.browse(5)).toEqual(['JOB00000009500'])
  await redis.clean(hand)
})

test.each(['pending', 'scheduled', 'dead'] as const)(
  'ten thousand %s jobs are purged in steps of a thousand, and no key is left',
  async (state) => {
    await seed({ state }, 'start_by', 9_000_000_000_000)
    const moved = await steps(async () => {
      const { removed, more } = await queue.purge(state, STEP)
      return { moved: removed, more }
    })
    expect(moved).toEqual(ALL_IN_STEPS)
    expect(await hand.send('DBSIZE')).toBe(0)
  },
)

test('ten thousand due jobs and ten thousand expired ones are swept in steps of a thousand', async () => {
  await seed({ state: 'scheduled', attempts: 0 }, 'start_by', 9_000_000_000_000)
  const first = (await hand.sweep(STEP)) as number[]
  expect(first.slice(1, 6)).toEqual([STEP, 0, 0, 0, 1])
  const promoted = await steps(async () => {
    const reply = (await hand.sweep(STEP)) as number[]
    return { moved: reply[1] ?? 0, more: reply[5] === 1 }
  })
  expect(promoted).toEqual(ALL_IN_STEPS.slice(1))
  expect(await counts()).toEqual({ ...NONE, pending: MANY })

  await redis.port.send([['FLUSHALL']])
  await seed({ state: 'pending', attempts: 0 }, 'start_by', 5)
  const expired = await steps(async () => {
    const reply = (await hand.sweep(STEP)) as number[]
    return { moved: reply[3] ?? 0, more: reply[5] === 1 }
  })
  expect(expired).toEqual(ALL_IN_STEPS)
  expect(await counts()).toEqual({ ...NONE, dead: MANY })
  await redis.clean(hand)
})

test.each([
  ['scheduled', 'promoted'],
  ['active', 'reaped'],
] as const)(
  'ten thousand %s jobs that are due or lapsed become pending in one maintenance',
  async (state, count) => {
    await seed({ state })
    const database = createDatabase(redis.port, { wireAccept: [], wireClaim: undefined })
    const report = await maintain(database, { always: [hand.queue] })
    expect(report).toMatchObject({ queues: 1, [count]: MANY, remaining: [], failures: [] })
    expect(await counts()).toEqual({ ...NONE, pending: MANY })
    await redis.clean(hand)
  },
)

test('a batch claim of a hundred moves and returns a hundred of ten thousand due or lapsed jobs', async () => {
  await seed({ state: 'scheduled' })
  expect((await queue.claim({ limit: 100 })).jobs).toHaveLength(100)
  expect(await counts()).toEqual({ ...NONE, active: 100, scheduled: MANY - 100 })
  await redis.port.send([['FLUSHALL']])
  await seed({ state: 'active' })
  expect((await queue.claim({ limit: 100 })).jobs).toHaveLength(100)
  expect(await counts()).toEqual({ ...NONE, active: MANY })
  await redis.clean(hand)
})

test('a batch of a thousand jobs is enqueued, claimed and settled by every action', async () => {
  const jobs = Array.from({ length: 1000 }, (_, nth) => ({
    ...{ payload: String(nth), idempotencyKey: `k${nth}`, startBy: 9_000_000_000_000, maxAttempts: 3 },
    ...(nth % 2 === 0 ? {} : { delayMs: 1 }),
  }))
  const results = await queue.enqueueMany(jobs)
  expect(results.filter((result) => result.ok)).toHaveLength(1000)
  const claimed = []
  while (claimed.length < 1000) claimed.push(...(await queue.claim({ limit: 100 })).jobs)
  const actions = ['complete', 'retry', 'fail', 'release', 'extend'] as const
  const { results: settled } = await queue.settle(
    claimed.map(({ id, token }, nth) => ({
      ...{ id, token, leaseMs: 60_000, delayMs: 60_000, error: 'e'.repeat(2048) },
      action: actions[nth % 5] ?? 'complete',
    })),
  )
  expect(settled.filter((result) => result.ok)).toHaveLength(1000)
  expect(await counts()).toEqual({ pending: 0, active: 200, scheduled: 400, dead: 200 })
  await redis.clean(hand)
})

test('each script moves ten thousand jobs in one call when its limit allows it', async () => {
  const all = 1_000_000
  await seed({ state: 'scheduled' })
  expect(await hand.promote(all)).toBe(MANY)
  expect(await hand.purge('pending', all)).toEqual([MANY, 0])
  await seed({ state: 'active' })
  expect(await hand.reap(all)).toBe(MANY)
  expect(await hand.claimMany(MANY)).toHaveLength(2 + 7 * MANY)
  expect(await hand.purge('schedule', all)).toEqual([0, 0])
  await redis.port.send([['FLUSHALL']])
  await seed({ state: 'dead' })
  expect(await hand.redriveMany({ limit: all, scan: all })).toEqual([MANY, 'JOB00000010000', 0])
  await seed({ state: 'scheduled' }, 'start_by', 5)
  expect(((await hand.sweep(all)) as number[])[1]).toBe(MANY)
})

test('each script moves no job when its limit is 0, negative or not a number', async () => {
  await seed({ state: 'scheduled', count: 5 })
  await seed({ state: 'active', count: 5 })
  for (const limit of [0, -1]) {
    expect(await hand.promote(limit)).toBe(0)
    expect(await hand.reap(limit)).toBe(0)
    expect(((await hand.sweep(limit)) as number[]).slice(1, 5)).toEqual([0, 0, 0, 0])
    for (const set of ['pending', 'schedule', 'dead'] as const)
      expect(await hand.purge(set, limit)).toEqual([0, set === 'schedule' ? 1 : 0])
    expect(await hand.redriveMany({ limit })).toEqual([0, '', 0])
  }
  for (const script of ['promote', 'reap', 'sweep'] as const)
    expect(await hand[script]('nonsense')).toEqual({ error: expect.stringMatching(/^ERR /) })
  expect(await counts()).toEqual({ ...NONE, scheduled: 5, active: 5 })

  await redis.port.send([['FLUSHALL']])
  await seed({ state: 'pending', count: 5 })
  for (const limit of [0, -1]) expect(await hand.claimMany(limit)).toEqual(['ok', -1])
  expect(await counts()).toEqual({ ...NONE, pending: 5 })
  await redis.clean(hand)
})

test('claims run between the steps that promote a hundred thousand due jobs', async () => {
  for (let after = 0; after < 100_000; after += MANY) await seed({ state: 'scheduled', after })
  const consumer = handOn(await redis.connect(), hand.queue)
  await queue.promote(0)
  // The slow log of Redis contains how long each call took, in µs. Calls inside a script stay below its threshold.
  for (const [name, value] of Object.entries({ 'max-len': 10_000, 'log-slower-than': 200 }))
    await redis.port.send([['CONFIG', 'SET', `slowlog-${name}`, value]])
  await redis.port.send([['SLOWLOG', 'RESET']])
  const waits: number[] = []
  const promoting = steps(async () => {
    const { promoted, more } = await queue.promote(STEP)
    return { moved: promoted, more }
  })
  let isOver = false
  const ended = promoting.finally(() => {
    isOver = true
  })
  while (!isOver) {
    const sentAt = performance.now()
    const claimed = await consumer.claim()
    waits.push(performance.now() - sentAt)
    expect(Array.isArray(claimed)).toBe(true)
  }
  const moved = await ended
  const [log] = await redis.port.send([['SLOWLOG', 'GET', 10_000]])
  const held = list(log)
    .map((entry) => list(entry))
    .filter(([, , , args]) => optionalText(list(args)[1]) === SCRIPTS.promote.sha1)
    .map(([, , micros]) => integer(micros) / 1000)
  const summary = (times: number[]): string => {
    const sorted = times.toSorted((a, b) => a - b)
    return `${sorted[sorted.length >> 1]?.toFixed(1)} ms, at most ${sorted.at(-1)?.toFixed(1)} ms`
  }
  console.info(
    `100,000 due: ${held.length} promotes held Redis for ${summary(held)}; ` +
      `${waits.length} claims beside them waited ${summary(waits)}`,
  )
  expect(moved).toEqual(Array.from({ length: 100 }, () => STEP))
  expect(held).toHaveLength(moved.length)
  // A claim waits for the step that is running, not for all steps.
  expect(waits.length).toBeGreaterThan(moved.length / 2)
})

type Seed = {
  state: 'pending' | 'active' | 'scheduled' | 'dead'
  count?: number
  attempts?: number
  /** The number of the first id, less one. */
  after?: number
}

async function seed(
  { state, count = MANY, attempts = 1, after = 0 }: Seed,
  field = '',
  value: string | number = '',
) {
  const { keys } = hand
  const set = { pending: keys.pending, active: keys.active, scheduled: keys.schedule, dead: keys.dead }[state]
  const score = state === 'active' || state === 'scheduled' ? 1 : 0
  const args = [state, count, score, attempts, field, value, after]
  await redis.port.send([['EVAL', SEED, 3, keys.jobPrefix, set, keys.startBy, ...args]])
}

async function counts() {
  return (await queue.stats()).counts
}

/** Repeats a step until there is no more, and returns how many jobs each one moved. */
async function steps(step: () => Promise<{ moved: number; more: boolean }>): Promise<number[]> {
  const moved: number[] = []
  for (;;) {
    const result = await step()
    moved.push(result.moved)
    if (!result.more) return moved
    expect(moved.length).toBeLessThan(100)
  }
}
