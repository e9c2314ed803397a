/** `echomq-edge enqueue`: enqueues one job, or one job per line of the input. */
import type { EnqueueOptions, EnqueueResult, Queue } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { EXIT, exitCodeOf, UsageError } from '../failure.ts'
import { plain, print, printError, printJson } from '../output.ts'
import { jsonOf, readText } from '../payload.ts'
import { bar, showStatus } from '../terminal.ts'
import { parseCount, parseDuration, parseInstant } from '../values.ts'

type Options = CommonOptions & {
  readonly file?: string
  readonly text?: true
  readonly lines?: true
  readonly delay?: number
  readonly runAt?: number
  readonly startBy?: number
  readonly id?: string
  readonly key?: string
  readonly keyTtl?: number
  readonly maxAttempts?: number
}

/** No deployment accepts a larger request. */
const MAX_PAYLOAD_MIB = 10
/** All lines are read before the first is sent. */
const MAX_LINES_MIB = 256
/** Jobs per request: the API accepts at most 1000. */
const STEP = 1000
/** At most this many malformed lines are named. */
const MAX_NAMED = 10

export const enqueueCommand = defineCommand({
  usage: 'enqueue <queue> [payload]',
  summary: 'enqueue a job',
  description:
    'Enqueues a job and prints its id. The payload is JSON: an argument, a file, or stdin. It is stored exactly as it is written.',
  arguments: { '[payload]': 'JSON, or - for stdin (default: stdin)' },
  options: [
    option('--file <path>', 'read the payload from this file'),
    option('--text', 'the payload is text, not JSON'),
    option('--lines', 'one job per line of the payload; empty lines are skipped'),
    option('--delay <duration>', 'delay before the job may run', parseDuration),
    option('--run-at <instant>', 'earliest instant at which the job may run', parseInstant),
    option(
      '--start-by <instant>',
      'a job not started by this instant goes to the dead letters',
      parseInstant,
    ),
    option('--key <key>', 'idempotency key: a repeat of the key creates no second job'),
    option('--key-ttl <duration>', 'how long the key is remembered (default: 10m)', parseDuration),
    option('--max-attempts <count>', 'budget: how often the job may be started; 0: no limit', parseCount),
    option('--id <id>', 'id of the job, instead of a minted one'),
  ],
  json: 'print the result as JSON, one line per job',
  notes:
    'With --lines, nothing is sent when a line is not JSON. A line that the API rejects is named, and the others are\nenqueued.',
  examples: [
    `enqueue emails '{"to":"ada@example.com"}'`,
    'enqueue emails --file mail.json --delay 5m --key welcome-42',
    'enqueue emails < mail.json',
    'enqueue emails --file mails.ndjson --lines',
  ],
  run,
})

async function run(name: string, argument: string | undefined, options: Options): Promise<void> {
  const queue = queueOf(name, options, options.text ? 'text' : 'json')
  const read = options.text ? (text: string) => text : jsonOf
  const { file, lines } = options
  const text = await readText({ argument, file, maxMib: lines ? MAX_LINES_MIB : MAX_PAYLOAD_MIB })
  if (lines) return enqueueLines(queue, linesOf(text, read), options)

  const payload = read(text)
  if (payload === undefined)
    throw new UsageError('The payload is not JSON. To store it as text, give --text.')
  const { id, status } = await queue.enqueue(payload, jobOptions(options))
  if (options.json) printJson({ id, status })
  else print(`${id} ${status}`)
}

function jobOptions({ delay, runAt, startBy, id, key, keyTtl, maxAttempts }: Options): EnqueueOptions {
  return { delayMs: delay, runAt, startBy, id, idempotencyKey: key, idempotencyTtlMs: keyTtl, maxAttempts }
}

type Line = { readonly line: number; readonly payload: string }

/** @throws {UsageError} that names the lines that are not JSON, before anything is sent. */
function linesOf(text: string, read: (line: string) => string | undefined): Line[] {
  const lines = text.split(/\r?\n/).map((line, nth) => ({ line: nth + 1, text: line, payload: read(line) }))
  const wrong = lines.filter((line) => line.text && line.payload === undefined).map(({ line }) => line)
  if (wrong.length > 0) {
    const named = `${wrong.slice(0, MAX_NAMED).join(', ')}${wrong.length > MAX_NAMED ? ', ...' : ''}`
    const which = wrong.length === 1 ? `Line ${named} is` : `Lines ${named} are`
    throw new UsageError(`${which} not JSON. Nothing was enqueued. To store each line as text, give --text.`)
  }
  return lines.flatMap(({ line, text, payload }) =>
    text && payload !== undefined ? [{ line, payload }] : [],
  )
}

async function enqueueLines(queue: Queue<string>, lines: readonly Line[], options: Options): Promise<void> {
  if (options.id !== undefined || options.key !== undefined)
    throw new UsageError('--id and --key are for one job and exclude --lines.')
  const tally = new Map<string, number>()
  for (let at = 0; at < lines.length; at += STEP) {
    const batch = lines.slice(at, at + STEP)
    const items = batch.map(({ payload }) => ({ ...jobOptions(options), payload }))
    const results = await queue.enqueueMany(items).catch((error: unknown) => {
      showStatus('')
      if (at > 0) printError(`The lines before line ${batch[0]?.line} were sent, and none after them.`)
      throw error
    })
    showStatus(`enqueued ${bar(at + items.length, lines.length)}`)
    results.forEach((result, nth) => {
      const outcome = 'error' in result ? 'refused' : result.status
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1)
      const line = batch[nth]?.line
      if ('error' in result) process.exitCode ??= exitCodeOf(result.error)
      if (options.json) printJson(lineOf(result, line))
      else if ('error' in result) printError(plain(`line ${line}: ${result.error.message}`))
    })
  }
  showStatus('')
  if (options.json) return
  print([...tally].map(([outcome, count]) => `${count} ${outcome}`).join(', ') || 'nothing to enqueue')
  if (tally.size === 0) process.exitCode = EXIT.nothing
}

function lineOf(result: EnqueueResult, line: number | undefined): object {
  if (!('error' in result)) return result
  const { code, message, errors } = result.error
  return { line, error: { code, message, errors } }
}
