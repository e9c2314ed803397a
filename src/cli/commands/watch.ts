/**
 * `echomq-edge watch`: the live numbers of a queue. On a terminal they are redrawn in place, with a bar while the
 * queue drains; elsewhere each look is a line.
 *
 * A look that fails for a reason that may pass is said and not the end. Ctrl-C is the ordinary way to stop.
 */
import { setTimeout } from 'node:timers/promises'
import { Command, InvalidArgumentError, Option } from 'commander'
import { EchoMQError, type Queue, type QueueStats } from '../../client/index.ts'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { causeOf } from '../error-text.ts'
import { print, printJson } from '../output.ts'
import { createScreen } from '../screen.ts'
import { parseDuration } from '../values.ts'
import { createTrend, watchLine, watchScreen } from '../watch-view.ts'

type Options = ConnectionOptions & {
  readonly interval: number
  readonly untilEmpty?: true
  readonly json?: true
}

export function watchCommand(): Command {
  return new Command('watch')
    .summary('live numbers of a queue')
    .description(
      'Shows the numbers of a queue as they change, with its pace and a progress bar while it drains. Stop it with Ctrl-C.',
    )
    .argument('<queue>')
    .addOption(
      new Option('--interval <duration>', 'between two looks, at least 200ms')
        .argParser(parseInterval)
        .default(1000, '1s'),
    )
    .option('--until-empty', 'end with 0 once nothing is pending, active or scheduled')
    .addOption(urlOption())
    .option('--json', 'print each look as a line of JSON')
    .addHelpText(
      'after',
      `
Each look is one request. Where stdout is no terminal it is one line.

Examples:
  $ echomq-edge watch emails
  $ echomq-edge watch emails --until-empty --interval 5s
  $ echomq-edge watch emails --json | jq -c .counts`,
    )
    .action(run)
}

/** Each look is a request that is paid for, and nobody reads faster. */
const MIN_INTERVAL_MS = 200

function parseInterval(text: string): number {
  const ms = parseDuration(text)
  if (ms < MIN_INTERVAL_MS) throw new InvalidArgumentError(`It must be ${MIN_INTERVAL_MS}ms or more.`)
  return ms
}

async function run(name: string, options: Options): Promise<void> {
  const queue = queueOf(name, options)
  const stopped = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort())
  const { signal } = stopped
  const show = options.json ? printJson : showTo(process.stdout)

  while (!signal.aborted) {
    const stats = await look(queue, signal)
    if (stats !== undefined) show(stats)
    if (options.untilEmpty && stats !== undefined && isEmpty(stats)) return
    await setTimeout(options.interval, undefined, { signal }).catch(() => {})
  }
}

const isEmpty = ({ counts }: QueueStats): boolean => counts.pending + counts.active + counts.scheduled === 0

/** The numbers now, or undefined when there are none for the moment. */
async function look(queue: Queue<string>, signal: AbortSignal): Promise<QueueStats | undefined> {
  try {
    return await queue.stats({ signal })
  } catch (error) {
    if (signal.aborted) return undefined
    if (!(error instanceof EchoMQError) || !error.retryable) throw error
    process.stderr.write(`${[error.message, causeOf(error)].filter(Boolean).join('  ')}\n`)
    return undefined
  }
}

function showTo(output: NodeJS.WriteStream): (stats: QueueStats) => void {
  const follow = createTrend()
  const screen = output.isTTY ? createScreen(output) : undefined
  return (stats) => {
    const trend = follow(performance.now(), stats)
    if (screen === undefined) print(watchLine(stats, trend))
    else screen.draw(watchScreen(stats, trend))
  }
}
