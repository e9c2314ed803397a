/** Polling: a waiting claim pauses longer each time, until the next job is due or the caller hangs up. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createPollingWaiter, type Wait } from '../../src/wake/polling.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const patient: Wait = { atMostMs: 25_000, signal: new AbortController().signal }

test('each pause is half as long again as the one before, up to a second', async () => {
  const waiter = createPollingWaiter()
  const pauses = []
  for (let i = 0; i < 9; i++) pauses.push(await lengthOf(waiter.pause(patient)))
  expect(pauses).toEqual([100, 150, 225, 337, 506, 759, 1000, 1000, 1000])
})

test('a pause ends when the next job is due or the request may wait no longer', async () => {
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 30 }))).toBe(30)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 5_000 }))).toBe(100)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, atMostMs: 20 }))).toBe(20)
  // A job that is due by one clock may not be due by another, so a pause is never 0.
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 0 }))).toBe(1)
})

test('a caller that hangs up before or during a pause ends it at once, and no timer is left', async () => {
  const controller = new AbortController()
  const pause = createPollingWaiter().pause({ ...patient, signal: controller.signal })
  controller.abort()
  expect(await lengthOf(pause)).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, signal: controller.signal }))).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('the pauses of one request do not make those of another longer', async () => {
  const [one, two] = [createPollingWaiter(), createPollingWaiter()]
  await lengthOf(one.pause(patient))
  await lengthOf(one.pause(patient))
  expect(await lengthOf(two.pause(patient))).toBe(100)
})

/** The length of a pause in ms, by a clock that only the test moves. */
async function lengthOf(pause: Promise<void>): Promise<number> {
  const start = Date.now()
  let over = false
  const ended = pause.then(() => {
    over = true
  })
  await vi.advanceTimersByTimeAsync(0)
  while (!over) await vi.advanceTimersByTimeAsync(1)
  await ended
  return Date.now() - start
}
