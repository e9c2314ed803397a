/**
 * Workers in one real workerd that call each other: the deployed code of the queue, and others.
 */
import { Log, LogLevel, Miniflare, type MiniflareOptions } from 'miniflare'
import type { BuiltWorker } from '../../../src/stack/wrangler.ts'

export type Worker = MiniflareOptions['workers'][number]
type Bindings = NonNullable<Worker['config']['env']>

/** The part of miniflare's Fetcher that the tests use: its own type needs the types of Workers. */
type Fetcher = { fetch(url: string, init?: RequestInit): Promise<Response> }

export function workerOf(
  name: string,
  built: Pick<BuiltWorker, 'mainModule' | 'modules' | 'compatibilityDate' | 'compatibilityFlags'>,
  env: Bindings,
): Worker {
  const { mainModule, modules, compatibilityDate, compatibilityFlags } = built
  return {
    config: {
      name,
      compatibilityDate,
      compatibilityFlags: [...compatibilityFlags],
      manifest: { mainModule, modules: { ...modules } },
      env,
    },
  }
}

/** The secrets of the queue's Worker. */
export function secretsOf(bridge: { readonly url: string; readonly token: string }): Bindings {
  return {
    UPSTASH_REDIS_REST_URL: { type: 'text', value: bridge.url },
    UPSTASH_REDIS_REST_TOKEN: { type: 'text', value: bridge.token },
  }
}

export type RunningWorkers = {
  /** Where the first of them listens. */
  readonly port: number
  fetch(worker: string, path: string, init?: RequestInit): Promise<Response>
  stop(): Promise<void>
}

export async function startWorkers(workers: [Worker, ...Worker[]]): Promise<RunningWorkers> {
  const miniflare = new Miniflare({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    // What the queue logs of a Redis that fails on purpose is no news.
    log: new Log(LogLevel.NONE),
    handleStructuredLogs: () => {},
    workers,
  })
  const { port } = await miniflare.ready
  return {
    port: Number(port),
    async fetch(worker, path, init) {
      const fetcher = (await miniflare.getWorker(worker)) as unknown as Fetcher
      return fetcher.fetch(`http://worker${path}`, init)
    },
    stop: () => miniflare.dispose(),
  }
}
