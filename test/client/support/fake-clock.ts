/** A clock that stands still until a test moves it. */
import type { Clock } from '../../../src/client/index.ts'

export type FakeClock = Clock & {
  /** Moves time on, running each timer at its own instant, and what follows from it before the next. */
  advance(ms: number): Promise<void>
  /** Lets everything happen that needs no time. */
  settle(): Promise<void>
  /** Moves time on until a check holds; fails when it does not within so long. */
  advanceUntil(check: () => boolean, withinMs?: number): Promise<void>
  /** Moves time on without running any timer, as a machine does that is busy or asleep. */
  freeze(ms: number): void
  /** What `random` answers. */
  chance: number
  /** How many timers are armed. */
  readonly timers: number
}

const START_MS = Date.UTC(2026, 0, 1)

export function createFakeClock(): FakeClock {
  let now = 0
  const timers = new Set<{ readonly at: number; readonly run: () => void }>()

  // Answers pass through streams of the platform, which take some turns of the event loop but no time.
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
