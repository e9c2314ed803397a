/** Keys of the wrong Redis type: such a row is not a job, and no move stops at it or loses a job beside it. */
import { expect, test } from 'vitest'
import type { Result } from '../../src/protocol/refusals.ts'
import { bareRedis, idOf } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { outcome } from './support/results.ts'

const redis = bareRedis()
const [FIRST, BROKEN, LAST] = [idOf(1), idOf(2), idOf(3)]

type Kind = { readonly kind: string; readonly command: string; readonly value: readonly string[] }
const KINDS: readonly Kind[] = [
  { kind: 'a string', command: 'SET', value: ['x'] },
  { kind: 'a list', command: 'RPUSH', value: ['x'] },
  { kind: 'a set', command: 'SADD', value: ['x'] },
  { kind: 'a sorted set', command: 'ZADD', value: ['1', 'x'] },
]

test.each(KINDS)('enqueue replaces $kind in the place of a row by a job', async (kind) => {
  const hand = redis.fresh()
  await putInPlaceOf(hand, BROKEN, kind)
  expect(await hand.enqueue(BROKEN)).toBe(1)
  await hand.remove(BROKEN)
  await putInPlaceOf(hand, BROKEN, kind)
  const jobs = [FIRST, BROKEN, LAST].map((id) => ({ id }))
  expect(await hand.enqueueMany(jobs)).toEqual(jobs.flatMap(({ id }) => ['enqueued', id]))
  await redis.clean(hand)
})

test.each(KINDS.slice(1))(
  'enqueue replaces $kind in the place of an idempotency key',
  async ({ command, value }) => {
    const hand = redis.fresh()
    await hand.send(command, hand.keys.idempotency('k'), ...value)
    const job = { id: FIRST, idempotency: { key: 'k', ttlMs: 60_000 } }
    expect(await hand.enqueueMany([job])).toEqual(['enqueued', FIRST])
    expect(await hand.enqueueMany([{ ...job, id: LAST }])).toEqual(['duplicate', FIRST])
    await redis.clean(hand)
  },
)

test.each(KINDS)('a read of one job returns nothing for $kind in the place of its row', async (kind) => {
  const hand = redis.fresh()
  await hand.enqueue(BROKEN)
  await putInPlaceOf(hand, BROKEN, kind)
  expect(await redis.queueOf(hand).job(BROKEN)).toBeUndefined()
})

test.each(KINDS)(
  'a claim without a limit skips $kind in the place of a row and returns the next job',
  async (kind) => {
    const hand = redis.fresh()
    await hand.enqueue(BROKEN)
    await hand.enqueue(LAST)
    await putInPlaceOf(hand, BROKEN, kind)
    expect((await redis.queueOf(hand).claim({})).jobs.map(({ id }) => id)).toEqual([LAST])
  },
)

