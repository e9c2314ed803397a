/**
 * The local stack: a real Redis, the REST bridge in front of it, the Worker in workerd on top, and a clock for its
 * cron. All of it listens on 127.0.0.1 only and ends with this process.
 */

import { type Bridge, createBridge, type TestBridge } from './bridge/bridge.ts'
import { startCron } from './cron.ts'
import { DEV_TOKENS, type DevTokens, devTokensSecret } from './dev-tokens.ts'
import { choosePort } from './ports.ts'
import { startRedis } from './redis-server.ts'
import { startWorker } from './worker.ts'
import { type BuiltWorker, buildWorker } from './wrangler.ts'

export type StackOptions = {
  /** Of the Worker. Default: 8787, or a free one when that is busy; 0: any free one. */
  readonly port?: number | undefined
  /** Of the bridge. Default: 8079, or a free one when that is busy; 0: any free one. */
  readonly restPort?: number | undefined
  /** A Redis that runs already. Default: one of the stack's own. */
  readonly redisUrl?: string | undefined
  /** An Upstash database, or what speaks its protocol, instead of Redis and bridge. Needs `restToken`. */
  readonly restUrl?: string | undefined
  readonly restToken?: string | undefined
  /** A folder in which the stack's own Redis keeps its data. Default: it keeps none. */
  readonly data?: string | undefined
  /** Keeps back what the Worker logs. */
  readonly quiet?: boolean | undefined
  /** Of the bridge. */
  readonly testMode?: boolean | undefined
  /** Variables for the Worker: those whose names begin with `EMQ_` reach it. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  /** Whether the scheduled handler is fired at the start and once a minute. Default: it is. */
  readonly cron?: boolean | undefined
  /** Default: the project's own wrangler.toml. */
  readonly wranglerConfig?: string | undefined
  /** A Worker that is built already, instead of one that is built now. */
  readonly worker?: BuiltWorker | undefined
}

export type Stack = {
  readonly url: string
  readonly restUrl: string
  readonly restToken: string
  /** Null under `restUrl`. */
  readonly redisUrl: string | null
  /** They hold unless `env` has an `EMQ_TOKENS` of its own. */
  readonly tokens: DevTokens
  /** Null under `restUrl`. */
  readonly bridge: Bridge | null
  /** Fires the scheduled handler now and waits for it; rejects when it fails. */
  runCron(): Promise<void>
  /** Ends everything that was started. May be called more than once. */
  stop(): Promise<void>
}

export type TestStack = Stack & { readonly redisUrl: string; readonly bridge: TestBridge }

const DEFAULT_PORT = 8787
const DEFAULT_REST_PORT = 8079
const DEV_REST_TOKEN = 'dev-rest-token'
const FIRST_ANSWER_TIMEOUT_MS = 30_000
const CRON = '* * * * *'

/**
 * Starts the stack and waits until the Worker answers.
 *
 * @throws {Error} in one clear sentence, when a port that was asked for is busy, Redis cannot be had or reached, or
 * the Worker does not build or start. Nothing is left running then.
 *
 * @example
 *   const stack = await startStack({ port: 0, restPort: 0 })
 *   await fetch(`${stack.url}/healthz`)
 *   await stack.stop()
 */
export function startStack(
  options: StackOptions & { testMode: true; restUrl?: undefined },
): Promise<TestStack>
export function startStack(options?: StackOptions): Promise<Stack>
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  refuseContradictions(options)
  await using parts = new AsyncDisposableStack()

  const port = await choosePort(options.port, DEFAULT_PORT)
  // The longest part of a start; the rest happens in the meantime.
  const building = Promise.resolve(options.worker ?? buildWorker(options.wranglerConfig))
  building.catch(() => {})
  const database = await openDatabase(options, parts)

  const worker = await startWorker({
    built: await building,
    port,
    quiet: options.quiet ?? false,
    bindings: {
      EMQ_TOKENS: devTokensSecret(),
      ...emqVariables(options.env ?? {}),
      UPSTASH_REDIS_REST_URL: database.restUrl,
      UPSTASH_REDIS_REST_TOKEN: database.restToken,
    },
  })
  parts.defer(worker.stop)
  await untilAnswering(worker.url)

  if (options.cron ?? true) {
    const cron = startCron(() => worker.runScheduled(CRON))
    parts.defer(cron.stop)
  }

  // From here on the parts live until `stop`.
  const running = parts.move()
  let stopping: Promise<void> | undefined
  return {
    ...database,
    url: worker.url,
    tokens: DEV_TOKENS,
    async runCron() {
      const outcome = await worker.runScheduled(CRON)
      if (outcome !== 'ok') throw new Error(`The scheduled handler ended with: ${outcome}.`)
    },
    stop() {
      stopping ??= running.disposeAsync()
      return stopping
    },
  }
}

/** One request: the first one of a Worker also loads its code. */
async function untilAnswering(url: string): Promise<void> {
  const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(FIRST_ANSWER_TIMEOUT_MS) })
  await response.body?.cancel()
}

type Database = Pick<Stack, 'restUrl' | 'restToken' | 'redisUrl' | 'bridge'>

async function openDatabase(options: StackOptions, parts: AsyncDisposableStack): Promise<Database> {
  const { restUrl, restToken = DEV_REST_TOKEN } = options
  if (restUrl !== undefined) return { restUrl, restToken, redisUrl: null, bridge: null }

  const restPort = await choosePort(options.restPort, DEFAULT_REST_PORT)
  const redisUrl = options.redisUrl ?? (await startOwnRedis(options.data, parts))
  const bridge = await createBridge({
    redisUrl,
    token: restToken,
    port: restPort,
    testMode: options.testMode ?? false,
  })
  parts.defer(bridge.stop)
  return { restUrl: bridge.url, restToken, redisUrl, bridge }
}

async function startOwnRedis(data: string | undefined, parts: AsyncDisposableStack): Promise<string> {
  const redis = await startRedis(data === undefined ? {} : { data })
  parts.defer(redis.stop)
  return redis.url
}

function refuseContradictions({ restUrl, restToken, restPort, redisUrl, data }: StackOptions): void {
  if (restUrl !== undefined) {
    if (restToken === undefined) throw new Error('A REST URL needs its token.')
    if (redisUrl !== undefined) throw new Error('Either a REST URL or a Redis URL can be used, not both.')
    if (restPort !== undefined)
      throw new Error('With a REST URL there is no bridge, so it has no port either.')
  }
  if (data !== undefined && (restUrl ?? redisUrl) !== undefined) {
    throw new Error('A data folder is for the embedded Redis only.')
  }
}

/** A variable that is set but empty reaches the Worker as empty. */
function emqVariables(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith('EMQ_') && entry[1] !== undefined,
    ),
  )
}
