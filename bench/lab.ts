/**
 * The place where everything is measured: one Redis, one REST bridge in a process of its own, and Workers in workerd.
 *
 * A Worker is reached directly: without miniflare's entry, without the router of the static assets, and without the
 * front of the local stack. All listen on 127.0.0.1 and end with this process.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Log, LogLevel, Miniflare } from 'miniflare'
import { EchoMQ } from '../src/client/index.ts'
import { DEV_TOKENS, devTokensSecret } from '../src/stack/dev-tokens.ts'
import { type RedisServer, startRedis } from '../src/stack/redis-server.ts'
import { miniflareOptions } from '../src/stack/worker.ts'
import { type BuiltWorker, buildWorker } from '../src/stack/wrangler.ts'
import type { HttpRequest } from './connection.ts'

export const TOKEN = DEV_TOKENS.operator
const REST_TOKEN = 'bench-rest-token'
const PATIENCE_MS = 60_000
const TICKS_PER_SECOND = 100

export type HostedWorker = {
  readonly url: string
  readonly client: EchoMQ
  /** What workerd has used so far, in microseconds of processor time; undefined where there is no /proc. */
  cpuMicros(): number | undefined
  /** Fires the scheduled handler and waits for it. */
  runScheduled(): Promise<void>
  stop(): Promise<void>
}

export type Database = { readonly restUrl: string; readonly restToken: string }

/** How much is measured: a full run, or a short one that only shows that everything works. */
export type Effort = {
  readonly rounds: number
  /** How many of these. */
  of(count: number): number
}

export const FULL: Effort = { rounds: 5, of: (count) => count }
export const QUICK: Effort = { rounds: 1, of: (count) => Math.ceil(count / 10) }

export type Lab = Database & {
  readonly effort: Effort
  readonly redis: RedisServer
  /** The Worker as it is deployed, without its static assets. */
  readonly built: BuiltWorker
  readonly worker: HostedWorker
  stop(): Promise<void>
}

/** Starts everything that most measurements share. */
export async function openLab(effort: Effort): Promise<Lab> {
  await using parts = new AsyncDisposableStack()
  const redis = await startRedis()
  parts.defer(redis.stop)
  const bridge = fork(fileURLToPath(new URL('bridge-process.ts', import.meta.url)), [redis.url, REST_TOKEN])
  parts.defer(async () => {
    const exited = once(bridge, 'exit')
    bridge.disconnect()
    await exited
  })
  const [restUrl] = (await once(bridge, 'message')) as [string]
  const database = { restUrl, restToken: REST_TOKEN }
  const { assets: _, ...built } = await buildWorker()
  const worker = await hostWorker(built, database)
  parts.defer(worker.stop)

  const running = parts.move()
  return { ...database, effort, redis, built, worker, stop: () => running.disposeAsync() }
}

/** A Worker of one module that runs under the same date and flags as ours. */
export function bareWorker(built: BuiltWorker, source: string): BuiltWorker {
  return { ...built, mainModule: 'worker.js', modules: { 'worker.js': { type: 'esm', contents: source } } }
}

/** The secrets and variables of our Worker. It waits longer for Redis than by default: a busy machine is no failure. */
export const bindingsOf = ({ restUrl, restToken }: Database) => ({
  EMQ_TOKENS: devTokensSecret(),
  EMQ_LOCAL_STACK: '1',
  EMQ_REDIS_TIMEOUT_MS: String(PATIENCE_MS),
  UPSTASH_REDIS_REST_URL: restUrl,
  UPSTASH_REDIS_REST_TOKEN: restToken,
})

export type BindingChanges = {
  /** Values beside those of `bindingsOf`. */
  readonly values?: Readonly<Record<string, string>>
  /** The name of a binding that loads other Workers. */
  readonly loader?: string
  /** The name of a binding to leave out. */
  readonly without?: string
}

/** Whether the local stack gives the Worker a binding of this name. */
export const hasBinding = (built: BuiltWorker, name: string): boolean =>
  miniflareOptions(built, {}).workers.some(({ config }) => Object.hasOwn(config.env, name))

/** Starts a Worker on a workerd of its own and waits until it takes requests. */
export async function hostWorker(
  built: BuiltWorker,
  { restUrl, restToken }: Database,
  changes: BindingChanges = {},
): Promise<HostedWorker> {
  const options = miniflareOptions(built, { ...bindingsOf({ restUrl, restToken }), ...changes.values })
  const before = new Set(workerds())
  const miniflare = new Miniflare({
    ...options,
    workers: options.workers.map(({ config }) => ({
      config: {
        ...config,
        env: {
          ...Object.fromEntries(Object.entries(config.env).filter(([name]) => name !== changes.without)),
          ...(changes.loader && { [changes.loader]: { type: 'worker-loader' } }),
        },
      },
      dev: { unsafeDirectSockets: [{}] },
    })),
    host: '127.0.0.1',
    port: 0,
    log: new Log(LogLevel.WARN),
  })
  await miniflare.ready
  const { origin: url } = await miniflare.unsafeGetDirectURL()
  const pid = workerds().find((each) => !before.has(each))
  return {
    url,
    client: new EchoMQ({ url, token: TOKEN, timeoutMs: PATIENCE_MS }),
    cpuMicros: () => (pid === undefined ? undefined : cpuMicros(pid)),
    async runScheduled() {
      const worker = (await miniflare.getWorker()) as unknown as ScheduledWorker
      const { outcome } = await worker.scheduled({ cron: '* * * * *' })
      if (outcome !== 'ok') throw new Error(`The scheduled handler ended with: ${outcome}.`)
    },
    stop: () => miniflare.dispose(),
  }
}

/** Miniflare types it with the types of Workers, which this project does not use. */
type ScheduledWorker = { scheduled(event: { cron: string }): Promise<{ outcome: string }> }

/** The workerd processes that this process started. */
function workerds(): number[] {
  return processes().filter((pid) => {
    const { name, fields } = statOf(pid)
    return name === 'workerd' && Number(fields[1]) === process.pid
  })
}

function processes(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0)
  } catch {
    return []
  }
}

/** The fields of /proc/PID/stat from the state on: the name before them may hold anything. */
function statOf(pid: number): { name: string; fields: readonly string[] } {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const end = text.lastIndexOf(')')
    return { name: text.slice(text.indexOf('(') + 1, end), fields: text.slice(end + 2).split(' ') }
  } catch {
    // It has ended since.
    return { name: '', fields: [] }
  }
}

function cpuMicros(pid: number): number {
  const { fields } = statOf(pid)
  // utime and stime.
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS_PER_SECOND
}

export const payloadOf = (nth: number) => ({
  nth,
  to: 'ada@example.com',
  subject: 'Your order has been shipped',
})

export const apiRequest = (queue: string, path: string, body?: unknown): HttpRequest => ({
  path: `/v1/queues/${queue}${path}`,
  token: TOKEN,
  ...(body === undefined ? {} : { body }),
})
