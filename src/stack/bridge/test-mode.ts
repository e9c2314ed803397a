/**
 * The bridge's test mode: it counts what Redis runs, and makes things go wrong on demand.
 *
 * Everything is there twice: as a method, and over HTTP (`test-control.ts`). Outside of the test mode none of it
 * exists.
 */

import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { connectResp, type Resp } from '../resp.ts'
import { type Counts, createCounter } from './counter.ts'
import type { Replica } from './execute.ts'
import { type CannedAnswer, createFaults, type Target } from './faults.ts'
import { type FrozenReplica, freezeReplica } from './frozen-replica.ts'
import { createTestControl } from './test-control.ts'

export type BridgeCounts = Counts & {
  /** HTTP requests that came in, also those that were hung up on. */
  readonly requests: number
}

export type TestMode = {
  /** What has been counted since the start or the last reset, complete up to now. */
  counts(): Promise<BridgeCounts>
  /** Sets the counts to zero and takes back every fault. */
  reset(): Promise<void>
  /** Executes the next requests, then closes the connection instead of answering. */
  dropReply(target?: Target): void
  /** Closes the connection of the next requests without executing them. */
  hangUp(target?: Target): void
  /** Answers the next requests without executing them. */
  answer(answer: CannedAnswer, target?: Target): void
  /** Lets the next requests wait first. */
  delay(ms: number, target?: Target): void
  /** From now on reads see the data as it is now, unless the caller's sync token knows of a later write. */
  staleReads(on: boolean): Promise<void>
  /** Empties Redis's script cache before each request. */
  flushScripts(on: boolean): void
}

export type TestModeParts = {
  readonly mode: TestMode
  /** Goes before the API. */
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
  // Housekeeping has a connection of its own, so that it is not counted.
  const side = await connectResp(redisUrl)
  const faults = createFaults()
  let frozen: (FrozenReplica & Replica) | undefined
  const counter = await createCounter(
    redisUrl,
    (address) => address === primary.address() || address === frozen?.resp.address(),
    side,
  )
  let requests = 0
  let flushing = false

  const mode: TestMode = {
    counts: async () => ({ ...(await counter.counts()), requests }),
    async reset() {
      faults.clear()
      flushing = false
      await mode.staleReads(false)
      await counter.reset()
      requests = 0
    },
    dropReply: faults.dropReply,
    hangUp: faults.hangUp,
    answer: faults.answer,
    delay: faults.delay,
    async staleReads(on) {
      const old = frozen
      frozen = undefined
      await old?.remove()
      if (!on) return
      const replica = await freezeReplica(redisUrl, side)
      // What it took to connect is not counted: it has been reported before the connection counts.
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
  app.use(faults.middleware)
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
