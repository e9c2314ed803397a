/** Polls instead of sleeping: resolves as soon as a check answers something, and fails when it never does. */
import { setTimeout } from 'node:timers/promises'

const POLL_MS = 5

/** What `check` answered first that is neither undefined nor false. */
export async function until<T>(check: () => Promise<T | undefined | false>, withinMs = 5_000): Promise<T> {
  const endsAt = Date.now() + withinMs
  for (;;) {
    const found = await check()
    if (found !== undefined && found !== false) return found
    if (Date.now() > endsAt) throw new Error(`did not happen within ${withinMs} ms`)
    await setTimeout(POLL_MS)
  }
}
