/** `npm run conformance`: connects to the endpoint that the options name, or starts one, and plays the gates there. */

import { DEFAULT_LIMITS } from '../protocol/limits.ts'
import { createUpstashPort } from '../queue/upstash.ts'
import { createBridge } from '../stack/bridge/bridge.ts'
import { startRedis } from '../stack/redis-server.ts'
import { createRespPort } from '../stack/resp-port.ts'
import { stopWhenAsked } from '../stack/shutdown.ts'
import { runConformance } from './conformance.ts'

export type Endpoint = { readonly url?: string; readonly token?: string; readonly redisUrl?: string }

/** Returns whether all gates passed. Without an endpoint of its own, the second client of each gate speaks RESP. */
export async function playConformance({ url, token, redisUrl }: Endpoint): Promise<boolean> {
  await using parts = new AsyncDisposableStack()
  async function respPort(at: string) {
    const port = await createRespPort(at)
    parts.defer(port.close)
    return port
  }

  if (redisUrl !== undefined)
    return await runConformance({ port: await respPort(redisUrl), other: await respPort(redisUrl) })
  if (url !== undefined && token !== undefined) return await runConformance({ port: restPort(url, token) })

  stopWhenAsked(() => parts.disposeAsync())
  const redis = await startRedis()
  parts.defer(redis.stop)
  const bridge = await createBridge({ redisUrl: redis.url, token: 'conformance' })
  parts.defer(bridge.stop)
  return await runConformance({ port: restPort(bridge.url, bridge.token), other: await respPort(redis.url) })
}

function restPort(url: string, token: string) {
  return createUpstashPort({ url, token, timeoutMs: DEFAULT_LIMITS.redisTimeoutMs })
}
