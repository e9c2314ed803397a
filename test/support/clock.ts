/** The clocks of the tests: one that a test moves by hand, and the one of the Redis server. */
import type { RedisPort } from '../../src/queue/redis.ts'
import { integer, list } from '../../src/queue/replies.ts'
import { until } from './until.ts'

export type ManualClock = {
  /** Epoch ms. Pass it where the code under test takes a clock. */
  now(): number
  advance(ms: number): void
}

/** A clock that stands still until a test moves it. */
export function manualClock(startMs = Date.now()): ManualClock {
  let now = startMs
  return {
    now: () => now,
    advance(ms) {
      now += ms
    },
  }
}

/** The server's time, whole epoch ms. */
export async function serverNow(port: RedisPort): Promise<number> {
  const [time] = await port.send([['TIME']])
  const [seconds = 0, micros = 0] = list(time).map(integer)
  return seconds * 1000 + Math.floor(micros / 1000)
}

/** Waits until the server's clock has reached an instant. */
export async function untilServer(port: RedisPort, instant: number): Promise<void> {
  await until(async () => (await serverNow(port)) >= instant)
}
