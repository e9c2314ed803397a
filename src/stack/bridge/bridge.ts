/**
 * The REST bridge: replaces Upstash in front of a local Redis, on 127.0.0.1, for development and tests only. The Worker
 * and the client never import it; they use it over HTTP, as they use the service.
 */

import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type HttpBindings, serve } from '@hono/node-server'
import { Hono } from 'hono'
import { type Cleanup, startWithCleanup } from '../cleanup.ts'
import { LOCALHOST } from '../ports.ts'
import { connectResp, type Resp } from '../resp.ts'
import { createApi, type Tokens } from './api.ts'
import { localCallersOnly } from './callers.ts'
import { createExecutor, type Replica } from './execute.ts'
import { type CommandTable, parseCommandTable } from './policy.ts'
import { createTestMode, type TestMode } from './test-mode.ts'

export type BridgeOptions = Tokens & {
  readonly redisUrl: string
  /** Default: a free one. */
  readonly port?: number
  /** The largest command, and the largest reply to one, in bytes. Default: 10 MiB, as on the service. */
  readonly maxRequestBytes?: number
  readonly testMode?: boolean
}

export type Bridge = {
  readonly url: string
  readonly port: number
  readonly token: string
  /** Closes every connection. May be called more than once. */
  stop(): Promise<void>
}

export type TestBridge = Bridge & TestMode

const MAX_REQUEST_BYTES = 10 * 1024 * 1024

/**
 * Connects to Redis and listens.
 *
 * @throws {RedisUnreachable} when Redis does not answer now. Later it may go away and come back.
 *
 * @example
 *   const bridge = await createBridge({ redisUrl: redis.url, token: 'secret' })
 *   await fetch(`${bridge.url}/set/greeting/hello`, { headers: { authorization: 'Bearer secret' } })
 */
export function createBridge(options: BridgeOptions & { readonly testMode: true }): Promise<TestBridge>
export function createBridge(options: BridgeOptions): Promise<Bridge>
export function createBridge(options: BridgeOptions): Promise<Bridge | TestBridge> {
  return startWithCleanup((parts) => startBridge(options, parts))
}

async function startBridge(options: BridgeOptions, parts: Cleanup): Promise<Bridge | TestBridge> {
  const { redisUrl, token, readOnlyToken, maxRequestBytes = MAX_REQUEST_BYTES } = options
  const primary = await connectResp(redisUrl)
  parts.defer(primary.close)
  const table = await readCommandTable(primary)
  let replica: () => Replica | undefined = () => undefined
  const executor = createExecutor({ primary, table, maxRequestBytes, replica: () => replica() })

  const app = new Hono<{ Bindings: HttpBindings }>().use(localCallersOnly)
  let testMode: TestMode | undefined
  if (options.testMode) {
    const { mode, ...more } = await createTestMode({ redisUrl, primary, token, version: executor.version })
    parts.defer(more.close)
    testMode = mode
    replica = more.replica
    app.route('/', more.app)
  }
  app.route('/', createApi(executor, { token, readOnlyToken }))

  const server = await listen(app, options.port ?? 0)
  parts.defer(() => close(server))
  const { port } = server.address() as AddressInfo

  return {
    ...testMode,
    url: `http://${LOCALHOST}:${port}`,
    port,
    token,
    stop: parts.run,
  }
}

async function readCommandTable(resp: Resp): Promise<CommandTable> {
  const [reply = null] = await resp.run([{ name: 'COMMAND', args: [] }])
  return parseCommandTable(reply)
}

function listen(app: Hono<{ Bindings: HttpBindings }>, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const options = { fetch: app.fetch, hostname: LOCALHOST, port, overrideGlobalObjects: false }
    const server = serve(options, () => resolve(server)) as Server
    // Never close an idle connection: a client could send its next request at that very moment.
    server.keepAliveTimeout = 0
    server.once('error', reject)
  })
}

function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  return closed
}
