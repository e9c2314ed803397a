/** Drain: until the queue is empty or the time is over. */
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

test('works until nothing is left, and counts', async () => {
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

test('an empty queue costs one claim', async () => {
  const { outcome } = drain(vi.fn())
  await clock.settle()
  expect(outcome.result).toEqual({ done: 0, failed: 0, released: 0 })
  expect(api.to('/claim')).toHaveLength(1)
})

test('what a running job brings in is worked too', async () => {
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

test('while jobs run it does not ask an empty queue over and over', async () => {
  api.put(1)
  drain(createWork().handler, { concurrency: 2, deadlineMs: 60_000 })
  await clock.advance(50_000)
  expect(api.to('/claim')).toHaveLength(2)
})

describe('out of time', () => {
  test('it claims no more, aborts what runs, gives back what it can, and ends in time', async () => {
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

  test('what is given back is counted once, also when the answer to that was lost', async () => {
    api.put(1, 2, 3)
    api.fail('/settle', 'lost')
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000, batch: 3, leaseMs: 60_000 })
    await clock.advance(10_000)
    expect(outcome.result).toEqual({ done: 0, failed: 0, released: 3 })
  })

  test('what ends in its last moments is reported', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { outcome } = drain(work.handler, { deadlineMs: 10_000 })
    await clock.advance(8_500)
    work.end(id)
    await clock.settle()
    expect(outcome).toEqual({ at: 8_500, result: { done: 1, failed: 0, released: 0 } })
  })

  test('an endless stream of jobs ends with the time', async () => {
    api.put(...Array.from({ length: 50 }, (_, i) => i))
    const { outcome } = drain(
      () => new Promise((resolve) => void clock.after(1_000, () => resolve(undefined))),
      {
        deadlineMs: 10_000,
      },
    )
    await clock.advance(10_000)
    expect(outcome.at).toBeLessThanOrEqual(10_000)
    expect(outcome.result).toEqual({ done: 8, failed: 0, released: 0 })
  })

  test.each([0, -5, -0.5, Number.NEGATIVE_INFINITY])(
    'before it began (%d ms) it asks for nothing',
    async (deadlineMs) => {
      api.put(1)
      const { outcome } = drain(vi.fn(), { deadlineMs })
      await clock.settle()
      expect(outcome).toEqual({ at: 0, result: { done: 0, failed: 0, released: 0 } })
      expect(api.calls).toEqual([])
    },
  )

  test.each([Number.NaN, '5000', null])('%j is no deadline', async (deadlineMs) => {
    const { outcome } = drain(vi.fn(), { deadlineMs: deadlineMs as number })
    await clock.settle()
    expect(outcome.error).toMatchObject({ code: 'invalid', message: 'deadlineMs must be a number' })
    expect(api.calls).toEqual([])
  })

  test.each([30, 100, 200])(
    'within %i ms what was begun is given back, and counted, answered or not',
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

  test('what was given back counts as that, whoever has it by then, and is free when its lease ends at the latest', async () => {
    const [first = '', second = '', third = ''] = api.put(1, 2, 3)
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000, concurrency: 3, leaseMs: 60_000 })
    await clock.settle()
    api.steal(second)
    await clock.advance(10_000)
    expect(outcome.result).toEqual({ done: 0, failed: 0, released: 3 })
    expect([first, third].map((id) => api.jobs.get(id)?.state)).toEqual(['pending', 'pending'])
  })

  test('a claim that is under way is not asked again: what it brings is given back, and counted', async () => {
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

  test('nor after the deadline, when nobody would hear what it brings', async () => {
    api.fail('/claim', 'silent')
    const { outcome } = drain(vi.fn(), { deadlineMs: 8_000 })
    await clock.advance(60_000)
    expect(outcome).toEqual({ at: 8_000, result: { done: 0, failed: 0, released: 0 } })
    expect(api.to('/claim')).toEqual([expect.objectContaining({ aborted: true })])
    expect(clock.timers).toBe(0)
  })

  test('a job whose end was not heard of by then is none that is done', async () => {
    api.put(1)
    api.failAlways('/complete', 'silent')
    const { outcome } = drain(vi.fn(), { deadlineMs: 5_000 })
    await clock.advance(5_000)
    expect(outcome).toEqual({ at: 5_000, result: { done: 0, failed: 1, released: 0 } })
  })

  test('a machine that was busy when it should have stopped ends in time all the same', async () => {
    api.put(1)
    const { outcome } = drain(createWork().handler, { deadlineMs: 10_000 })
    await clock.advance(7_000)
    clock.freeze(2_500)
    await clock.advance(5_000)
    expect(outcome).toEqual({ at: 10_000, result: { done: 0, failed: 0, released: 1 } })
  })
})

describe('failures', () => {
  test('one that passes costs time only', async () => {
    api.put(1)
    api.fail('/claim', { status: 503 })
    const { outcome } = drain(vi.fn())
    await clock.advance(5_000)
    expect(outcome.result).toEqual({ done: 1, failed: 0, released: 0 })
  })

  test('a refused token rejects at once', async () => {
    api.failAlways('/claim', { status: 401 })
    const { outcome } = drain(vi.fn())
    await clock.settle()
    expect(outcome).toMatchObject({ at: 0, error: { code: 'unauthorized' } })
    expect(api.to('/claim')).toHaveLength(1)
  })

  test('a claim that is refused for good rejects at once', async () => {
    api.failAlways('/claim', { status: 400, body: { code: 'invalid', detail: 'leaseMs' } })
    const { outcome } = drain(vi.fn(), { leaseMs: 1 })
    await clock.settle()
    expect(outcome).toMatchObject({ at: 0, error: { code: 'invalid' } })
  })

  test('a server that never answers rejects at the deadline', async () => {
    api.failAlways('/claim', { status: 503 })
    const { outcome } = drain(vi.fn(), { deadlineMs: 10_000 })
    await clock.advance(10_000)
    expect(outcome.error).toMatchObject({ code: 'upstream' })
    expect(outcome.at).toBeLessThanOrEqual(10_000)
  })

  test('one after work was done does not hide what was done', async () => {
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

  test('a lease that was lost is no success', async () => {
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

  test('options that cannot be right reject', async () => {
    const { outcome } = drain(vi.fn(), { concurrency: 0 })
    await clock.settle()
    expect(outcome.error).toMatchObject({ code: 'invalid' })
  })
})
