/** `echomq-edge enqueue`: puts one job into a queue, or one for each line of its input. */
import { Command } from 'commander'
import type { EnqueueOptions, EnqueueResult, Queue } from '../../client/index.ts'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { EXIT, exitCodeOf } from '../exit-codes.ts'
import { print, printJson } from '../output.ts'
import { checkJson, readText } from '../payload.ts'
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
Examples:
  $ echomq-edge enqueue emails '{"to":"ada@example.com"}'
  $ echomq-edge enqueue emails @mail.json --delay 5m --key welcome-42
  $ echo '{"to":"ada@example.com"}' | echomq-edge enqueue emails
  $ echomq-edge enqueue emails @mails.ndjson --lines`,
    )
    .action(run)
}

async function run(name: string, argument: string | undefined, options: Options): Promise<void> {
  const queue = queueOf(name, options)
  const read = options.text ? (text: string) => text : checkJson
  const text = await readText(argument)
  if (options.lines) return enqueueLines(queue, text.split(/\r?\n/).filter(Boolean).map(read), options)

  const { id, status } = await queue.enqueue(read(text), jobOptions(options))
  if (options.json) printJson({ id, status })
  else print(`${id} ${status}`)
}

function jobOptions({ delay, runAt, startBy, id, key, keyTtl, maxAttempts }: Options): EnqueueOptions {
  return { delayMs: delay, runAt, startBy, id, idempotencyKey: key, idempotencyTtlMs: keyTtl, maxAttempts }
}

async function enqueueLines(
  queue: Queue<string>,
  payloads: readonly string[],
  options: Options,
): Promise<void> {
  if (options.id !== undefined || options.key !== undefined)
    throw new UsageError('--id and --key are for one job; with --lines each job has its own.')
  const progress = startProgress('enqueued')
  const tally = new Map<string, number>()
  for (let at = 0; at < payloads.length; at += BATCH) {
    const items = payloads.slice(at, at + BATCH).map((payload) => ({ ...jobOptions(options), payload }))
    const results = await queue.enqueueMany(items)
    progress.show(at + items.length, payloads.length)
    for (const result of results) {
      const outcome = 'error' in result ? 'refused' : result.status
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1)
      if ('error' in result) process.exitCode ??= exitCodeOf(result.error.code)
      if (options.json) printJson(lineOf(result))
    }
  }
  progress.clear()
  if (options.json) return
  print([...tally].map(([outcome, count]) => `${count} ${outcome}`).join(', ') || 'nothing to enqueue')
  if (tally.size === 0) process.exitCode = EXIT.nothing
}

function lineOf(result: EnqueueResult): object {
  if (!('error' in result)) return result
  const { code, message, errors } = result.error
  return { id: result.id, error: { code, message, errors } }
}
