/** `echomq-edge enqueue`: puts one job into a queue, or one for each line of its input. */
import { Command } from 'commander'
import type { EnqueueOptions, EnqueueResult, Queue } from '../../client/index.ts'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { EXIT, exitCodeOf } from '../exit-codes.ts'
import { print, printJson } from '../output.ts'
import { jsonOf, readText } from '../payload.ts'
import { startProgress } from '../progress.ts'
import { UsageError } from '../usage-error.ts'
import { parseCount, parseDuration, parseInstant } from '../values.ts'

type Options = ConnectionOptions & {
  readonly text?: true
  readonly lines?: true
  readonly delay?: number
  readonly runAt?: number
  readonly startBy?: number
  readonly id?: string
  readonly key?: string
  readonly keyTtl?: number
  readonly maxAttempts?: number
  readonly json?: true
}

/** What one request takes. */
const BATCH = 1000
/** Lines that are named when they are no JSON. */
const MAX_NAMED = 10

export function enqueueCommand(): Command {
  return new Command('enqueue')
    .summary('put a job into a queue')
    .description(
      'Puts a job into a queue and prints its id. The payload is JSON: an argument, @file, or stdin. It is stored as it is written.',
    )
    .argument('<queue>')
    .argument('[payload]', 'JSON, @file, or - for stdin (default: stdin)')
    .option('--text', 'the payload is text, not JSON')
    .option('--lines', 'one job for each line of the payload; empty lines are skipped')
    .option('--delay <duration>', 'how long to wait before the job may run', parseDuration)
    .option('--run-at <instant>', 'before which instant it does not run', parseInstant)
    .option(
      '--start-by <instant>',
      'if nobody has started it by then, it goes to the dead letters',
      parseInstant,
    )
    .option('--key <key>', 'idempotency key: the same key makes no second job')
    .option('--key-ttl <duration>', 'how long the key is remembered (default: 10m)', parseDuration)
    .option('--max-attempts <count>', 'how often it may be started; 0: no limit', parseCount)
    .option('--id <id>', 'a job id of your own, instead of a minted one')
    .addOption(urlOption())
    .option('--json', 'print the result as JSON, one line for each job')
    .addHelpText(
      'after',
      `
With --lines nothing is sent when any line is no JSON. A line that the API refuses is named, and the others are enqueued.

Examples:
  $ echomq-edge enqueue emails '{"to":"ada@example.com"}'
  $ echomq-edge enqueue emails @mail.json --delay 5m --key welcome-42
  $ echo '{"to":"ada@example.com"}' | echomq-edge enqueue emails
  $ echomq-edge enqueue emails @mails.ndjson --lines`,
    )
    .action(run)
}

async function run(name: string, argument: string | undefined, options: Options): Promise<void> {
  const queue = queueOf(name, options, options.text ? 'text' : 'json')
  const read = options.text ? (text: string) => text : jsonOf
  const text = await readText(argument)
  if (options.lines) return enqueueLines(queue, linesOf(text, read), options)

  const payload = read(text)
  if (payload === undefined)
    throw new UsageError('The payload is no JSON. With --text it is stored as the text that it is.')
  const { id, status } = await queue.enqueue(payload, jobOptions(options))
  if (options.json) printJson({ id, status })
  else print(`${id} ${status}`)
}

function jobOptions({ delay, runAt, startBy, id, key, keyTtl, maxAttempts }: Options): EnqueueOptions {
  return { delayMs: delay, runAt, startBy, id, idempotencyKey: key, idempotencyTtlMs: keyTtl, maxAttempts }
}

type Line = { readonly line: number; readonly payload: string }

/** @throws {UsageError} that names the lines that are no JSON, before anything is sent. */
function linesOf(text: string, read: (line: string) => string | undefined): Line[] {
  const lines = text.split(/\r?\n/).map((line, nth) => ({ line: nth + 1, text: line, payload: read(line) }))
  const wrong = lines.filter((line) => line.text && line.payload === undefined).map(({ line }) => line)
  if (wrong.length > 0) {
    const named = `${wrong.slice(0, MAX_NAMED).join(', ')}${wrong.length > MAX_NAMED ? ', ...' : ''}`
    const which = wrong.length === 1 ? `Line ${named} is` : `Lines ${named} are`
    throw new UsageError(`${which} no JSON. Nothing was enqueued. With --text each line is stored as it is.`)
  }
  return lines.flatMap(({ line, text, payload }) =>
    text && payload !== undefined ? [{ line, payload }] : [],
  )
}

async function enqueueLines(queue: Queue<string>, lines: readonly Line[], options: Options): Promise<void> {
  if (options.id !== undefined || options.key !== undefined)
    throw new UsageError('--id and --key are for one job; with --lines each job has its own.')
  const progress = startProgress('enqueued')
  const tally = new Map<string, number>()
  for (let at = 0; at < lines.length; at += BATCH) {
    const batch = lines.slice(at, at + BATCH)
    const items = batch.map(({ payload }) => ({ ...jobOptions(options), payload }))
    const results = await queue.enqueueMany(items).catch((error: unknown) => {
      progress.clear()
      if (at > 0) process.stderr.write(`Lines before line ${batch[0]?.line} were sent, none from there on.\n`)
      throw error
    })
    progress.show(at + items.length, lines.length)
    results.forEach((result, nth) => {
      const outcome = 'error' in result ? 'refused' : result.status
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1)
      const line = batch[nth]?.line
      if ('error' in result) process.exitCode ??= exitCodeOf(result.error.code)
      if (options.json) printJson(lineOf(result, line))
      else if ('error' in result) process.stderr.write(`line ${line}: ${result.error.message}\n`)
    })
  }
  progress.clear()
  if (options.json) return
  print([...tally].map(([outcome, count]) => `${count} ${outcome}`).join(', ') || 'nothing to enqueue')
  if (tally.size === 0) process.exitCode = EXIT.nothing
}

function lineOf(result: EnqueueResult, line: number | undefined): object {
  if (!('error' in result)) return result
  const { code, message, errors } = result.error
  return { line, id: result.id, error: { code, message, errors } }
}
