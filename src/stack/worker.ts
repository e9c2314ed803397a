/**
 * The Worker in the real workerd, on 127.0.0.1.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MiniflareOptions } from 'miniflare'
import type { HostReply, HostRequest } from './worker-host.ts'
import type { BuiltWorker } from './wrangler.ts'

export type WorkerOptions = {
  readonly built: BuiltWorker
  /** 0: any free one. */
  readonly port: number
  /** Secrets and variables; they win over those of wrangler.toml. */
  readonly bindings: Readonly<Record<string, string>>
  /** Keeps back what the Worker logs. */
  readonly quiet: boolean
}

export type RunningWorker = {
  readonly url: string
  /** Resolves when it has ended, whether it was stopped or not. */
  readonly ended: Promise<void>
  /** Fires the scheduled handler and says how it ended: `ok`, or what the runtime calls it otherwise. */
  runScheduled(cron: string): Promise<string>
  /** May be called more than once. */
  stop(): Promise<void>
}

/** How much of what is kept back is shown when the Worker does not start. */
const SHOWN_CHARACTERS = 2_000

/** Beside this file, and built like this file where it is. */
const HOST = fileURLToPath(new URL(`worker-host${extname(import.meta.url)}`, import.meta.url))

/**
 * Starts the Worker and waits until it takes requests.
 *
 * @throws {Error} when workerd does not start or refuses the code.
 */
export async function startWorker({ built, port, bindings, quiet }: WorkerOptions): Promise<RunningWorker> {
  // The Worker's logs go to our stderr: our stdout is for machines to read. In a session of its own it hears no
  // Ctrl-C, so that we can end things in order.
  const child = fork(HOST, [], {
    stdio: ['ignore', quiet ? 'ignore' : process.stderr, quiet ? 'pipe' : process.stderr, 'ipc'],
    serialization: 'advanced',
    execArgv: [],
    detached: true,
  })
  const exited = once(child, 'exit')
  let keptBack = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    keptBack = (keptBack + chunk.toString()).slice(-SHOWN_CHARACTERS)
  })

  /** One request after the other: replies carry no number. */
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
    throw new Error(`The Worker does not start. ${reason}\n${keptBack}`.trim())
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

/** How miniflare runs a built Worker. Also for measurements, which need the Worker without what is in front of it. */
export function miniflareOptions(built: BuiltWorker, bindings: WorkerOptions['bindings']) {
  return {
    // Together: nothing is looked up on the network, written to the home folder or reported.
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: 'echomq-edge',
          compatibilityDate: built.compatibilityDate,
          compatibilityFlags: [...built.compatibilityFlags],
          manifest: { mainModule: built.mainModule, modules: { ...built.modules } },
          env: { ...toBindings({ ...built.vars, ...bindings }), ...assetsBinding(built) },
          ...(built.assets && { assets: { directory: built.assets.directory, hasUserWorker: true } }),
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
