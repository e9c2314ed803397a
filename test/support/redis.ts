/** One Redis and one test-mode bridge for a test file: started before its first test, stopped after its last. */
import { afterAll, beforeAll, expect } from 'vitest'
import { createBridge, type TestBridge } from '../../src/stack/bridge/bridge.ts'
import { type RedisServer, startRedis } from '../../src/stack/redis-server.ts'

export const REST_TOKEN = 'test-token'
export const READ_ONLY_TOKEN = 'test-token-read-only'

export type SharedRedis = {
  readonly redis: RedisServer
  readonly bridge: TestBridge
}

/**
 * Call at the top of a test file, or of a `describe`; the properties are available while its tests run.
 *
 * @example
 *   const shared = sharedRedis()
 *   test('...', () => fetch(shared.bridge.url))
 */
export function sharedRedis(): SharedRedis {
  let redis: RedisServer | undefined
  let bridge: TestBridge | undefined

  beforeAll(async () => {
    redis = await startRedis()
    bridge = await createBridge({
      redisUrl: redis.url,
      token: REST_TOKEN,
      readOnlyToken: READ_ONLY_TOKEN,
      testMode: true,
    })
  })
  afterAll(async () => {
    await bridge?.stop()
    await redis?.stop()
  })

  const started = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error('sharedRedis is available only while tests run.')
    return part
  }
  return {
    get redis() {
      return started(redis)
    },
    get bridge() {
      return started(bridge)
    },
  }
}

/** What some work costs: requests to Redis and the commands that they run. */
export async function costOf(
  shared: SharedRedis,
  work: () => Promise<unknown>,
): Promise<{ requests: number; total: number }> {
  await shared.bridge.reset()
  await work()
  const { requests, total } = await shared.bridge.counts()
  return { requests, total }
}

/** Runs some work and checks that it sends no request to Redis. */
export async function withoutRedis(shared: SharedRedis, work: () => Promise<unknown>): Promise<void> {
  const before = (await shared.bridge.counts()).requests
  await work()
  expect((await shared.bridge.counts()).requests).toBe(before)
}
