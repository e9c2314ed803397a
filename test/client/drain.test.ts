/** Drain: works a queue until it is empty or the time is over. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { type DrainOptions, EchoMQ, type Handler } from '../../src/client/index.ts'
import { createWork } from './support/consuming.ts'
import { clientOf, createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let api: FakeApi

beforeEach(() => {
  clock = createFakeClock()
  api = createFakeApi(clock)
})

function drain(handler: Handler<unknown>, options?: DrainOptions) {
  const outcome: { at?: number; result?: unknown; error?: unknown } = {}
  const promise = new EchoMQ(clientOf(api, clock))
    .queue('q')
    .drain(handler, options)
    .then(
      (result) => Object.assign(outcome, { result }),
      (error) => Object.assign(outcome, { error }),
    )
    .then(() => Object.assign(outcome, { at: clock.now() }))
  return { outcome, promise }
}

test('drain works the queue until it is empty, and counts the jobs', async () => {
  api.put(1, 2, 3, 4, 5)
  const { outcome } = drain(
    async ({ payload }) => {
      if (payload === 3) throw new Error('three')
    },
    { concurrency: 2 },
  )
  await clock.settle()
  expect(outcome).toEqual({ at: 0, result: { done: 4, failed: 1, released: 0 } })
  expect(api.to('/claim').every(({ body }) => body.waitMs === 0)).toBe(true)
  expect(clock.timers).toBe(0)
})

test('drain of an empty queue sends one claim', async () => {
  const { outcome } = drain(vi.fn())
  await clock.settle()
  expect(outcome.result).toEqual({ done: 0, failed: 0, released: 0 })
  expect(api.to('/claim')).toHaveLength(1)
})

test('drain works a job that is enqueued while another runs', async () => {
  const [id = ''] = api.put(1)
  const work = createWork()
  const { outcome } = drain(work.handler, { concurrency: 2 })
  await clock.advance(1_000)
  const [second = ''] = api.put(2)
  work.end(id)
  await clock.settle()
  expect(work.started).toEqual([id, second])
  work.end(second)
  await clock.settle()
  expect(outcome.result).toEqual({ done: 2, failed: 0, released: 0 })
})

test('drain claims again after a claim that returned more and no job', async () => {
  api.put(1)
  api.fail('/claim', { status: 200, body: { jobs: [], more: true } })
  const { outcome } = drain(vi.fn())
  await clock.settle()
  expect(outcome).toEqual({ at: 0, result: { done: 1, failed: 0, released: 0 } })
  expect(api.to('/claim')).toHaveLength(3)
})

test('drain does not claim an empty queue repeatedly while jobs run', async () => {
  api.put(1)
  drain(createWork().handler, { concurrency: 2, deadlineMs: 60_000 })
  await clock.advance(50_000)
  expect(api.to('/claim')).toHaveLength(2)
})

describe('the deadline', () => {
  test('drain stops claiming, aborts running handlers, releases their jobs, and ends in time', async () => {
    const [first = '', second = ''] = api.put(1, 2, 3)
    const work = createWork()
    const { outcome } = drain(work.handler, { deadlineMs: 25_000, batch: 2 })
    await clock.advance(22_999)
    expect(work.signal(first).aborted).toBe(false)
    await clock.advance(1)
    expect(api.jobs.get(second)?.state).toBe('pending')
    await clock.advance(1_600)
    expect(work.signal(first).aborted).toBe(true)
    expect(api.jobs.get(first)?.state).toBe('pending')
    await clock.advance(400)
    expect(outcome).toEqual({ at: 25_000, result: { done: 0, failed: 0, released: 2 } })
    expect(work.started).toEqual([first])
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('a released job is counted once when the response to the release is lost', async () => {
    api.put(1, 2, 3)
    api.fail('/settle', 'lost')
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000, batch: 3, leaseMs: 60_000 })
    await clock.advance(10_000)
    expect(outcome.result).toEqual({ done: 0, failed: 0, released: 3 })
  })

  test('a job that ends shortly before the deadline is reported', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { outcome } = drain(work.handler, { deadlineMs: 10_000 })
    await clock.advance(8_500)
    work.end(id)
    await clock.settle()
    expect(outcome).toEqual({ at: 8_500, result: { done: 1, failed: 0, released: 0 } })
  })

  test('drain ends before its deadline while jobs are left', async () => {
    api.put(...Array.from({ length: 50 }, (_, i) => i))
    const { outcome } = drain(
      () => new Promise((resolve) => void clock.after(1_000, () => resolve(undefined))),
      {
        deadlineMs: 10_000,
      },
    )
    await clock.advance(10_000)
    expect(outcome.at).toBe(8_000)
    expect(outcome.result).toEqual({ done: 8, failed: 0, released: 0 })
  })

  test.each([0, -5, -0.5, Number.NEGATIVE_INFINITY])(
    'drain with a deadline of %d ms sends nothing',
    async (deadlineMs) => {
      api.put(1)
      const { outcome } = drain(vi.fn(), { deadlineMs })
      await clock.settle()
      expect(outcome).toEqual({ at: 0, result: { done: 0, failed: 0, released: 0 } })
      expect(api.calls).toEqual([])
    },
  )

  test.each([Number.NaN, '5000', null])('drain rejects the deadline %j', async (deadlineMs) => {
    const { outcome } = drain(vi.fn(), { deadlineMs: deadlineMs as number })
    await clock.settle()
    expect(outcome.error).toMatchObject({ code: 'invalid', message: 'deadlineMs must be a number' })
    expect(api.calls).toEqual([])
  })

  test.each([30, 100, 200])(
    'drain with a deadline of %i ms releases and counts its jobs when the release is not answered',
    async (deadlineMs) => {
      const ids = api.put(1, 2)
      api.fail('/settle', { slowMs: 5_000 })
      const work = createWork()
      const { outcome } = drain(work.handler, { deadlineMs, concurrency: 2 })
      await clock.advance(deadlineMs)
      expect(outcome).toEqual({ at: deadlineMs, result: { done: 0, failed: 0, released: 2 } })
      expect(work.started).toEqual(ids)
      expect(ids.map((id) => api.jobs.get(id)?.state)).toEqual(['pending', 'pending'])
    },
  )

  test('a job whose release fails counts as released', async () => {
    const [first = '', second = '', third = ''] = api.put(1, 2, 3)
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000, concurrency: 3, leaseMs: 60_000 })
    await clock.settle()
    api.steal(second)
    await clock.advance(10_000)
    expect(outcome.result).toEqual({ done: 0, failed: 0, released: 3 })
    expect([first, third].map((id) => api.jobs.get(id)?.state)).toEqual(['pending', 'pending'])
  })

  test('the jobs of a claim that is answered after the stop are released and counted', async () => {
    const [id = ''] = api.put(1)
    api.fail('/claim', { slowMs: 9_000 })
    const handler = vi.fn()
    const { outcome } = drain(handler, { deadlineMs: 10_000 })
    await clock.advance(10_000)
    expect(outcome).toEqual({ at: 9_000, result: { done: 0, failed: 0, released: 1 } })
    expect(handler).not.toHaveBeenCalled()
    expect(api.jobs.get(id)?.state).toBe('pending')
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('drain sends no claim after its deadline', async () => {
    api.fail('/claim', 'silent')
    const { outcome } = drain(vi.fn(), { deadlineMs: 8_000 })
    await clock.advance(60_000)
    expect(outcome).toEqual({ at: 8_000, result: { done: 0, failed: 0, released: 0 } })
    expect(api.to('/claim')).toEqual([expect.objectContaining({ aborted: true })])
    expect(clock.timers).toBe(0)
  })

  test('a job whose report is not answered in time counts as failed', async () => {
    api.put(1)
    api.failAlways('/complete', 'silent')
    const { outcome } = drain(vi.fn(), { deadlineMs: 5_000 })
    await clock.advance(5_000)
    expect(outcome).toEqual({ at: 5_000, result: { done: 0, failed: 1, released: 0 } })
  })

  test('drain ends at once on a machine that was busy at the deadline', async () => {
    api.put(1)
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000 })
    await clock.advance(7_000)
    clock.freeze(2_500)
    await clock.advance(5_000)
    expect(outcome).toEqual({ at: 10_000, result: { done: 0, failed: 0, released: 1 } })
  })
})

describe('failures', () => {
  test('drain repeats a claim after a retryable failure', async () => {
    api.put(1)
    api.fail('/claim', { status: 503 })
    const { outcome } = drain(vi.fn())
    await clock.advance(5_000)
    expect(outcome.result).toEqual({ done: 1, failed: 0, released: 0 })
  })

  test('drain rejects at once when the API rejects the token', async () => {
    api.failAlways('/claim', { status: 401 })
    const { outcome } = drain(vi.fn())
    await clock.settle()
    expect(outcome).toMatchObject({ at: 0, error: { code: 'unauthorized' } })
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('drain rejects at once when the API rejects the claim', async () => {
    api.failAlways('/claim', { status: 400, body: { code: 'invalid', detail: 'leaseMs' } })
    const { outcome } = drain(vi.fn(), { leaseMs: 1 })
    await clock.settle()
    expect(outcome).toMatchObject({ at: 0, error: { code: 'invalid' } })
  })

  test('drain rejects before its deadline when the server never responds', async () => {
    api.failAlways('/claim', { status: 503 })
    const { outcome } = drain(vi.fn(), { deadlineMs: 10_000 })
    await clock.advance(10_000)
    expect(outcome.error).toMatchObject({ code: 'upstream' })
    expect(outcome.at).toBe(8_000)
  })

  test('drain returns its counts when a claim fails after jobs were done', async () => {
    api.put(1)
    const { outcome } = drain(
      async () => {
        api.failAlways('/claim', { status: 503 })
      },
      { deadlineMs: 10_000 },
    )
    await clock.advance(10_000)
    expect(outcome.result).toEqual({ done: 1, failed: 0, released: 0 })
  })

  test('a job whose lease was lost counts as failed', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { outcome } = drain(work.handler)
    await clock.settle()
    api.steal(id)
    await clock.advance(10_000)
    work.end(id)
    await clock.settle()
    expect(outcome.result).toEqual({ done: 0, failed: 1, released: 0 })
  })

  test('drain rejects options that are out of range', async () => {
    const { outcome } = drain(vi.fn(), { concurrency: 0 })
    await clock.settle()
    expect(outcome.error).toMatchObject({ code: 'invalid' })
  })
})