test.each(KINDS)(
  'a batch claim removes $kind in the place of a row and returns the jobs beside it',
  async (kind) => {
    const hand = redis.fresh()
    await three(hand, 'pending', kind)
    const { jobs } = await redis.queueOf(hand).claim({ limit: 10 })
    expect(jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
    expect((await redis.world(hand)).ghosts).toBe(1)
    await redis.clean(hand)
  },
)

test.each(KINDS.slice(1))(
  'a claim ignores $kind in the place of a remembered claim',
  async ({ command, value }) => {
    const hand = redis.fresh()
    await hand.enqueue(FIRST)
    await hand.claim()
    await hand.send(command, hand.keys.claim('c'), ...value)
    expect((await redis.queueOf(hand).claim({ limit: 1, claimId: 'c' })).jobs).toEqual([])
  },
)

test.each(KINDS)(
  'a repeated claim returns its jobs beside $kind that took the place of a row',
  async (kind) => {
    const hand = redis.fresh()
    for (const id of [FIRST, BROKEN, LAST]) await hand.enqueue(id)
    const queue = redis.queueOf(hand)
    const claim = { limit: 3, claimId: 'c', leaseMs: 60_000 }
    await queue.claim(claim)
    await putInPlaceOf(hand, BROKEN, kind)
    expect((await queue.claim(claim)).jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
  },
)

const SWEEPS: readonly ['scheduled' | 'active', string, (hand: Hand) => Promise<unknown>][] = [
  ['scheduled', 'promote', (hand) => redis.queueOf(hand).promote(10)],
  ['scheduled', 'the core promote', (hand) => hand.promote()],
  ['active', 'reap', (hand) => redis.queueOf(hand).reap(10)],
  ['active', 'the core reap', (hand) => hand.reap()],
  ...(['scheduled', 'active'] as const).flatMap((state): typeof SWEEPS => [
    [state, 'sweep', (hand) => hand.sweep()],
    [state, 'a batch claim', (hand) => hand.claimMany(0)],
  ]),
]
const SWEEPS_OF_KINDS = SWEEPS.flatMap(([state, name, move]) =>
  KINDS.map((kind) => ({ ...kind, state, name, move })),
)
test.each(SWEEPS_OF_KINDS)(
  '$name removes $kind in the place of a row, and makes the $state jobs beside it pending',
  async ({ state, move, ...kind }) => {
    const hand = redis.fresh()
    await three(hand, state, kind)
    await move(hand)
    expect(Object.keys((await redis.world(hand)).pending)).toEqual([FIRST, LAST])
    await redis.clean(hand)
  },
)

test.each(KINDS)(
  'settle rejects $kind in the place of a row as gone and accepts the others',
  async (kind) => {
    const hand = redis.fresh()
    await three(hand, 'active', kind)
    const items = [FIRST, BROKEN, LAST].map((id) => ({ action: 'complete' as const, id, token: 1 }))
    expect((await redis.queueOf(hand).settle(items)).results.map(outcome)).toEqual([
      { id: FIRST, status: 'completed' },
      { refused: 'gone' },
      { id: LAST, status: 'completed' },
    ])
  },
)

test.each(KINDS)('every move of one job rejects $kind in the place of its row as gone', async (kind) => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const moves: (() => Promise<Result<object>>)[] = [
    () => queue.complete(BROKEN, 1),
    () => queue.retry(BROKEN, 1, {}),
    () => queue.redrive(BROKEN),
    () => queue.reschedule(BROKEN, { delayMs: 1 }),
    () => queue.remove(BROKEN),
  ]
  for (const move of moves) {
    await putInPlaceOf(hand, BROKEN, kind)
    expect(outcome(await move())).toEqual({ refused: 'gone' })
  }
})

test.each(KINDS)(
  'a list and a redrive of many skip $kind in the place of a row, and a purge removes it',
  async (kind) => {
    const hand = redis.fresh()
    const queue = redis.queueOf(hand)
    await three(hand, 'dead', kind)
    const page = { state: 'dead', order: 'oldest', limit: 10, withErrors: true, withPayload: true } as const
    expect((await queue.list(page)).jobs.map(({ id }) => id)).toEqual([FIRST, LAST])
    expect(await queue.redriveMany({ limit: 10 })).toMatchObject({ redriven: 2 })
    expect(await queue.purge('dead', 10)).toMatchObject({ more: false })
    expect(Object.keys((await redis.world(hand)).pending)).toEqual([FIRST, LAST])
    await redis.clean(hand)
  },
)

test('no move stops at counters that are not numbers', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  for (const key of [hand.keys.completed, hand.keys.failed, hand.keys.ghosts])
    await hand.send('HSET', key, 'count', 'none')
  for (const id of [FIRST, BROKEN, LAST]) await hand.enqueue(id)
  await hand.send('ZADD', hand.keys.pending, 0, idOf(0))
  expect((await queue.claim({ limit: 2 })).jobs.map(({ id }) => id)).toEqual([FIRST, BROKEN])
  expect(outcome(await queue.complete(FIRST, 1))).toEqual({ id: FIRST, status: 'completed' })
  expect(outcome(await queue.retry(BROKEN, 1, { maxAttempts: 1 }))).toEqual({ id: BROKEN, status: 'dead' })
  await redis.clean(hand)
})

async function putInPlaceOf(hand: Hand, id: string, { command, value }: Kind): Promise<void> {
  await hand.send('DEL', hand.keys.job(id))
  await hand.send(command, hand.keys.job(id), ...value)
}

/** Three jobs that are due or lapsed where their state can be so; the row of the second is replaced. */
async function three(
  hand: Hand,
  state: 'pending' | 'active' | 'scheduled' | 'dead',
  kind: Kind,
): Promise<void> {
  const ids = [FIRST, BROKEN, LAST]
  await hand.enqueueMany(ids.map((id) => ({ id, ...(state === 'scheduled' && { delayMs: 1 }) })))
  if (state === 'active' || state === 'dead') await hand.claimMany(3, 1)
  if (state === 'dead') await hand.settle(ids.map((id) => ({ action: 'fail', id, token: 1, error: 'e' })))
  await putInPlaceOf(hand, BROKEN, kind)
  await redis.pass()
}
