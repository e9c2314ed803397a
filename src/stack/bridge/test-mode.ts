/**
 * The test mode of the bridge: it counts the commands that Redis runs and makes requests fail on demand, through
 * methods and over HTTP (`test-control.ts`). Outside of the test mode none of this exists.
 */

import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { connectResp, type Resp } from '../resp.ts'
import { type Counts, createCounter } from './counter.ts'
import type { Replica } from './execute.ts'
import { createFaults, type FaultControls } from './faults.ts'
import { type FrozenReplica, freezeReplica } from './frozen-replica.ts'
import { createTestControl } from './test-control.ts'

export type BridgeCounts = Counts & {
  /** HTTP requests received, including those that were hung up on. */
  readonly requests: number
}

export type TestMode = FaultControls & {
  /** Returns the counts since the start or the last reset, complete up to now. */
  counts(): Promise<BridgeCounts>
  /** Sets the counts to zero and ends every fault. */
  reset(): Promise<void>
  /** From now on reads return the data of this moment, unless the caller's sync token knows of a later write. */
  staleReads(on: boolean): Promise<void>
  /** Empties Redis's script cache before each request. */
  flushScripts(on: boolean): void
}

export type TestModeParts = {
  readonly mode: TestMode
  /** Runs before the API. */
  readonly app: Hono<{ Bindings: HttpBindings }>
  readonly replica: () => Replica | undefined
  close(): void
}

export type TestModeOptions = {
  readonly redisUrl: string
  readonly primary: Resp
  /** The number of the last write. */
  readonly version: () => number
  readonly token: string
}

export async function createTestMode(options: TestModeOptions): Promise<TestModeParts> {
  const { redisUrl, primary, version, token } = options
  // A separate connection, whose commands are not counted.
  const side = await connectResp(redisUrl)
  let frozen: (FrozenReplica & Replica) | undefined
  const counter = await createCounter(
    redisUrl,
    (address) => address === primary.address() || address === frozen?.resp.address(),
    side,
  )
  let requests = 0
  let flushing = false

  const { middleware, clear, ...controls } = createFaults()
  const mode: TestMode = {
    ...controls,
    counts: async () => ({ ...(await counter.counts()), requests }),
    async reset() {
      clear()
      flushing = false
      await mode.staleReads(false)
      await counter.reset()
      requests = 0
    },
    async staleReads(on) {
      const old = frozen
      frozen = undefined
      await old?.remove()
      if (!on) return
      const replica = await freezeReplica(redisUrl, side)
      // The commands of the connect are reported before the connection counts, and so are not counted.
      await counter.catchUp()
      frozen = { ...replica, version: version() }
    },
    flushScripts(on) {
      flushing = on
    },
  }

  const app = new Hono<{ Bindings: HttpBindings }>()
  app.route('/__test', createTestControl(mode, token))
  app.use(async (_c, next) => {
    requests += 1
    await next()
  })
  app.use(middleware)
  app.use(async (_c, next) => {
    if (flushing) await side.run([{ name: 'SCRIPT', args: ['FLUSH'] }])
    await next()
  })

  return {
    mode,
    app,
    replica: () => frozen,
    close() {
      frozen?.resp.close()
      counter.close()
      side.close()
    },
  }
}
