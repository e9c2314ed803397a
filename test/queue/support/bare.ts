/**
 * One Redis for a test file and a plain connection to it, without the bridge: nothing listens to what it runs, so that
 * a hundred thousand jobs cost no more than they have to.
 */
import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../../../src/stack/redis-server.ts'
import { createRespPort, type RespPort } from '../../../src/stack/resp-port.ts'

export type BareRedis = { readonly port: RespPort; readonly url: string }

/** Call at the top of a test file; the properties are there once the tests run. */
export function bareRedis(): BareRedis {
  let redis: RedisServer | undefined
  let port: RespPort | undefined
  beforeAll(async () => {
    redis = await startRedis()
    port = await createRespPort(redis.url)
  })
  afterAll(async () => {
    port?.close()
    await redis?.stop()
  })
  const started = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error('bareRedis is only there while tests run.')
    return part
  }
  return {
    get port() {
      return started(port)
    },
    get url() {
      return started(redis).url
    },
  }
}
