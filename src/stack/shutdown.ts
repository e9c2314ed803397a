/**
 * Ends a program of this folder in good order, whoever asks for it, and in time.
 *
 * Asked by a signal, or by the end of the npm that started it, it stops what it was told to stop and exits with 0.
 * What does not stop in time dies with the process: every child of the stack notices that its parent is gone.
 */

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const STOP_TIMEOUT_MS = 3_500
const PARENT_CHECK_MS = 1_000

/**
 * Calls `stop` when this process is asked to end, then exits. Asking again changes nothing: npm passes on a Ctrl-C
 * that the terminal has sent to everybody already.
 */
export function stopWhenAsked(stop: () => Promise<void>): void {
  let asked = false

  async function shutDown(): Promise<void> {
    if (asked) return
    asked = true
    setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref()
    await stop()
    process.exit(0)
  }

  for (const signal of SIGNALS) process.on(signal, shutDown)
  if (process.env['npm_lifecycle_event'] !== undefined) whenParentEnds(shutDown)
}

/** An npm that is killed passes nothing on; all that shows is that somebody else is the parent now. */
function whenParentEnds(then: () => Promise<void>): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    void then()
  }, PARENT_CHECK_MS)
  timer.unref()
}
