/**
 * The local stack: a real Redis, the REST bridge in front of it, the Worker in workerd on top, and a clock for its
 * cron. All of it listens on 127.0.0.1 only and ends with this process.
 */

import { parseEnv } from '../env.ts'
import type { Readiness } from '../http/health.ts'
import { DEFAULT_LIMITS } from '../protocol/limits.ts'
import { createUpstashPort, RefusedTokenError } from '../queue/upstash.ts'
import { type Bridge, createBridge, type TestBridge } from './bridge/bridge.ts'
import { contradictionIn } from './contradictions.ts'
import { startCron } from './cron.ts'
import { makeFolder } from './data-folder.ts'
import { DEV_TOKENS, type DevTokens, devTokensSecret } from './dev-tokens.ts'
import { choosePort, DEFAULT_PORT, DEFAULT_REST_PORT } from './ports.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
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
  /** What keeps it from serving although it runs, such as a variable that cannot be used: a sentence each. */
  readonly warnings: readonly string[]
  /** Resolves when it has ended: with what has broken, or with nothing after `stop`. */
  readonly ended: Promise<string | undefined>
  /** Fires the scheduled handler now and waits for it; rejects when it fails. */
  runCron(): Promise<void>
  /** Ends everything that was started. May be called more than once. */
  stop(): Promise<void>
}

export type TestStack = Stack & { readonly redisUrl: string; readonly bridge: TestBridge }

const DEV_REST_TOKEN = 'dev-rest-token'
const FIRST_ANSWER_TIMEOUT_MS = 30_000
const CRON = '* * * * *'

/**
 * Starts the stack and waits until the Worker answers.
 *
 * @throws {Error} in one clear sentence, when a port that was asked for is busy, Redis cannot be had or reached, the
 * database of a REST URL does not answer or refuses the token, or the Worker does not build or start. Nothing is left
 * running then.
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
  const contradiction = contradictionIn(options)
  if (contradiction !== undefined) throw new Error(contradiction)
  await using parts = new AsyncDisposableStack()
  const ended = Promise.withResolvers<string | undefined>()
  const watch = (part: { readonly ended: Promise<void> }, name: string): void =>
    void part.ended.then(() => ended.resolve(`${name} has ended unexpectedly.`))

  const port = await choosePort(options.port, DEFAULT_PORT)
  // Here, so that one that cannot be made is told before anything is built.
  const data = options.data && (await makeFolder(options.data))
  // The longest part of a start; the rest happens in the meantime.
  const building = Promise.resolve(options.worker ?? buildWorker(options.wranglerConfig))
  building.catch(() => {})
  const database = await openDatabase({ ...options, data }, parts, (redis) => watch(redis, 'Redis'))

  const built = await building
  const bindings = {
    EMQ_TOKENS: devTokensSecret(),
    ...emqVariables(options.env ?? {}),
    UPSTASH_REDIS_REST_URL: database.restUrl,
    UPSTASH_REDIS_REST_TOKEN: database.restToken,
  }
  const worker = await startWorker({ built, port, quiet: options.quiet ?? false, bindings })
  parts.defer(worker.stop)
  watch(worker, 'The Worker')
  const checks = await firstAnswer(worker.url)

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
    warnings: warningsOf({ ...built.vars, ...bindings }, checks),
    ended: ended.promise,
    async runCron() {
      const outcome = await worker.runScheduled(CRON)
      if (outcome !== 'ok') throw new Error(`The scheduled handler ended with: ${outcome}.`)
    },
    stop() {
      ended.resolve(undefined)
      stopping ??= running.disposeAsync()
      return stopping
    },
  }
}

/** What the Worker says of itself. The first request of a Worker also loads its code. */
async function firstAnswer(url: string): Promise<Readiness['checks']> {
  const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(FIRST_ANSWER_TIMEOUT_MS) })
  const { checks } = (await response.json()) as Readiness
  return checks
}

function warningsOf(bindings: Readonly<Record<string, unknown>>, checks: Readiness['checks']): string[] {
  const reading = parseEnv(bindings)
  const problems = reading.ok ? [] : [...reading.problems]
  if (checks.wireVersion === 'failed')
    problems.push('the database bears a wire version that EMQ_WIRE_ACCEPT does not accept')
  return [
    ...problems.map((problem) => `The Worker refuses every request: ${problem}.`),
    ...(checks.redis === 'failed' ? ['The Worker gets no answer from Redis in time.'] : []),
    ...(checks.redis === 'evicting'
      ? ['This Redis may remove jobs when memory is short: its maxmemory-policy is not noeviction.']
      : []),
  ]
}

type Database = Pick<Stack, 'restUrl' | 'restToken' | 'redisUrl' | 'bridge'>

async function openDatabase(
  options: StackOptions,
  parts: AsyncDisposableStack,
  watch: (redis: RedisServer) => void,
): Promise<Database> {
  const { restUrl, restToken = DEV_REST_TOKEN } = options
  if (restUrl !== undefined) {
    await refuseDeafDatabase(restUrl, restToken)
    return { restUrl, restToken, redisUrl: null, bridge: null }
  }

  const restPort = await choosePort(options.restPort, DEFAULT_REST_PORT)
  const redisUrl = options.redisUrl ?? (await startOwnRedis(options.data, parts, watch))
  const bridge = await createBridge({
    redisUrl,
    token: restToken,
    port: restPort,
    testMode: options.testMode ?? false,
  })
  parts.defer(bridge.stop)
  return { restUrl: bridge.url, restToken, redisUrl, bridge }
}

/** By ourselves: what the Worker can reach depends on its variables, too, and those refuse no start. */
async function refuseDeafDatabase(url: string, token: string): Promise<void> {
  try {
    await createUpstashPort({ url, token, timeoutMs: DEFAULT_LIMITS.redisTimeoutMs }).send([['PING']])
  } catch (error) {
    if (error instanceof RefusedTokenError) throw new Error(`The database at ${url} refuses the REST token.`)
    throw new Error(`Nothing at ${url} answers as an Upstash database does.`)
  }
}

async function startOwnRedis(
  data: string | undefined,
  parts: AsyncDisposableStack,
  watch: (redis: RedisServer) => void,
): Promise<string> {
  const redis = await startRedis(data === undefined ? {} : { data })
  parts.defer(redis.stop)
  watch(redis)
  return redis.url
}

/** A variable that is set but empty reaches the Worker as empty. */
function emqVariables(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith('EMQ_') && entry[1] !== undefined,
    ),
  )
}
