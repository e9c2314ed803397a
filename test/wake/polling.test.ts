/** Waiting for a job: longer and longer pauses, never past what is known, ended at once by who hangs up. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createPollingWaiter, type Wait } from '../../src/wake/polling.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const patient: Wait = { atMostMs: 25_000, signal: new AbortController().signal }

/** How long a pause takes, by a clock that only this test moves. */
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

test('pauses grow by half each, up to a second', async () => {
  const waiter = createPollingWaiter()
  const pauses = []
  for (let i = 0; i < 9; i++) pauses.push(await lengthOf(waiter.pause(patient)))
  expect(pauses).toEqual([100, 150, 225, 337, 506, 759, 1000, 1000, 1000])
})

test('a pause ends when the next job is due, and when the time of the request is over', async () => {
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 30 }))).toBe(30)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 5_000 }))).toBe(100)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, atMostMs: 20 }))).toBe(20)
  // What is due now may still be a moment away by another clock: no hot loop.
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, nextMs: 0 }))).toBe(1)
})

test('a caller that hangs up ends the pause at once, before it or in it, and no timer stays', async () => {
  const controller = new AbortController()
  const pause = createPollingWaiter().pause({ ...patient, signal: controller.signal })
  controller.abort()
  expect(await lengthOf(pause)).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
  expect(await lengthOf(createPollingWaiter().pause({ ...patient, signal: controller.signal }))).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('each held request has a waiter of its own: one does not make another wait longer', async () => {
  const [one, two] = [createPollingWaiter(), createPollingWaiter()]
  await lengthOf(one.pause(patient))
  await lengthOf(one.pause(patient))
  expect(await lengthOf(two.pause(patient))).toBe(100)
})
