/** A Redis that is out of memory: it accepts no new job, and every job in it can still be claimed and settled. */
import { afterEach, expect, test } from 'vitest'
import type { Settlement } from '../../src/queue/consume.ts'
import { UpstreamError } from '../../src/queue/redis.ts'
import { bareRedis, idOf } from './support/bare.ts'
import { outcome } from './support/results.ts'

const redis = bareRedis()
const limitMemory = (bytes: number) => redis.port.send([['CONFIG', 'SET', 'maxmemory', bytes]])
afterEach(() => limitMemory(0))

test('enqueue throws when Redis is full, and stores nothing', async () => {
  const hand = redis.fresh()
  await limitMemory(1)
  await expect(redis.queueOf(hand).enqueueMany([{ payload: 'x' }])).rejects.toBeInstanceOf(UpstreamError)
  expect((await redis.world(hand)).rows).toEqual({})
  await redis.clean(hand)
})

test('enqueue with a caller-chosen id throws when Redis is full, also where it must look at the other sets', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const [first, second, third] = [idOf(1), idOf(2), idOf(3)]
  await hand.set('maxAttempts', 3)
  await hand.enqueue(first)
  await hand.claim()
  await hand.send('HSET', hand.keys.job(third), 'attempts', 3)
  await limitMemory(1)
  for (const job of [{ id: second }, { id: second, delayMs: 20 }, { id: third }])
    await expect(queue.enqueueMany([{ payload: 'x', ...job }])).rejects.toBeInstanceOf(UpstreamError)
  expect(await hand.enqueue(third)).toMatchObject({ error: expect.stringMatching(/^OOM /) })
  expect((await queue.stats()).counts).toEqual({ pending: 0, active: 1, scheduled: 0, dead: 0 })
})

test('promote, reap, sweep, claim and all moves of a claimed job work when Redis is full', async () => {
  const hand = redis.fresh()
  const queue = redis.queueOf(hand)
  const ids = Array.from({ length: 9 }, (_, n) => idOf(n + 1))
  const [due = '', lapsed = '', ...others] = ids
  await hand.enqueueMany([{ id: lapsed }])
  await hand.claim(1)
  await hand.enqueueMany([{ id: due, delayMs: 1 }, ...others.map((id) => ({ id }))])
  await redis.pass()
  // Each of them makes another kind of first write.
  for (const move of [() => queue.promote(10), () => queue.reap(10), () => hand.sweep()]) {
    await limitMemory(1)
    await move()
  }
  const { jobs } = await queue.claim({ limit: 100 })
  expect(jobs.map(({ id }) => id)).toEqual(ids)
  const tokenOf = (id: string) => (id === lapsed ? 2 : 1)
  expect(jobs.map(({ token }) => token)).toEqual(ids.map(tokenOf))

  const settle = async (id: string, item: object) => {
    const settlement = { id, token: tokenOf(id), ...item } as Settlement
    return (await queue.settle([settlement])).results.map(outcome)[0]
  }
  const [one = '', two = '', three = '', four = '', five = '', ...rest] = ids
  const extend = { action: 'extend', leaseMs: 60_000 }
  expect(await settle(one, extend)).toEqual({ id: one, status: 'extended', leaseMs: 60_000 })
  expect(await settle(two, { action: 'release' })).toEqual({ id: two, status: 'pending' })
  expect(await settle(three, { action: 'fail', error: 'e' })).toEqual({ id: three, status: 'dead' })
  const scheduled = { status: 'scheduled', delayMs: 5 }
  expect(await settle(four, { action: 'retry', delayMs: 5 })).toEqual({ id: four, ...scheduled })
  expect(outcome(await queue.retry(five, tokenOf(five), { delayMs: 5 }))).toEqual({ id: five, ...scheduled })
  for (const id of [one, ...rest])
    expect(outcome(await queue.complete(id, tokenOf(id)))).toEqual({ id, status: 'completed' })
  await redis.clean(hand)
})
