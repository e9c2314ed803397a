/**
 * The process that runs the Worker, started and controlled by `worker.ts` over an IPC channel.
 *
 * workerd does not notice when the process that started it is killed. This process does: its channel closes, and it
 * ends workerd and itself.
 */

import { Log, LogLevel, Miniflare, type MiniflareOptions } from 'miniflare'
import { type Front, startFront } from './front.ts'
import { LOCALHOST } from './ports.ts'

export type HostRequest =
  | {
      readonly kind: 'start'
      /** Port of the Worker; 0: any free one. */
      readonly port: number
      readonly options: MiniflareOptions
    }
  | { readonly kind: 'scheduled'; readonly cron: string }

export type HostReply =
  | { readonly kind: 'started'; readonly url: string }
  | { readonly kind: 'ran'; readonly outcome: string }
  | { readonly kind: 'failed'; readonly message: string }

/** miniflare uses the types of `@cloudflare/workers-types`, which this project does not have. */
type ScheduledWorker = { scheduled(event: { cron: string }): Promise<{ outcome: string }> }

let miniflare: Miniflare | undefined
let front: Front | undefined

async function handle(request: HostRequest): Promise<HostReply> {
  if (request.kind === 'start') {
    const started = new Miniflare({
      ...request.options,
      host: LOCALHOST,
      port: 0,
      log: new Log(LogLevel.WARN),
    })
    miniflare = started
    await started.ready
    front = await startFront(request.port, async () => Number((await started.ready).port))
    return { kind: 'started', url: front.url }
  }
  if (miniflare === undefined) throw new Error('The Worker was not started.')
  const worker = (await miniflare.getWorker()) as unknown as ScheduledWorker
  const { outcome } = await worker.scheduled({ cron: request.cron })
  return { kind: 'ran', outcome }
}

// A closed output must not end this process, which would leave workerd behind.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.on('message', async (request: HostRequest) => {
  const reply = await handle(request).catch(
    (error: unknown): HostReply => ({
      kind: 'failed',
      message: error instanceof Error ? error.message : String(error),
    }),
  )
  // The parent may have gone; 'disconnect' handles that.
  process.send?.(reply, undefined, undefined, () => {})
})

process.on('disconnect', async () => {
  front?.close()
  await miniflare?.dispose()
  process.exit()
})
