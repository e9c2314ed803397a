/** Stop and start: in time, without losing or keeping a job, and never with two loops. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Consumer } from '../../src/client/index.ts'
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

/** Stops the consumer and records the time at which it has stopped. */
function stopping(consumer: Consumer<unknown>, timeoutMs?: number) {
  const outcome: { at?: number } = {}
  const promise = consumer.stop(timeoutMs === undefined ? undefined : { timeoutMs }).then(() => {
    outcome.at = clock.now()
  })
  return { outcome, promise }
}

function releases() {
  return api
    .to('/settle')
    .flatMap(({ body }) => body.items.filter(({ action }: { action: string }) => action === 'release'))
}

describe('a claim at the time of stopping', () => {
  test('stop aborts a waiting claim, repeats it once under its claimId without a wait, and leaves no job', async () => {
    const { consumer, names } = consume(vi.fn())
    await clock.advance(5_000)
    const { promise, outcome } = stopping(consumer)
    await clock.settle()
    await promise
    expect(outcome.at).toBe(5_000)
    const [first, second, ...more] = api.to('/claim')
    expect(first?.aborted).toBe(true)
    expect(second?.body).toEqual({ limit: 1, claimId: first?.body.claimId })
    expect(more).toEqual([])
    expect(names()).toEqual(['stopped'])
    expect(clock.timers).toBe(0)
  })

  test('case 51: stop releases the jobs of a claim whose response is on its way, before it resolves', async () => {
    const ids = api.put(1, 2)
    api.fail('/claim', { slowMs: 300 })
    const handler = vi.fn()
    const { consumer } = consume(handler, { concurrency: 2 })
    await clock.advance(100)
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    expect(handler).not.toHaveBeenCalled()
    expect(releases()).toEqual(ids.map((id) => ({ action: 'release', id, token: 1 })))
    expect(ids.map((id) => api.jobs.get(id)?.state)).toEqual(['pending', 'pending'])
  })

  test('stop releases the jobs of a claim whose response was lost', async () => {
    const [id = ''] = api.put(1)
    api.fail('/claim', 'lost')
    const { consumer } = consume(vi.fn())
    await clock.settle()
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    expect(releases()).toEqual([{ action: 'release', id, token: 1 }])
  })

  test('stop resolves when the repeated claim is rejected', async () => {
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    api.failAlways('/claim', { status: 503 })
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    expect(names()).toEqual(['error', 'stopped'])
    expect(api.to('/claim')).toHaveLength(2)
  })

  test('stop repeats no claim that was answered', async () => {
    api.put(1)
    const work = createWork()
    const { consumer } = consume(work.handler)
    await clock.settle()
    const { promise } = stopping(consumer, 1_000)
    await clock.advance(1_000)
    await promise
    expect(api.to('/claim')).toHaveLength(1)
  })
})

