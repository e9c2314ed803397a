/** The parts of something that runs: each is ended in the reverse order of its start. `AsyncDisposableStack` needs Node 24. */

type End = () => void | Promise<void>

export type Cleanup = {
  defer(end: End): void
  /** Ends all parts. May be called more than once. */
  run(): Promise<void>
}

/** Calls `start`. When it fails, ends what it has deferred. */
export async function startWithCleanup<Started>(
  start: (cleanup: Cleanup) => Promise<Started>,
): Promise<Started> {
  const ends: End[] = []
  let running: Promise<void> | undefined
  async function endAll(): Promise<void> {
    const failures: unknown[] = []
    for (const end of ends.reverse()) {
      try {
        await end()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
  const cleanup: Cleanup = {
    defer: (end) => void ends.push(end),
    run() {
      running ??= endAll()
      return running
    },
  }
  try {
    return await start(cleanup)
  } catch (error) {
    await cleanup.run()
    throw error
  }
}
