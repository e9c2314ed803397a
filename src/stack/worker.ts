/** Runs the Worker in the real workerd, on 127.0.0.1. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MiniflareOptions } from 'miniflare'
import { guardedWorker } from './local-hosts.ts'
import type { HostReply, HostRequest } from './worker-host.ts'
import type { BuiltWorker } from './wrangler.ts'

export type WorkerOptions = {
  readonly built: BuiltWorker
  /** 0: any free one. */
  readonly port: number
  /** Secrets and variables. They override the variables of wrangler.toml. */
  readonly bindings: Readonly<Record<string, string>>
  /** Suppresses the log of the Worker. */
  readonly quiet: boolean
}

export type RunningWorker = {
  readonly url: string
  /** Resolves when the Worker has ended for any reason. */
  readonly ended: Promise<void>
  /** Runs the scheduled handler and returns its outcome in the words of the runtime: `ok`, `exception`, ... */
  runScheduled(cron: string): Promise<string>
  /** May be called more than once. */
  stop(): Promise<void>
}

/** The name of the Worker among those of the runtime. */
const NAME = 'echomq-edge'

/** How much of a suppressed log is shown when the Worker does not start. */
const SHOWN_CHARACTERS = 2_000

/** The name of a module that the build does not have. */
const GUARD = 'local-hosts.js'

/** Beside this file, with the same extension: `.ts` in a clone, `.js` in the package. */
const HOST = fileURLToPath(new URL(`worker-host${extname(import.meta.url)}`, import.meta.url))

/**
 * Starts the Worker and waits until it accepts requests.
 *
 * @throws {Error} when workerd does not start or rejects the code.
 */
export async function startWorker({ built, port, bindings, quiet }: WorkerOptions): Promise<RunningWorker> {
  // The log of the Worker goes to stderr: stdout is for machines to read. In its own session it receives no Ctrl-C, so
  // that this process can stop everything in order.
  const child = fork(HOST, [], {
    stdio: ['ignore', quiet ? 'ignore' : process.stderr, quiet ? 'pipe' : process.stderr, 'ipc'],
    serialization: 'advanced',
    execArgv: [],
    detached: true,
  })
  const exited = once(child, 'exit')
  let suppressed = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    suppressed = (suppressed + chunk.toString()).slice(-SHOWN_CHARACTERS)
  })

  /** Sends one request at a time: replies carry no id. */
  let previous: Promise<unknown> = Promise.resolve()
  function ask(request: HostRequest): Promise<HostReply> {
    const answer = previous.then(async () => {
      child.send(request)
      const gone = exited.then(() => {
        throw new Error('The process of the Worker has ended.')
      })
      const [reply] = await Promise.race([once(child, 'message'), gone])
      return reply as HostReply
    })
    previous = answer.catch(() => undefined)
    return answer
  }

  async function stop(): Promise<void> {
    if (child.connected) child.disconnect()
    await exited
  }

  const started = await ask({
    kind: 'start',
    port,
    options: miniflareOptions(built, bindings),
  })
  if (started.kind !== 'started') {
    await stop()
    const reason = started.kind === 'failed' ? started.message : ''
    throw new Error(`The Worker does not start. ${reason}\n${suppressed}`.trim())
  }

  return {
    url: started.url,
    ended: exited.then(() => {}),
    async runScheduled(cron) {
      const reply = await ask({ kind: 'scheduled', cron })
      if (reply.kind === 'failed') throw new Error(reply.message)
      return reply.kind === 'ran' ? reply.outcome : reply.kind
    },
    stop,
  }
}

const objectBindings = ({ durableObjects }: BuiltWorker) =>
  Object.fromEntries(
    Object.entries(durableObjects).map(([binding, exportName]) => [
      binding,
      { type: 'durable-object' as const, worker: NAME, exportName },
    ]),
  )

/** How miniflare runs a built Worker. `bench/` uses it too, without the front. */
export function miniflareOptions(built: BuiltWorker, bindings: WorkerOptions['bindings']) {
  return {
    // Together: no network lookups, no files in the home folder, no usage reports.
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: NAME,
          compatibilityDate: built.compatibilityDate,
          compatibilityFlags: [...built.compatibilityFlags],
          manifest: {
            mainModule: GUARD,
            modules: {
              ...built.modules,
              [GUARD]: { type: 'esm', contents: guardedWorker(built.mainModule) },
            },
          },
          exports: Object.fromEntries(
            Object.values(built.durableObjects).map((name) => [
              name,
              { type: 'durable-object' as const, storage: 'sqlite' as const },
            ]),
          ),
          env: {
            ...toBindings({ ...built.vars, ...bindings }),
            ...assetsBinding(built),
            ...objectBindings(built),
          },
          ...(built.assets && {
            assets: {
              directory: built.assets.directory,
              hasUserWorker: true,
              runWorkerFirst: ['/*', '!/docs/*', '!/third-party-licences.txt'],
            },
          }),
        },
      },
    ],
  } satisfies MiniflareOptions
}

const assetsBinding = ({ assets }: BuiltWorker): Record<string, { type: 'assets' }> =>
  assets === undefined ? {} : { [assets.binding]: { type: 'assets' } }

function toBindings(values: BuiltWorker['vars']) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'string' ? { type: 'text' as const, value } : { type: 'json' as const, value },
    ]),
  )
}
