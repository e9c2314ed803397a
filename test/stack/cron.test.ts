/** The clock of the local stack: at once, then every minute, one run at a time. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startCron } from '../../src/stack/cron.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('fires at once, then every minute, until it is stopped', async () => {
  const run = vi.fn(async () => 'ok')
  const cron = startCron(run)
  expect(run).toHaveBeenCalledTimes(1)

  await vi.advanceTimersByTimeAsync(59_999)
  expect(run).toHaveBeenCalledTimes(1)
  await vi.advanceTimersByTimeAsync(60_001)
  expect(run).toHaveBeenCalledTimes(3)

  cron.stop()
  await vi.advanceTimersByTimeAsync(600_000)
  expect(run).toHaveBeenCalledTimes(3)
})

test('does not fire while the last run goes on', async () => {
  const first = Promise.withResolvers<string>()
  const run = vi.fn(() => first.promise)
  const cron = startCron(run)

  await vi.advanceTimersByTimeAsync(180_000)
  expect(run).toHaveBeenCalledTimes(1)
  first.resolve('ok')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(run).toHaveBeenCalledTimes(2)
  cron.stop()
})

test.each([
  ['rejects', () => Promise.reject(new Error('workerd is gone')), 'workerd is gone'],
  ['ends badly', () => Promise.resolve('exception'), 'exception'],
])('says it when a run %s, and goes on', async (_how, run, text) => {
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const failing = vi.fn(run)
  const cron = startCron(failing)

  await vi.advanceTimersByTimeAsync(60_000)

  expect(failing).toHaveBeenCalledTimes(2)
  expect(stderr).toHaveBeenCalledTimes(2)
  expect(stderr).toHaveBeenCalledWith(expect.stringContaining(text))
  cron.stop()
  stderr.mockRestore()
})

test('says nothing of a run that its own end has cut off', async () => {
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const first = Promise.withResolvers<string>()
  const cron = startCron(() => first.promise)

  cron.stop()
  first.reject(new Error('The process of the Worker has ended.'))
  await vi.advanceTimersByTimeAsync(0)

  expect(stderr).not.toHaveBeenCalled()
  stderr.mockRestore()
})
