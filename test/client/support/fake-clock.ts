/** A clock that stands still until a test advances it. */
import type { Clock } from '../../../src/client/index.ts'

export type FakeClock = Clock & {
  /** Advances time, runs each timer at its own instant, and settles before the next. */
  advance(ms: number): Promise<void>
  /** Lets everything finish that needs no time. */
  settle(): Promise<void>
  /** Advances time until a check holds; fails when it does not hold within this time. */
  advanceUntil(check: () => boolean, withinMs?: number): Promise<void>
  /** Advances time until a promise settles, and returns its value. */
  during<T>(promise: Promise<T>): Promise<T>
  /** Advances time without running a timer, like a machine that is busy or asleep. */
  freeze(ms: number): void
  /** The value that `random` returns. */
  chance: number
  /** How many timers are set. */
  readonly timers: number
}

const START_MS = Date.UTC(2026, 0, 1)

export function createFakeClock(): FakeClock {
  let now = 0
  const timers = new Set<{ readonly at: number; readonly run: () => void }>()

  // Responses pass through streams of the platform, which take some turns of the event loop but no time.
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 6; turn++) await new Promise((resolve) => setImmediate(resolve))
  }

  const advanceTo = async (endAt: number): Promise<void> => {
    await settle()
    for (;;) {
      const [next] = [...timers].sort((a, b) => a.at - b.at)
      if (next === undefined || next.at > endAt) break
      timers.delete(next)
      now = Math.max(now, next.at)
      next.run()
      await settle()
    }
    now = Math.max(now, endAt)
  }

  return {
    now: () => now,
    epochMs: () => START_MS + Math.floor(now),
    random() {
      return this.chance
    },
    after(ms, run) {
      const timer = { at: now + Math.max(ms, 0), run }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    advance: (ms) => advanceTo(now + ms),
    settle,
    async during(promise) {
      let isDone = false
      const done = promise.finally(() => {
        isDone = true
      })
      done.catch(() => {})
      await this.advanceUntil(() => isDone)
      return done
    },
    async advanceUntil(check, withinMs = 600_000) {
      const endAt = now + withinMs
      await settle()
      while (!check()) {
        const [next] = [...timers].sort((a, b) => a.at - b.at)
        if (next === undefined || next.at > endAt) throw new Error(`did not happen within ${withinMs} ms`)
        await advanceTo(next.at)
      }
    },
    freeze(ms) {
      now += ms
    },
    chance: 0.5,
    get timers() {
      return timers.size
    },
  }
}
