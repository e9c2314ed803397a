/**
 * Runs the scheduled handler at the start and once a minute: in local development nothing else does.
 *
 * Runs never overlap. A failed run is reported on stderr and does not stop the next ones.
 */

import { say } from './debian.ts'

const PERIOD_MS = 60_000

export type CronTicker = {
  /** Starts no more runs. A run in progress continues, and its outcome is not reported. */
  stop(): void
}

export function startCron(run: () => Promise<string>): CronTicker {
  let isRunning = false
  let isStopped = false

  async function tick(): Promise<void> {
    if (isRunning) return
    isRunning = true
    const problem = await run().then(
      (outcome) => (outcome === 'ok' ? undefined : `The scheduled handler ended with: ${outcome}.`),
      (error) =>
        `The scheduled handler did not run: ${error instanceof Error ? error.message : String(error)}`,
    )
    isRunning = false
    if (problem !== undefined && !isStopped) say(problem)
  }

  void tick()
  const timer = setInterval(tick, PERIOD_MS)
  return {
    stop() {
      isStopped = true
      clearInterval(timer)
    },
  }
}
