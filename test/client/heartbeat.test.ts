/** Leases: from when they count, how they are renewed, and what happens when they cannot be. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/client/clock.ts'
import type { ConsumeOptions, Consumer, Handler } from '../../src/client/index.ts'
import { MAX_TIMER_MS } from '../../src/client/limits.ts'
import { createWork, startConsuming } from './support/consuming.ts'
import { createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let api: FakeApi
const consumers: Consumer<unknown>[] = []
const unhandled = vi.fn()
process.on('unhandledRejection', unhandled)

beforeEach(() => {
  clock = createFakeClock()
  api = createFakeApi(clock)
})

afterEach(async () => {
  const stopped = consumers.splice(0).map((consumer) => consumer.stop({ timeoutMs: 0 }))
  await clock.advance(1)
  await Promise.all(stopped)
  expect(unhandled).not.toHaveBeenCalled()
})

function consume(handler: Handler<unknown>, options: ConsumeOptions = {}) {
  const consuming = startConsuming(api, clock, handler, options)
  consumers.push(consuming.consumer)
  return consuming
}

const beats = () => api.to('/settle')

test('all held jobs are renewed by one settle call, at a third of the lease, for a whole lease', async () => {
  const ids = api.put(1, 2, 3)
  consume(createWork().handler, { concurrency: 2, batch: 3, leaseMs: 30_000 })
  await clock.advance(9_999)
  expect(beats()).toHaveLength(0)
  await clock.advance(1)
  expect(beats().map(({ body }) => body)).toEqual([
    { items: ids.map((id) => ({ action: 'extend', id, token: 1, leaseMs: 30_000 })) },
  ])
  await clock.advance(30_000)
  expect(beats().map(({ at }) => at)).toEqual([10_000, 20_000, 30_000, 40_000])
})

test('without a lease of its own it renews for as long as the queue gives', async () => {
  api.put(1)
  consume(createWork().handler)
  await clock.advance(10_000)
  expect(beats()[0]?.body.items[0].leaseMs).toBe(30_000)
})

test('a job that was claimed later is renewed with the others', async () => {
  const [first = ''] = api.put(1)
  consume(createWork().handler, { concurrency: 2, waitMs: 0 })
  await clock.advance(4_500)
  const [second = ''] = api.put(2)
  await clock.advance(5_500)
  expect(beats()[0]?.body.items.map(({ id }: { id: string }) => id)).toEqual([first, second])
  await clock.advance(10_000)
  expect(beats()).toHaveLength(2)
})

test('one is under way at a time, whatever happens meanwhile', async () => {
  const [first = ''] = api.put(1, 2)
  const work = createWork()
  consume(work.handler, { concurrency: 3, batch: 1, waitMs: 0 })
  api.fail('/settle', { slowMs: 5_000 })
  await clock.advance(11_000)
  api.put(3)
  await clock.advance(1_000)
  work.end(first)
  await clock.advance(2_999)
  expect(work.started).toHaveLength(3)
  expect(beats()).toHaveLength(1)
})

test('nothing is renewed when nothing is held', async () => {
  api.put(1)
  consume(vi.fn(), { waitMs: 0 })
  await clock.advance(300_000)
  expect(beats()).toEqual([])
})

describe('the lease counts from before the claim was sent', () => {
  test('so a slow answer leaves less of it', async () => {
    const [id = ''] = api.put(1)
    api.fail('/claim', { slowMs: 8_000 })
    api.failAlways('/settle', 'reset')
    const work = createWork()
    consume(work.handler)
    await clock.advance(29_999)
    expect(work.signal(id).aborted).toBe(false)
    await clock.advance(1)
    expect(work.signal(id).aborted).toBe(true)
  })

  test('and an answer that comes after its end brings no job', async () => {
    api.put(1)
    api.fail('/claim', { slowMs: 2_000 })
    const handler = vi.fn()
    const { names } = consume(handler, { leaseMs: 1_000 })
    await clock.advance(1_999)
    api.failAlways('/claim', 'silent')
    await clock.advance(1)
    expect(handler).not.toHaveBeenCalled()
    expect(names()).toEqual(['leaseLost'])
  })

  test('the wait of a claim included: what comes late in it is renewed at once', async () => {
    consume(createWork().handler, { waitMs: 20_000 })
    await clock.advance(14_000)
    api.put(1)
    await clock.settle()
    expect(beats().map(({ at }) => at)).toEqual([14_000])
  })

  test('a repeated claim tells what is left, and renewals are for a whole lease all the same', async () => {
    api.put(1)
    api.put(2)
    clock.chance = 0.999
    api.fail('/claim', { slowMs: 0 }, 'lost')
    consume(createWork().handler, { concurrency: 2, batch: 1, waitMs: 0 })
    await clock.advance(10_000)
    expect(beats()[0]?.body.items.map(({ leaseMs }: { leaseMs: number }) => leaseMs)).toEqual([
      30_000, 30_000,
    ])
  })
})

describe('the lease counts on a clock that never steps', () => {
  test('whatever the calendar does', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { names } = consume(work.handler)
    await clock.settle()
    clock.epochMs = () => 0
    await clock.advance(5_000)
    clock.epochMs = () => Date.UTC(2099, 0, 1)
    await clock.advance(5_000)
    expect(beats()).toHaveLength(1)
    expect(work.signal(id).aborted).toBe(false)
    expect(names()).toEqual([])
  })

  test('which is performance.now', () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(123.5)
    expect(systemClock.now()).toBe(123.5)
    now.mockRestore()
  })
})

describe('case 53: a heartbeat that fails', () => {
  test.each([
    ['is answered 500', { status: 500 }],
    ['is answered 503 with a long Retry-After', { status: 503, headers: { 'retry-after': '60' } }],
    ['is reset', 'reset'],
    ['is never answered', 'silent'],
    ['is never answered by a fetch that ignores its signal', 'deaf'],
    ['is answered with HTML', { status: 200, body: '<html>' }],
    ['is answered for no job', { status: 200, body: { results: [] } }],
  ] as const)('%s is tried again before the lease ends', async (_, fault) => {
    const [id = ''] = api.put(1)
    api.fail('/settle', fault)
    const work = createWork()
    const { seen } = consume(work.handler, { leaseMs: 30_000 })
    await clock.advance(25_000)
    expect(beats().length).toBeGreaterThanOrEqual(2)
    expect(beats()[1]?.at).toBeLessThan(25_000)
    await clock.advance(60_000)
    expect(work.signal(id).aborted).toBe(false)
    expect(seen.map(({ name }) => name)).toEqual(['error'])
  })

  test.each([30_000, 1_000, 300])('with a lease of %i ms it gets several attempts', async (leaseMs) => {
    api.put(1)
    api.failAlways('/settle', 'silent')
    clock.chance = 0.999
    consume(createWork().handler, { leaseMs })
    await clock.advance(leaseMs - 1)
    expect(beats().length).toBeGreaterThanOrEqual(3)
    expect(beats().length).toBeLessThan(40)
  })

  test('over and over is tried at growing intervals, not in a hot loop', async () => {
    api.put(1)
    api.failAlways('/settle', 'reset')
    clock.chance = 0.999
    consume(createWork().handler)
    await clock.advance(29_999)
    expect(beats().length).toBeLessThan(14)
    const [first = 0, second = 0, third = 0] = beats().map(({ at }) => at)
    expect(third - second).toBeGreaterThan(second - first)
  })

  test('an item that fails is tried again, and the others are not lost', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const failed = { id: second, error: { code: 'upstream', detail: '' } }
    api.fail('/settle', { status: 200, body: { results: [{ id: first, status: 'extended' }, failed] } })
    const work = createWork()
    const { seen } = consume(work.handler, { concurrency: 2 })
    await clock.advance(60_000)
    expect(beats()[1]?.at).toBeLessThan(20_000)
    expect([work.signal(first).aborted, work.signal(second).aborted]).toEqual([false, false])
    expect(seen.map(({ event }) => event['error'])).toEqual([expect.objectContaining({ code: 'upstream' })])
  })

  test('a late answer of a hung attempt changes nothing', async () => {
    const [id = ''] = api.put(1)
    api.fail('/settle', { slowMs: 9_000 })
    const work = createWork()
    consume(work.handler)
    await clock.advance(100_000)
    expect(work.signal(id).aborted).toBe(false)
  })
})

test('one that is under way when the consumer has stopped is ended with it, in silence', async () => {
  api.put(1)
  api.failAlways('/settle', 'silent')
  const { consumer, names } = consume(createWork().handler)
  await clock.advance(10_000)
  const stopped = consumer.stop({ timeoutMs: 0 })
  await clock.advance(0)
  await stopped
  expect(beats()[0]?.aborted).toBe(true)
  await clock.advance(60_000)
  expect(names()).toEqual(['stopped'])
  expect(clock.timers).toBe(0)
})

test('one job is lost, the others go on', async () => {
  const [first = '', second = ''] = api.put(1, 2)
  const work = createWork()
  const { names } = consume(work.handler, { concurrency: 2 })
  await clock.settle()
  api.steal(first)
  await clock.advance(40_000)
  expect(names()).toEqual(['leaseLost'])
  expect(work.signal(second).aborted).toBe(false)
  expect(
    beats()
      .at(-1)
      ?.body.items.map(({ id }: { id: string }) => id),
  ).toEqual([second])
})

test('a job that is gone counts as lost', async () => {
  const [id = ''] = api.put(1)
  api.failAlways('/settle', {
    status: 200,
    body: { results: [{ id, error: { code: 'gone', detail: '' } }] },
  })
  const work = createWork()
  const { names } = consume(work.handler)
  await clock.advance(10_000)
  expect(names()).toEqual(['leaseLost'])
  expect(work.signal(id).aborted).toBe(true)
})

test('a heartbeat that crosses a complete takes nothing back', async () => {
  const [id = ''] = api.put(1)
  const work = createWork()
  const { names } = consume(work.handler)
  await clock.advance(9_999)
  api.fail('/complete', { slowMs: 5_000 })
  work.end(id)
  await clock.advance(30_000)
  expect(beats()).toHaveLength(1)
  expect(names()).toEqual(['completed'])
})

describe('case 24: timers', () => {
  test('a lease of 24 hours sends no heartbeat for eight hours', async () => {
    api.put(1)
    consume(createWork().handler, { leaseMs: 86_400_000 })
    await clock.advance(28_799_999)
    expect(beats()).toHaveLength(0)
    await clock.advance(1)
    expect(beats()).toHaveLength(1)
  })

  test('are never armed for longer than the platform takes', () => {
    const armed = vi.spyOn(globalThis, 'setTimeout')
    for (const ms of [Number.POSITIVE_INFINITY, 2 ** 31, 2 ** 40]) systemClock.after(ms, () => {})()
    expect(armed.mock.calls.map(([, ms]) => ms)).toEqual([MAX_TIMER_MS, MAX_TIMER_MS, MAX_TIMER_MS])
    expect(MAX_TIMER_MS).toBe(2_147_483_647)
    armed.mockRestore()
  })

  test('nor for less than none: platforms warn of that', () => {
    const armed = vi.spyOn(globalThis, 'setTimeout')
    for (const ms of [-1, Number.NEGATIVE_INFINITY, 0.5]) systemClock.after(ms, () => {})()
    expect(armed.mock.calls.map(([, ms]) => ms)).toEqual([0, 0, 0.5])
    armed.mockRestore()
  })

  test('that fire too early do no harm', async () => {
    const [id = ''] = api.put(1)
    const after = clock.after
    clock.after = (ms, run) => after(Math.max(ms - 0.9, 0.1), run)
    const work = createWork()
    consume(work.handler)
    await clock.advance(35_000)
    expect(beats().map(({ at }) => Math.round(at))).toEqual([10_000, 20_000, 30_000])
    expect(work.signal(id).aborted).toBe(false)
  })
})
