/**
 * `echomq-edge watch`: the live numbers of a queue. On a terminal they are redrawn in place, with a bar while the
 * backlog shrinks; elsewhere each reading is a line.
 *
 * A retryable failure is printed and does not end the command. Ctrl-C is the ordinary way to stop.
 */
import { setTimeout } from 'node:timers/promises'
import { InvalidArgumentError } from 'commander'
import { EchoMQError, type Queue, type QueueStats } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { causeOf } from '../failure.ts'
import { plain, print, printError, printJson } from '../output.ts'
import { createScreen } from '../terminal.ts'
import { parseDuration } from '../values.ts'
import { createTrend, watchLine, watchScreen } from '../watch-view.ts'

type Options = CommonOptions & { readonly interval: number; readonly untilEmpty?: true }

export const watchCommand = defineCommand({
  usage: 'watch <queue>',
  summary: 'show live numbers of a queue',
  description:
    'Shows the numbers of a queue as they change, with the pace and a progress bar while the backlog shrinks. Stop it with Ctrl-C.',
  options: [
    option('--interval <duration>', 'between two readings, at least 200ms', parseInterval).default(
      1000,
      '1s',
    ),
    option('--until-empty', 'exit with 0 once no job is pending, active or scheduled'),
  ],
  json: 'print each reading as a line of JSON',
  notes: 'Each reading is one request. Where stdout is not a terminal, it is one line.',
  examples: [
    'watch emails',
    'watch emails --until-empty --interval 5s',
    'watch emails --json | jq -c .counts',
  ],
  run,
})

/** Each reading is a billed request, and nobody reads faster. */
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
    const stats = await read(queue, signal)
    if (stats !== undefined) show(stats)
    if (options.untilEmpty && stats !== undefined && isEmpty(stats)) return
    await setTimeout(options.interval, undefined, { signal }).catch(() => {})
  }
}

function isEmpty({ counts }: QueueStats): boolean {
  return counts.pending + counts.active + counts.scheduled === 0
}

/** The current numbers, or undefined when they cannot be read at the moment. */
async function read(queue: Queue<string>, signal: AbortSignal): Promise<QueueStats | undefined> {
  try {
    return await queue.stats({ signal })
  } catch (error) {
    if (signal.aborted) return undefined
    if (!(error instanceof EchoMQError) || !error.retryable) throw error
    printError(plain([error.message, causeOf(error)].filter(Boolean).join('  ')))
    return undefined
  }
}

function showTo(output: NodeJS.WriteStream): (stats: QueueStats) => void {
  const follow = createTrend()
  const draw = output.isTTY ? createScreen(output) : undefined
  return (stats) => {
    const trend = follow(performance.now(), stats)
    if (draw === undefined) print(watchLine(stats, trend))
    else draw(watchScreen(stats, trend))
  }
}
