/**
 * Fires the scheduled handler once a minute, and once at the start: locally nothing else does.
 *
 * Runs never overlap; one that fails is said on stderr and stops nothing.
 */

const PERIOD_MS = 60_000

export type CronTicker = {
  /** No run begins any more; one that goes on is left alone, and what becomes of it is not said. */
  stop(): void
}

export function startCron(run: () => Promise<string>): CronTicker {
  let running = false
  let stopped = false

  function complain(text: string): void {
    if (!stopped) process.stderr.write(`${text}\n`)
  }

  async function tick(): Promise<void> {
    if (running) return
    running = true
    try {
      const outcome = await run()
      if (outcome !== 'ok') complain(`The scheduled handler ended with: ${outcome}.`)
    } catch (error) {
      complain(`The scheduled handler was not run: ${error instanceof Error ? error.message : String(error)}`)
    } finally {
      running = false
    }
  }

  void tick()
  const timer = setInterval(tick, PERIOD_MS)
  return {
    stop() {
      stopped = true
      clearInterval(timer)
    },
  }
}
