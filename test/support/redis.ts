/**
 * One Redis and one test-mode bridge for a test file: started before its first test, ended after its last.
 */

import { afterAll, beforeAll } from 'vitest'
import { createBridge, type TestBridge } from '../../src/stack/bridge/bridge.ts'
import { type RedisServer, startRedis } from '../../src/stack/redis-server.ts'

export const REST_TOKEN = 'test-token'
export const READ_ONLY_TOKEN = 'test-token-read-only'

export type SharedRedis = {
  readonly redis: RedisServer
  readonly bridge: TestBridge
}

/**
 * Call at the top of a test file, or of a `describe`; the properties are there once the tests run.
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
    if (part === undefined) throw new Error('sharedRedis is only there while tests run.')
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
