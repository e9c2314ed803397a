/** The cron of the local stack. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startCron } from '../../src/stack/cron.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('the cron runs at once and then every minute, until it is stopped', async () => {
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

test('the cron skips a minute while the last run is in progress', async () => {
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
])('the cron reports a run that %s, and continues', async (_how, run, text) => {
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

test('the cron does not report a run that was in progress when it was stopped', async () => {
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const first = Promise.withResolvers<string>()
  const cron = startCron(() => first.promise)

  cron.stop()
  first.reject(new Error('The process of the Worker has ended.'))
  await vi.advanceTimersByTimeAsync(0)

  expect(stderr).not.toHaveBeenCalled()
  stderr.mockRestore()
})
