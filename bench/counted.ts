/** A Worker with a Redis and a bridge of its own, where everything is counted: requests, subrequests, commands, bytes. */

import { EchoMQ } from '../src/client/index.ts'
import { createBridge } from '../src/stack/bridge/bridge.ts'
import { startRedis } from '../src/stack/redis-server.ts'
import { type Database, type HostedWorker, hostWorker, type Lab, TOKEN } from './lab.ts'
import { startRelay } from './relay.ts'

export type Counts = {
  /** From the client to the Worker. */
  readonly requests: number
  /** Of these requests and their responses, with headers. */
  readonly bytes: number
  /** From the Worker to Redis. */
  readonly subrequests: number
  readonly subrequestBytes: number
  /** That Redis ran, those inside scripts included. */
  readonly commands: number
  /** How often scripts were called. */
  readonly scripts: number
}

export type Counted = Database & {
  readonly redisUrl: string
  readonly worker: HostedWorker
  readonly client: EchoMQ
  /** Runs something and counts what it causes. */
  count(run: () => Promise<unknown>): Promise<Counts>
  stop(): Promise<void>
}

export async function openCounted({ built }: Pick<Lab, 'built'>): Promise<Counted> {
  await using parts = new AsyncDisposableStack()
  const redis = await startRedis()
  parts.defer(redis.stop)
  const bridge = await createBridge({ redisUrl: redis.url, token: 'bench-counted', testMode: true })
  parts.defer(bridge.stop)
  const behind = await startRelay(bridge.url)
  parts.defer(behind.stop)
  const database = { restUrl: behind.url, restToken: bridge.token }
  const worker = await hostWorker(built, database)
  parts.defer(worker.stop)
  const front = await startRelay(worker.url)
  parts.defer(front.stop)

  let requests = 0
  const client = new EchoMQ({
    url: front.url,
    token: TOKEN,
    fetch(url, init) {
      requests += 1
      return fetch(url, init)
    },
  })
  // The first requests of an isolate do more.
  await client.queue('bench-first').enqueue({})
  await client.queue('bench-first').claim()

  const running = parts.move()
  return {
    ...database,
    redisUrl: redis.url,
    worker,
    client,
    async count(run) {
      await bridge.reset()
      const before = { requests, bytes: front.bytes(), behind: behind.bytes() }
      await run()
      const { total, commands, requests: subrequests } = await bridge.counts()
      return {
        requests: requests - before.requests,
        bytes: front.bytes() - before.bytes,
        subrequests,
        subrequestBytes: behind.bytes() - before.behind,
        commands: total,
        scripts: (commands['evalsha'] ?? 0) + (commands['eval'] ?? 0),
      }
    },
    stop: () => running.disposeAsync(),
  }
}
