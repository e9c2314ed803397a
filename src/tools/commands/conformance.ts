/**
 * `npm run conformance`: plays the gates of the protocol against an Upstash REST endpoint, or over plain RESP.
 *
 * Against an embedded endpoint the second client of each gate speaks RESP, as consumers in other languages do.
 */

import { Command } from 'commander'
import { DEFAULT_LIMITS } from '../../protocol/limits.ts'
import { createUpstashPort } from '../../queue/upstash.ts'
import { createBridge } from '../../stack/bridge/bridge.ts'
import { parseUrl } from '../../stack/options.ts'
import { startRedis } from '../../stack/redis-server.ts'
import { createRespPort } from '../../stack/resp-port.ts'
import { stopWhenAsked } from '../../stack/shutdown.ts'
import { runConformance } from '../conformance.ts'

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
    .option(
      '--redis-url <url>',
      'play over plain RESP against this Redis instead',
      parseUrl('redis:', 'rediss:'),
    )
    .action(run)
}

async function run({ url, token, redisUrl }: ConformanceOptions, command: Command): Promise<void> {
  if ((url === undefined) !== (token === undefined)) command.error('error: --url and --token go together')
  if (url !== undefined && redisUrl !== undefined)
    command.error('error: --url and --redis-url exclude each other')

  if (redisUrl !== undefined) return finish(await runOverResp(redisUrl))
  if (url !== undefined && token !== undefined)
    return finish(await runConformance({ port: restPort(url, token) }))
  return finish(await runEmbedded())
}

function finish(passed: boolean): void {
  process.exitCode = passed ? 0 : 1
}

async function runOverResp(redisUrl: string): Promise<boolean> {
  await using parts = new AsyncDisposableStack()
  const port = await createRespPort(redisUrl)
  parts.defer(port.close)
  const other = await createRespPort(redisUrl)
  parts.defer(other.close)
  return await runConformance({ port, other })
}

async function runEmbedded(): Promise<boolean> {
  await using parts = new AsyncDisposableStack()
  stopWhenAsked(() => parts.disposeAsync())

  const redis = await startRedis()
  parts.defer(redis.stop)
  const bridge = await createBridge({ redisUrl: redis.url, token: BRIDGE_TOKEN })
  parts.defer(bridge.stop)
  const other = await createRespPort(redis.url)
  parts.defer(other.close)
  return await runConformance({ port: restPort(bridge.url, BRIDGE_TOKEN), other })
}

function restPort(url: string, token: string) {
  return createUpstashPort({ url, token, timeoutMs: DEFAULT_LIMITS.redisTimeoutMs })
}
