/**
 * What the tests of the examples share: one local stack for a file, and for each test a queue and a mail API of its own.
 */
import { afterAll, beforeAll, expect, onTestFinished, vi } from 'vitest'
import { EchoMQ, type Queue } from '../../../src/client/index.ts'
import { text } from '../../../src/queue/replies.ts'
import { createRespPort, type RespPort } from '../../../src/stack/resp-port.ts'
import { type Stack, startStack } from '../../../src/stack/stack.ts'
import { census } from '../../support/census.ts'
import type { Place } from './consumers.ts'
import { type Delivery, type MailApi, startMailApi } from './mail-api.ts'

export type Email = { readonly to: string }

export type LocalStack = {
  readonly stack: Stack & { readonly redisUrl: string }
  /** A connection past everything. */
  readonly port: RespPort
}

/**
 * Call at the top of a test file; the properties are there once its tests run. Its cron stands still. The file's tests
 * have more time than others: on a busy machine processes start slowly.
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
    if (!started) throw new Error('The stack is only there while tests run.')
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

/** @param leaseMs Long enough for a busy machine to renew it, or as short as one who waits for its end would like it. */
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

/** So many jobs, with addresses of their own. */
export const emails = (count: number): { payload: Email }[] =>
  Array.from({ length: count }, (_, nth) => ({ payload: { to: `user${nth}@example.com` } }))

/** The queue's numbers once nothing is left to do in it. Nothing of it may be wrong then. */
export async function atRest({ port }: LocalStack, queue: Queue<Email>, withinMs = 30_000) {
  const left = async () => {
    const { counts } = await queue.stats()
    return counts.pending + counts.active + counts.scheduled
  }
  await expect.poll(left, { timeout: withinMs }).toBe(0)
  expect(await census(port, queue.name)).toEqual([])
  const { completed, failed, ghosts, counts } = await queue.stats()
  return { completed, failed, ghosts, dead: counts.dead }
}

/** Waits until a client of Redis has looked often whether its queue is paused. Nobody else asks this way. */
export async function untilLooking({ port }: LocalStack): Promise<void> {
  const looks = async () => {
    const [reply] = await port.send([['INFO', 'commandstats']])
    return Number(/(?<=cmdstat_hexists:calls=)\d+/.exec(text(reply))?.[0] ?? 0)
  }
  const before = await looks()
  await expect.poll(looks, { timeout: 30_000 }).toBeGreaterThan(before + 20)
}
