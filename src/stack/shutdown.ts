/**
 * Ends a program in order when a signal asks for it, or when the npm that started it has ended. Exits with 0; a stop
 * that hangs is cut off. Every child of the stack ends when it sees that its parent is gone.
 */

const STOP_TIMEOUT_MS = 3_500
const PARENT_CHECK_MS = 1_000

/** Calls `stop` once when this process is asked to end, then exits. npm repeats a Ctrl-C that the terminal has sent. */
export function stopWhenAsked(stop: () => Promise<void>): void {
  let isStopping = false

  async function shutDown(): Promise<void> {
    if (isStopping) return
    isStopping = true
    setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref()
    await stop()
    process.exit(0)
  }

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, shutDown)
  if (process.env['npm_lifecycle_event'] === undefined) return
  // An npm that is killed passes no signal on. The only trace is that this process has another parent.
  const parent = process.ppid
  setInterval(() => process.ppid !== parent && void shutDown(), PARENT_CHECK_MS).unref()
}
