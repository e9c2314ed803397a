/**
 * The local stack: a real Redis, the REST bridge in front of it, the Worker in workerd, and its cron. It listens on
 * 127.0.0.1 only and ends with this process.
 */

import { parseEnv } from '../env.ts'
import type { Readiness } from '../http/health.ts'
import { DEFAULT_LIMITS } from '../protocol/limits.ts'
import { createUpstashPort, RefusedTokenError } from '../queue/upstash.ts'
import { type Bridge, createBridge, type TestBridge } from './bridge/bridge.ts'
import { type Cleanup, startWithCleanup } from './cleanup.ts'
import { startCron } from './cron.ts'
import { makeFolder } from './data-folder.ts'
import { DEV_TOKENS, type DevTokens, devTokensSecret } from './dev-tokens.ts'
import { choosePort, DEFAULT_PORT, DEFAULT_REST_PORT } from './ports.ts'
import { randomToken } from './random-token.ts'
import { startRedis } from './redis-server.ts'
import { contradictionIn, OWN_VARIABLES, type StackOptions } from './stack-options.ts'
import { startWorker } from './worker.ts'
import { buildWorker } from './wrangler.ts'

export type { StackOptions }

export type Stack = {
  readonly url: string
  readonly restUrl: string
  readonly restToken: string
  /** Null under `restUrl`. */
  readonly redisUrl: string | null
  /** Valid unless `env` has its own `EMQ_TOKENS`. */
  readonly tokens: DevTokens
  /** Null under `restUrl`. */
  readonly bridge: Bridge | null
  /** Why the running stack may not serve, such as an invalid variable: one sentence each. */
  readonly warnings: readonly string[]
  /** Resolves at the end: with the reason of a failure, or with undefined after `stop`. */
  readonly ended: Promise<string | undefined>
  /** Runs the scheduled handler; rejects when it fails. */
  runCron(): Promise<void>
  /** Ends everything that was started. May be called more than once. */
  stop(): Promise<void>
}

export type TestStack = Stack & { readonly redisUrl: string; readonly bridge: TestBridge }

const FIRST_ANSWER_TIMEOUT_MS = 30_000
const CRON = '* * * * *'

/**
 * Starts the stack and waits until the Worker answers.
 *
 * @throws {Error} in one sentence, when a requested port is busy, Redis cannot be started or reached, the database does
 * not answer or rejects the token, or the Worker does not build or start. Nothing is left running then.
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
export function startStack(options: StackOptions = {}): Promise<Stack> {
  return startWithCleanup((parts) => start(options, parts))
}

async function start(options: StackOptions, parts: Cleanup): Promise<Stack> {
  const contradiction = contradictionIn(options)
  if (contradiction !== undefined) throw new Error(contradiction)
  const ended = Promise.withResolvers<string | undefined>()
  function keep(part: { readonly ended: Promise<void>; stop(): Promise<void> }, name: string): void {
    parts.defer(part.stop)
    void part.ended.then(() => ended.resolve(`${name} has ended unexpectedly.`))
  }

  async function openDatabase(data: string | undefined): Promise<Database> {
    const { restUrl, restToken = randomToken(), testMode = false } = options
    if (restUrl !== undefined) {
      await checkDatabase(restUrl, restToken)
      return { restUrl, restToken, redisUrl: null, bridge: null }
    }
    const restPort = await choosePort(options.restPort, DEFAULT_REST_PORT)
    let { redisUrl } = options
    if (redisUrl === undefined) {
      const redis = await startRedis({ data })
      keep(redis, 'Redis')
      redisUrl = redis.url
    }
    const bridge = await createBridge({ redisUrl, token: restToken, port: restPort, testMode })
    parts.defer(bridge.stop)
    return { restUrl: bridge.url, restToken, redisUrl, bridge }
  }

  const port = await choosePort(options.port, DEFAULT_PORT)
  // First, so that an impossible folder is reported before anything is built.
  const data = options.data && (await makeFolder(options.data))
  // The build takes longest; the database starts in the meantime.
  const building = Promise.resolve(options.worker ?? buildWorker(options.wranglerConfig))
  building.catch(() => {})
  const database = await openDatabase(data)

  const built = await building
  const bindings = {
    EMQ_TOKENS: devTokensSecret(),
    EMQ_LOCAL_STACK: '1',
    ...emqVariables(options.env ?? {}),
    UPSTASH_REDIS_REST_URL: database.restUrl,
    UPSTASH_REDIS_REST_TOKEN: database.restToken,
  }
  const worker = await startWorker({ built, port, quiet: options.quiet ?? false, bindings })
  keep(worker, 'The Worker')
  const checks = await firstAnswer(worker.url)
  if (options.cron ?? true) parts.defer(startCron(() => worker.runScheduled(CRON)).stop)

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
      return parts.run()
    },
  }
}

type Database = Pick<Stack, 'restUrl' | 'restToken' | 'redisUrl' | 'bridge'>

/** Reads the checks of `/readyz`. The first request also loads the code of the Worker. */
async function firstAnswer(url: string): Promise<Readiness['checks']> {
  const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(FIRST_ANSWER_TIMEOUT_MS) })
  const { checks } = (await response.json()) as Readiness
  return checks
}

function warningsOf(bindings: Readonly<Record<string, unknown>>, checks: Readiness['checks']): string[] {
  const parsed = parseEnv(bindings)
  const problems = parsed.ok ? [] : [...parsed.problems]
  if (checks.wireVersion === 'failed')
    problems.push('the database uses a wire version that EMQ_WIRE_ACCEPT does not accept')
  return [
    ...problems.map((problem) => `The Worker rejects every request: ${problem}.`),
    ...(checks.redis === 'failed' ? ['The Worker gets no answer from Redis in time.'] : []),
    ...(checks.redis === 'evicting'
      ? ['This Redis may delete jobs when memory is short: its maxmemory-policy is not noeviction.']
      : []),
  ]
}

/** Not through the Worker: its variables may keep it from reaching the database, which must not stop the start. */
async function checkDatabase(url: string, token: string): Promise<void> {
  try {
    await createUpstashPort({ url, token, timeoutMs: DEFAULT_LIMITS.redisTimeoutMs }).send([['PING']])
  } catch (error) {
    if (error instanceof RefusedTokenError) throw new Error(`The database at ${url} rejects the REST token.`)
    throw new Error(`No Upstash database answers at ${url}.`)
  }
}

/** Keeps variables that are set but empty. */
function emqVariables(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const entries = Object.entries(env).filter(
    ([name, value]) => name.startsWith('EMQ_') && !name.startsWith(OWN_VARIABLES) && value !== undefined,
  )
  return Object.fromEntries(entries) as Record<string, string>
}