describe('jobs at the time of stopping', () => {
  test('stop releases buffered jobs at once and does not start them', async () => {
    const [first = '', second = '', third = ''] = api.put(1, 2, 3)
    const work = createWork()
    const { consumer } = consume(work.handler, { batch: 3 })
    await clock.settle()
    const { outcome } = stopping(consumer)
    await clock.settle()
    expect(releases().map(({ id }) => id)).toEqual([second, third])
    expect(outcome.at).toBeUndefined()
    work.end(first)
    await clock.settle()
    expect(outcome.at).toBe(0)
    expect(work.started).toEqual([first])
    expect(api.jobs.has(first)).toBe(false)
  })

  test('running jobs may end after stop, keep their leases, and are reported', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { consumer, names } = consume(work.handler, { leaseMs: 1_000 })
    await clock.settle()
    const { outcome } = stopping(consumer, 10_000)
    await clock.advance(5_000)
    expect(work.signal(id).aborted).toBe(false)
    work.end(id)
    await clock.settle()
    expect(names()).toEqual(['completed', 'stopped'])
    expect(outcome.at).toBe(5_000)
  })

  test('stop aborts handlers before its time is over, and releases their jobs within it', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { consumer, names } = consume(work.handler)
    await clock.settle()
    const { outcome } = stopping(consumer, 10_000)
    await clock.advance(8_999)
    expect(work.signal(id).aborted).toBe(false)
    await clock.advance(1)
    expect(work.signal(id).aborted).toBe(true)
    expect(api.jobs.get(id)?.state).toBe('pending')
    await clock.advance(1_000)
    expect(outcome.at).toBe(10_000)
    work.throw(id, new Error('aborted'))
    await clock.advance(60_000)
    expect(names()).toEqual(['stopped'])
    expect(api.to('/retry')).toEqual([])
  })

  test('stop resolves early when the handlers obey the signal', async () => {
    const [id = ''] = api.put(1)
    const { consumer } = consume(
      (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    )
    await clock.settle()
    const { outcome } = stopping(consumer, 10_000)
    await clock.advance(10_000)
    expect(outcome.at).toBe(9_000)
    expect(api.jobs.get(id)?.state).toBe('pending')
    expect(api.calls.some(({ path }) => path.endsWith('/retry'))).toBe(false)
  })

  test('stop resolves after the jobs are released', async () => {
    api.put(1)
    const { consumer } = consume(
      (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    )
    await clock.settle()
    api.fail('/settle', { slowMs: 400 })
    const { outcome } = stopping(consumer, 5_000)
    await clock.advance(4_399)
    expect(outcome.at).toBeUndefined()
    await clock.advance(1)
    expect(outcome.at).toBe(4_400)
  })

  test('stop does not release a job whose lease was lost', async () => {
    const [id = ''] = api.put(1)
    const { consumer } = consume(createWork().handler)
    await clock.settle()
    api.steal(id)
    await clock.advance(10_000)
    stopping(consumer, 1_000)
    await clock.advance(1_000)
    expect(releases()).toEqual([])
  })

  test('stop repeats a release whose response was lost', async () => {
    const [id = ''] = api.put(1)
    api.fail('/settle', 'lost')
    const { consumer } = consume(createWork().handler, { leaseMs: 60_000 })
    await clock.settle()
    const { promise } = stopping(consumer, 10_000)
    await clock.advance(10_000)
    await promise
    expect(releases()).toHaveLength(2)
    expect(api.jobs.get(id)?.state).toBe('pending')
  })

  test('stop does not release a job that is being reported', async () => {
    const [id = ''] = api.put(1)
    api.failAlways('/complete', 'reset')
    const { consumer } = consume(vi.fn())
    await clock.settle()
    const { outcome } = stopping(consumer, 1_000)
    await clock.advance(1_000)
    expect(outcome.at).toBe(1_000)
    expect(releases()).toEqual([])
    expect(api.jobs.get(id)?.state).toBe('active')
  })

  test('a report that is answered after stop emits no event', async () => {
    api.put(1)
    api.fail('/complete', { slowMs: 3_000 })
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    stopping(consumer, 1_000)
    await clock.advance(60_000)
    expect(api.jobs.size).toBe(0)
    expect(names()).toEqual(['stopped'])
  })
})

test.each(['silent', 'deaf', 'reset'] as const)(
  'stop takes no longer than its timeout when the server is %s',
  async (fault) => {
    api.put(1, 2)
    const work = createWork()
    const { consumer } = consume(work.handler, { concurrency: 3, batch: 1 })
    await clock.settle()
    for (const end of ['/claim', '/settle']) api.failAlways(end, fault)
    const { outcome, promise } = stopping(consumer, 3_000)
    await clock.advance(3_000)
    await promise
    expect(outcome.at).toBe(3_000)
  },
)

