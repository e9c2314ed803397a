/** The server's clock as this isolate knows it: the difference from our own, read anew when it may be wrong. */
import type { RedisPort, Reply } from './redis.ts'
import { integer, list } from './replies.ts'
import { run } from './scripts.ts'

/** How long the difference is believed. */
const BELIEVED_MS = 30 * 60_000

/** A reply to TIME, in ms. */
export function readTime(reply: Reply | undefined): number {
  const [seconds = 0, micros = 0] = list(reply).map(integer)
  return seconds * 1000 + Math.floor(micros / 1000)
}

export function createServerClock(port: RedisPort, now: () => number) {
  let offsetMs = 0
  let readAt = Number.NEGATIVE_INFINITY
  let seenAt = Number.NEGATIVE_INFINITY

  /** Takes the server's time from an answer to a request sent at `askedAt` of our clock: we are never behind it. */
  function learn(serverMs: number, askedAt: number): void {
    offsetMs = serverMs - askedAt
    readAt = askedAt
  }

  return {
    learn,
    /** The server's time, ms. */
    now: (): number => now() + offsetMs,
    /** Asks the server when the difference is unknown or old, or when our clock was set back. */
    async check(): Promise<void> {
      const askedAt = now()
      if (askedAt < seenAt || askedAt - readAt > BELIEVED_MS) {
        const [time] = await run(port, [['TIME']])
        learn(readTime(time), askedAt)
      }
      seenAt = askedAt
    },
  }
}
