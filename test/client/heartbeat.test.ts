/** Leases: when they begin, how they are renewed, and how they are lost. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/client/clock.ts'
import { MAX_TIMER_MS } from '../../src/client/limits.ts'
import { createWork, ownConsumers } from './support/consuming.ts'
import { createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let api: FakeApi

beforeEach(() => {
  clock = createFakeClock()
  api = createFakeApi(clock)
})

const { consume } = ownConsumers(() => ({ api, clock }))

function beats() {
  return api.to('/settle')
}

test('one settle request renews all held jobs for a whole lease, after a third of it', async () => {
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

test("without the option leaseMs the heartbeat renews for the queue's lease", async () => {
  api.put(1)
  consume(createWork().handler)
  await clock.advance(10_000)
  expect(beats()[0]?.body.items[0].leaseMs).toBe(30_000)
})

test('a job that was claimed later is renewed together with the others', async () => {
  const [first = ''] = api.put(1)
  consume(createWork().handler, { concurrency: 2, waitMs: 0 })
  await clock.advance(4_500)
  const [second = ''] = api.put(2)
  await clock.advance(5_500)
  expect(beats()[0]?.body.items.map(({ id }: { id: string }) => id)).toEqual([first, second])
  await clock.advance(10_000)
  expect(beats()).toHaveLength(2)
})

test('the heartbeat sends one request at a time', async () => {
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

test('the heartbeat sends nothing when no job is held', async () => {
  api.put(1)
  consume(vi.fn(), { waitMs: 0 })
  await clock.advance(300_000)
  expect(beats()).toEqual([])
})

describe('the start of a lease', () => {
  test('a slow response to the claim leaves less of the lease', async () => {
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

  test('a job whose claim is answered after the lease does not run', async () => {
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

  test('a job that arrives late in the wait of a claim is renewed at once', async () => {
    consume(createWork().handler, { waitMs: 20_000 })
    await clock.advance(14_000)
    api.put(1)
    await clock.settle()
    expect(beats().map(({ at }) => at)).toEqual([14_000])
  })

  test('a repeated claim returns the rest of a lease, and renewals are for a whole lease', async () => {
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

describe('the clock of a lease', () => {
  test('a step of the calendar clock does not change a lease', async () => {
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

  test('leases are counted with performance.now', () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(123.5)
    expect(systemClock.now()).toBe(123.5)
    now.mockRestore()
  })
})

describe('case 53: failed heartbeats', () => {
  test.each([
    ['is answered 500', { status: 500 }, 10_041],
    ['is answered 503 with a long Retry-After', { status: 503, headers: { 'retry-after': '60' } }, 15_000],
    ['is reset', 'reset', 10_041],
    ['is never answered', 'silent', 17_541],
    ['is never answered by a fetch that ignores its signal', 'deaf', 17_541],
    ['is answered with HTML', { status: 200, body: '<html>' }, 10_041],
    ['is answered for no job', { status: 200, body: { results: [] } }, 10_041],
  ] as const)('a heartbeat that %s is repeated before the lease ends', async (_, fault, repeatedAt) => {
    const [id = ''] = api.put(1)
    api.fail('/settle', fault)
    const work = createWork()
    const { seen } = consume(work.handler, { leaseMs: 30_000 })
    await clock.advance(19_999)
    expect(beats().map(({ at }) => Math.floor(at))).toEqual([10_000, repeatedAt])
    await clock.advance(65_001)
    expect(work.signal(id).aborted).toBe(false)
    expect(seen.map(({ name }) => name)).toEqual(['error'])
  })

  test.each([30_000, 1_000, 300])(
    'a failing heartbeat gets three attempts within a lease of %i ms',
    async (leaseMs) => {
      api.put(1)
      api.failAlways('/settle', 'silent')
      consume(createWork().handler, { leaseMs })
      await clock.advance(leaseMs - 1)
      expect(beats()).toHaveLength(3)
    },
  )

  test('a heartbeat that keeps failing is repeated at growing intervals', async () => {
    api.put(1)
    api.failAlways('/settle', 'reset')
    clock.chance = 0.999
    consume(createWork().handler)
    await clock.advance(29_999)
    expect(beats().map(({ at }) => at)).toEqual([
      10_000, 10_083.25, 10_249.75, 10_582.75, 11_248.75, 12_580.75, 15_244.75, 20_239.75, 25_234.75,
    ])
  })

  test('an item that fails is repeated, and the other jobs are kept', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const failed = { id: second, error: { code: 'upstream', detail: '' } }
    api.fail('/settle', { status: 200, body: { results: [{ id: first, status: 'extended' }, failed] } })
    const work = createWork()
    const { seen } = consume(work.handler, { concurrency: 2 })
    await clock.advance(60_000)
    expect(Math.floor(beats()[1]?.at ?? 0)).toBe(10_041)
    expect([work.signal(first).aborted, work.signal(second).aborted]).toEqual([false, false])
    expect(seen.map(({ event }) => event['error'])).toEqual([expect.objectContaining({ code: 'upstream' })])
  })

  test('the late response to an attempt that hung changes nothing', async () => {
    const [id = ''] = api.put(1)
    api.fail('/settle', { slowMs: 9_000 })
    const work = createWork()
    consume(work.handler)
    await clock.advance(100_000)
    expect(work.signal(id).aborted).toBe(false)
  })
})

test('a heartbeat on its way is aborted without an error event when the consumer stops', async () => {
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

test('the loss of one job leaves the others running', async () => {
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

test('a job that is gone emits leaseLost', async () => {
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

test('a heartbeat that crosses a complete does not turn it into a lost lease', async () => {
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
  test('a lease of 24 hours is renewed after eight hours', async () => {
    api.put(1)
    consume(createWork().handler, { leaseMs: 86_400_000 })
    await clock.advance(28_799_999)
    expect(beats()).toHaveLength(0)
    await clock.advance(1)
    expect(beats()).toHaveLength(1)
  })

  test('no timer is longer than the platform accepts', () => {
    const armed = vi.spyOn(globalThis, 'setTimeout')
    for (const ms of [Number.POSITIVE_INFINITY, 2 ** 31, 2 ** 40]) systemClock.after(ms, () => {})()
    expect(armed.mock.calls.map(([, ms]) => ms)).toEqual([MAX_TIMER_MS, MAX_TIMER_MS, MAX_TIMER_MS])
    expect(MAX_TIMER_MS).toBe(2_147_483_647)
    armed.mockRestore()
  })

  test('no timer is negative, because platforms warn about that', () => {
    const armed = vi.spyOn(globalThis, 'setTimeout')
    for (const ms of [-1, Number.NEGATIVE_INFINITY, 0.5]) systemClock.after(ms, () => {})()
    expect(armed.mock.calls.map(([, ms]) => ms)).toEqual([0, 0, 0.5])
    armed.mockRestore()
  })

  test('a timer that fires early is set again', async () => {
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
