/** One local stack for a test file, and a queue and a mail API for each test. */
import { afterAll, beforeAll, expect, onTestFinished, vi } from 'vitest'
import { EchoMQ, type Queue } from '../../../src/client/index.ts'
import { text } from '../../../src/queue/replies.ts'
import { createRespPort, type RespPort } from '../../../src/stack/resp-port.ts'
import { type Stack, startStack } from '../../../src/stack/stack.ts'
import { expectConsistent } from '../../support/census.ts'
import type { Place } from './consumers.ts'
import { type Delivery, type MailApi, startMailApi } from './mail-api.ts'

export type Email = { readonly to: string }

export type LocalStack = {
  readonly stack: Stack & { readonly redisUrl: string }
  /** A connection to Redis that bypasses everything else. */
  readonly port: RespPort
}

/**
 * Call at the top of a test file; the properties are available while its tests run. The stack has no cron. The tests of
 * the file have a longer timeout, because processes start slowly on a busy machine.
 */
export function localStack(): LocalStack {
  vi.setConfig({ testTimeout: 60_000 })
  let started: LocalStack | undefined
  beforeAll(async () => {
    const stack = await startStack({ port: 0, restPort: 0, quiet: true, cron: false })
    const { redisUrl } = stack
    if (redisUrl === null) throw new Error('The stack has no Redis of its own.')
    started = { stack: { ...stack, redisUrl }, port: await createRespPort(redisUrl) }
  })
  afterAll(async () => {
    started?.port.close()
    await started?.stack.stop()
  })
  const running = (): LocalStack => {
    if (!started) throw new Error('The stack is available only while tests run.')
    return started
  }
  return {
    get stack() {
      return running().stack
    },
    get port() {
      return running().port
    },
  }
}

export type Scene = { readonly queue: Queue<Email>; readonly mail: MailApi; readonly place: Place }

let queues = 0

/** @param leaseMs By default long enough to be renewed on a busy machine. */
export async function scene(
  { stack }: LocalStack,
  answer: (delivery: Delivery) => number | Promise<number> = () => 202,
  leaseMs = 5_000,
): Promise<Scene> {
  const { url, redisUrl, tokens } = stack
  const name = `examples-${queues++}`
  const mail = await startMailApi(answer)
  onTestFinished(mail.stop)
  const settings = await fetch(`${url}/v1/queues/${name}/settings`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${tokens.operator}`, 'content-type': 'application/json' },
    body: JSON.stringify({ maxAttempts: 3, leaseMs, backoff: { baseMs: 20, maxMs: 50 } }),
  })
  expect(settings.status).toBe(200)
  return {
    queue: new EchoMQ({ url, token: tokens.operator }).queue<Email>(name),
    mail,
    place: { url, redisUrl, mailUrl: mail.url, queue: name, leaseMs },
  }
}

/** Jobs with a different address each. */
export const emails = (count: number): { payload: Email }[] =>
  Array.from({ length: count }, (_, nth) => ({ payload: { to: `user${nth}@example.com` } }))

/** Waits until the queue has no more work, checks its census, and returns its counters. */
export async function atRest({ port }: LocalStack, queue: Queue<Email>, withinMs = 30_000) {
  const left = async () => {
    const { counts } = await queue.stats()
    return counts.pending + counts.active + counts.scheduled
  }
  await expect.poll(left, { timeout: withinMs }).toBe(0)
  await expectConsistent(port, queue.name)
  const { completed, failed, ghosts, counts } = await queue.stats()
  return { completed, failed, ghosts, dead: counts.dead }
}

/** Waits until a client of Redis has often read whether its queue is paused. Only such clients use HEXISTS. */
export async function untilLooking({ port }: LocalStack): Promise<void> {
  const looks = async () => {
    const [reply] = await port.send([['INFO', 'commandstats']])
    return Number(/(?<=cmdstat_hexists:calls=)\d+/.exec(text(reply))?.[0] ?? 0)
  }
  const before = await looks()
  await expect.poll(looks, { timeout: 30_000 }).toBeGreaterThan(before + 20)
}
