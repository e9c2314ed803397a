/**
 * Fires the scheduled handler once a minute, and once at the start: locally nothing else does.
 *
 * Runs never overlap; one that fails is said on stderr and stops nothing.
 */

const PERIOD_MS = 60_000

export type CronTicker = { stop(): void }

export function startCron(run: () => Promise<string>): CronTicker {
  let running = false

  async function tick(): Promise<void> {
    if (running) return
    running = true
    try {
      const outcome = await run()
      if (outcome !== 'ok') say(`The scheduled handler ended with: ${outcome}.`)
    } catch (error) {
      say(`The scheduled handler was not run: ${error instanceof Error ? error.message : String(error)}`)
    } finally {
      running = false
    }
  }

  void tick()
  const timer = setInterval(tick, PERIOD_MS)
  return { stop: () => clearInterval(timer) }
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
