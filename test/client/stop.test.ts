/** Stopping and starting: in time, without losing or keeping a job, and never two loops. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { ConsumeOptions, Consumer, Handler } from '../../src/client/index.ts'
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

/** Stops, and tells when it was done. */
function stopping(consumer: Consumer<unknown>, timeoutMs?: number) {
  const outcome: { at?: number } = {}
  const promise = consumer.stop(timeoutMs === undefined ? undefined : { timeoutMs }).then(() => {
    outcome.at = clock.now()
  })
  return { outcome, promise }
}

const releases = () =>
  api
    .to('/settle')
    .flatMap(({ body }) => body.items.filter(({ action }: { action: string }) => action === 'release'))

describe('a claim at the time of stopping', () => {
  test('that waits is hung up on, asked once more under its claimId without waiting, and nothing is left', async () => {
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

  test('case 51: whose answer is on its way: its jobs are released before stop resolves', async () => {
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

  test('whose answer was lost before: what it took is released', async () => {
    const [id = ''] = api.put(1)
    api.fail('/claim', 'lost')
    const { consumer } = consume(vi.fn())
    await clock.settle()
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    expect(releases()).toEqual([{ action: 'release', id, token: 1 }])
  })

  test('that is refused when asked once more does not keep it from stopping', async () => {
    const { consumer, names } = consume(vi.fn())
    await clock.settle()
    api.failAlways('/claim', { status: 503 })
    const { promise } = stopping(consumer)
    await clock.settle()
    await promise
    expect(names()).toEqual(['error', 'stopped'])
    expect(api.to('/claim')).toHaveLength(2)
  })

  test('none is asked again when the last one was answered', async () => {
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
  test('that wait are given back at once, unstarted', async () => {
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

  test('that run may end, under the heartbeat, and are reported', async () => {
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

  test('that run on are aborted before the time is over, and given back within it', async () => {
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

  test('whose handlers heed the signal let it stop before the time is over', async () => {
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

  test('are given back before it is said to have stopped', async () => {
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

  test('whose leases were lost before are not given back', async () => {
    const [id = ''] = api.put(1)
    const { consumer } = consume(createWork().handler)
    await clock.settle()
    api.steal(id)
    await clock.advance(10_000)
    stopping(consumer, 1_000)
    await clock.advance(1_000)
    expect(releases()).toEqual([])
  })

  test('are given back again when the answer to that was lost', async () => {
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

  test('that are being reported are not given back', async () => {
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

  test('that are reported when it has stopped are told no more', async () => {
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
  'never takes longer than its time, not even when the server is %s',
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

test('with no time at all the jobs are given back all the same', async () => {
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

test('a handler that stops its own consumer and waits for it ends in time', async () => {
  api.put(1)
  const { consumer, names } = consume(async () => {
    await consumer.stop({ timeoutMs: 2_000 })
  })
  await clock.advance(2_000)
  expect(names()).toEqual(['stopped'])
})

test('stopping in a pause after an error does not wait for its end', async () => {
  clock.chance = 0.999
  api.failAlways('/claim', { status: 503, headers: { 'retry-after': '60' } })
  const { consumer } = consume(vi.fn())
  await clock.settle()
  const { outcome } = stopping(consumer)
  await clock.settle()
  expect(outcome.at).toBe(0)
})

describe('again and again', () => {
  test('stop is idempotent, and the shortest time counts', async () => {
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

  test('start while it runs makes no second loop', async () => {
    const { consumer } = consume(vi.fn())
    consumer.start()
    consumer.start()
    await clock.settle()
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('start while it stops waits for the end, and makes one loop', async () => {
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

  test('stop, start, stop ends stopped', async () => {
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

  test('it can be started anew, from a listener too', async () => {
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

  test('running is true from the start and false from the moment of stopping', async () => {
    const { consumer } = consume(vi.fn())
    expect(consumer.running).toBe(true)
    const { promise } = stopping(consumer)
    expect(consumer.running).toBe(false)
    await clock.settle()
    await promise
    expect(consumer.running).toBe(false)
  })

  test('a start while it stopped is good for one start: after a refused token later it stays stopped', async () => {
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

  test('after a refused token it can be started again', async () => {
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