test('stop with a timeout of 0 releases the jobs', async () => {
  const [id = ''] = api.put(1)
  const work = createWork()
  const { consumer } = consume(work.handler)
  await clock.settle()
  const { promise } = stopping(consumer, 0)
  await clock.advance(0)
  await promise
  expect(work.signal(id).aborted).toBe(true)
  expect(api.jobs.get(id)?.state).toBe('pending')
})

test('a handler that stops its own consumer and awaits it ends in time', async () => {
  api.put(1)
  const { consumer, names } = consume(async () => {
    await consumer.stop({ timeoutMs: 2_000 })
  })
  await clock.advance(2_000)
  expect(names()).toEqual(['stopped'])
})

test('stop during a backoff resolves at once', async () => {
  clock.chance = 0.999
  api.failAlways('/claim', { status: 503, headers: { 'retry-after': '60' } })
  const { consumer } = consume(vi.fn())
  await clock.settle()
  const { outcome } = stopping(consumer)
  await clock.settle()
  expect(outcome.at).toBe(0)
})

describe('repeated start and stop', () => {
  test('stop is idempotent, and the shortest timeout counts', async () => {
    api.put(1)
    const work = createWork()
    const { consumer, names } = consume(work.handler)
    await clock.settle()
    const first = stopping(consumer, 60_000)
    const second = stopping(consumer, 1_000)
    await clock.advance(1_000)
    expect([first.outcome.at, second.outcome.at]).toEqual([1_000, 1_000])
    await consumer.stop()
    expect(names()).toEqual(['stopped'])
    expect(clock.timers).toBe(0)
  })

  test('start of a running consumer creates no second loop', async () => {
    const { consumer } = consume(vi.fn())
    consumer.start()
    consumer.start()
    await clock.settle()
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('start of a stopping consumer waits for the end and creates one loop', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { consumer, names } = consume(work.handler)
    await clock.settle()
    const { promise } = stopping(consumer, 5_000)
    consumer.start()
    consumer.start()
    await clock.advance(1_000)
    expect(api.to('/claim')).toHaveLength(1)
    expect(consumer.running).toBe(false)
    work.end(id)
    await clock.settle()
    await promise
    expect(consumer.running).toBe(true)
    expect(api.to('/claim')).toHaveLength(2)
    expect(names()).toEqual(['completed', 'stopped'])
  })

  test('a consumer is stopped after stop, start, stop', async () => {
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    stopping(consumer)
    consumer.start()
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    await clock.advance(100_000)
    expect(consumer.running).toBe(false)
    expect(names()).toEqual(['stopped'])
    expect(clock.timers).toBe(0)
  })

  test('a stopped consumer can be started again, by a listener too', async () => {
    const { consumer, names } = consume(vi.fn())
    const off = consumer.on('stopped', () => consumer.start())
    await clock.settle()
    await consumer.stop()
    await clock.settle()
    expect(consumer.running).toBe(true)
    off()
    await consumer.stop()
    expect(consumer.running).toBe(false)
    expect(names()).toEqual(['stopped', 'stopped'])
  })

  test('running is true from the start and false as soon as stop is called', async () => {
    const { consumer } = consume(vi.fn())
    expect(consumer.running).toBe(true)
    const { promise } = stopping(consumer)
    expect(consumer.running).toBe(false)
    await clock.settle()
    await promise
    expect(consumer.running).toBe(false)
  })

  test('a start during a stop starts the consumer once: after a rejected token it stays stopped', async () => {
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    stopping(consumer)
    consumer.start()
    await clock.settle()
    expect(consumer.running).toBe(true)
    api.failAlways('/claim', { status: 401 })
    await clock.advance(600_000)
    expect(consumer.running).toBe(false)
    expect(names()).toEqual(['stopped', 'error', 'stopped'])
  })

  test('a consumer can be started again after a rejected token', async () => {
    api.put(1)
    api.fail('/claim', { status: 401 })
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    expect(consumer.running).toBe(false)
    consumer.start()
    await clock.settle()
    expect(names()).toEqual(['error', 'stopped', 'completed'])
  })
})
