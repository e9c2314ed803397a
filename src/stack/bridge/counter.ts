/**
 * Counts the commands that Redis runs for the bridge, including the commands that scripts call.
 *
 * Redis reports them (MONITOR). It reports a script first and the commands that the script calls directly after it, so
 * those belong to the connection of the line before. Redis does not report administrative commands.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Resp } from '../resp.ts'

export type Counts = {
  /** All commands except the bridge's own MULTI and EXEC. */
  readonly total: number
  /** How often each command ran, by its lower-case name. */
  readonly commands: Readonly<Record<string, number>>
}

export type Counter = {
  /** Waits until every command that Redis has run by now is counted. */
  catchUp(): Promise<void>
  counts(): Promise<Counts>
  reset(): Promise<void>
  close(): void
}

/** The bridge adds these around a transaction; no caller has sent them. */
const WRAPPING = new Set(['multi', 'exec'])

const REMIND_AFTER_MS = 100
const MAX_MARKERS = 50
const RECONNECT_AFTER_MS = 50

/** `isCounted`: whether the connection with this address counts. `side`: a connection that does not, for the markers. */
export async function createCounter(
  redisUrl: string,
  isCounted: (address: string) => boolean,
  side: Resp,
): Promise<Counter> {
  const commands = new Map<string, number>()
  const awaited = new Map<string, () => void>()
  let ours = false

  const monitor = await new Redis(redisUrl, {
    protocol: 2,
    lazyConnect: true,
    disableClientInfo: true,
    retryStrategy: () => RECONNECT_AFTER_MS,
  }).monitor()
  monitor.on('error', () => {})
  monitor.on('monitor', (_time: string, [command = '', argument = '']: string[], source: string) => {
    if (source !== 'lua') ours = isCounted(source)
    const name = command.toLowerCase()
    if (ours && !WRAPPING.has(name)) commands.set(name, (commands.get(name) ?? 0) + 1)
    if (name === 'echo') awaited.get(argument)?.()
  })

  /**
   * Sends a marker, which Redis reports after all earlier commands. Repeats it while no report comes: after a restart
   * of Redis the connections may not be back yet.
   */
  async function catchUp(): Promise<void> {
    const marker = randomUUID()
    const reported = new Promise<true>((resolve) => awaited.set(marker, () => resolve(true)))
    try {
      for (let sent = 0; sent < MAX_MARKERS; sent += 1) {
        await side.run([{ name: 'ECHO', args: [marker] }]).catch(() => undefined)
        if (await Promise.race([reported, setTimeout(REMIND_AFTER_MS, false, { ref: false })])) return
      }
      throw new Error('Redis reports nothing to MONITOR.')
    } finally {
      awaited.delete(marker)
    }
  }

  return {
    catchUp,
    async counts() {
      await catchUp()
      const total = [...commands.values()].reduce((sum, count) => sum + count, 0)
      return { total, commands: Object.fromEntries(commands) }
    },
    async reset() {
      await catchUp()
      commands.clear()
    },
    close: () => monitor.disconnect(),
  }
}
