/**
 * `npm run conformance`: plays the gates of the protocol against an Upstash REST endpoint.
 *
 * Against an embedded one the second client of each gate speaks RESP, as consumers in other languages do.
 */

import { Command } from 'commander'
import { DEFAULT_LIMITS } from '../../protocol/limits.ts'
import { createUpstashPort } from '../../queue/upstash.ts'
import { createBridge } from '../bridge/bridge.ts'
import { runConformance } from '../conformance.ts'
import { startRedis } from '../redis-server.ts'
import { createRespPort } from '../resp-port.ts'
import { stopWhenAsked } from '../shutdown.ts'
import { parseUrl } from './options.ts'

type ConformanceOptions = { readonly url?: string; readonly token?: string; readonly redisUrl?: string }

const BRIDGE_TOKEN = 'conformance'

export function conformanceCommand(): Command {
  return new Command('conformance')
    .description(
      'Plays the gates L1 to L6 and further scenarios against an Upstash REST endpoint, by default an embedded one. ' +
        'Exits with 1 when any fails.',
    )
    .option('--url <url>', 'of the endpoint', parseUrl('https:', 'http:'))
    .option('--token <token>', 'of the endpoint')
    .option('--redis-url <url>', 'use this Redis behind the embedded endpoint', parseUrl('redis:', 'rediss:'))
    .action(run)
}

async function run({ url, token, redisUrl }: ConformanceOptions, command: Command): Promise<void> {
  if ((url === undefined) !== (token === undefined)) command.error('error: --url and --token go together')
  if (url !== undefined && redisUrl !== undefined) command.error('error: --url excludes --redis-url')

  const passed =
    url !== undefined && token !== undefined
      ? await runConformance({ port: restPort(url, token) })
      : await runEmbedded(redisUrl)
  process.exitCode = passed ? 0 : 1
}

async function runEmbedded(givenRedisUrl: string | undefined): Promise<boolean> {
  await using parts = new AsyncDisposableStack()
  stopWhenAsked(() => parts.disposeAsync())

  let redisUrl = givenRedisUrl
  if (redisUrl === undefined) {
    const redis = await startRedis()
    parts.defer(redis.stop)
    redisUrl = redis.url
  }
  const bridge = await createBridge({ redisUrl, token: BRIDGE_TOKEN })
  parts.defer(bridge.stop)
  const other = await createRespPort(redisUrl)
  parts.defer(other.close)
  return await runConformance({ port: restPort(bridge.url, BRIDGE_TOKEN), other })
}

function restPort(url: string, token: string) {
  return createUpstashPort({ url, token, timeoutMs: DEFAULT_LIMITS.redisTimeoutMs })
}
