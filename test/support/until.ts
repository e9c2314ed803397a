/** Polls instead of sleeping. */
import { setTimeout } from 'node:timers/promises'

const POLL_MS = 2

/** Returns the first result of `check` that is neither undefined nor false. Throws when there is none in time. */
export async function until<T>(check: () => Promise<T | undefined | false>, withinMs = 10_000): Promise<T> {
  const endsAt = performance.now() + withinMs
  for (;;) {
    const found = await check()
    if (found !== undefined && found !== false) return found
    if (performance.now() > endsAt) throw new Error(`did not happen within ${withinMs} ms`)
    await setTimeout(POLL_MS)
  }
}
