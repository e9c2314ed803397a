/** Fault 57: the cron of the local stack fires by itself. The test waits for most of a minute. */
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EchoMQ } from '../../src/client/index.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { freshQueue } from '../support/api.ts'
import { until } from '../support/until.ts'

let stack: TestStack
beforeAll(async () => {
  stack = await startStack({ port: 0, restPort: 0, testMode: true, quiet: true })
})
afterAll(() => stack?.stop())

test('57: the cron makes a delayed job pending within a minute of its time without any claim', {
  timeout: 90_000,
}, async () => {
  const queue = new EchoMQ({ url: stack.url, token: stack.tokens.operator }).queue(freshQueue())
  const { id } = await queue.enqueue(1, { delayMs: 1_000 })
  // Reads move no job; a claim would promote it.
  await until(async () => {
    await setTimeout(250)
    return (await queue.stats()).counts.pending === 1
  }, 65_000)
  expect((await queue.claim({ limit: 1 })).map((job) => job.id)).toEqual([id])
})
