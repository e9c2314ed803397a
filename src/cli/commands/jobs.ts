/** `echomq-edge jobs`: the jobs in one state, or one job with everything that is known of it. */
import { Command, Option } from 'commander'
import type { JobState, JobsOptions, JobView } from '../../client/index.ts'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { EXIT } from '../exit-codes.ts'
import { jobJson, payloadText, plain, print, printTable } from '../output.ts'
import { parseInstant, parseLimit } from '../values.ts'

type Options = ConnectionOptions & {
  readonly state: JobState
  readonly oldest?: true
  readonly limit: number
  readonly from?: number
  readonly to?: number
  readonly payload?: true
  readonly json?: true
}

const MAX_PAGE = 200

export function jobsCommand(): Command {
  return new Command('jobs')
    .summary('look at jobs')
    .description(
      'Prints the jobs in one state, newest first; or, with an id, one job with its payload and its errors.',
    )
    .argument('<queue>')
    .argument('[id]', 'of one job')
    .addOption(
      new Option('--state <state>', 'which jobs')
        .choices(['pending', 'active', 'scheduled', 'dead'])
        .default('pending'),
    )
    .option('--oldest', 'oldest first; of scheduled and active ones: what is due or lapses soonest')
    .option('--limit <count>', 'how many at most', parseLimit, 50)
    .option('--from <instant>', 'made then or later; in pending and dead only', parseInstant)
    .option('--to <instant>', 'made before then; in pending and dead only', parseInstant)
    .option('--payload', 'with their payloads')
    .addOption(urlOption())
    .option('--json', 'print each job as a line of JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the queue was never used, or there is no job with the id.

Examples:
  $ echomq-edge jobs emails --state dead
  $ echomq-edge jobs emails JOB0KHTOWnGLuC
  $ echomq-edge jobs emails --state dead --from 2026-11-29T00:00:00Z --limit 1000 --payload --json`,
    )
    .action(run)
}

async function run(name: string, id: string | undefined, options: Options): Promise<void> {
  if (id !== undefined) return showJob(name, id, options)
  const { state, oldest, limit, from, to, payload, json } = options
  const filter: JobsOptions = {
    ...{ state, from, to, payload },
    ...{ order: oldest ? 'oldest' : 'newest', limit: Math.min(limit, MAX_PAGE) },
  }
  const rows: string[][] = []
  let count = 0
  const queue = queueOf(name, options)
  for await (const job of queue.jobs(filter)) {
    if (json) print(jobJson(job))
    else rows.push(rowOf(job))
    if (++count === limit) break
  }
  // Nothing in a queue, and no such queue, are not the same: of the second the stats say so.
  if (count === 0) await queue.stats()
  printTable(rows)
}

function rowOf(job: JobView<string>): string[] {
  const when = job.runAt ?? job.leaseUntil ?? job.enqueuedAt
  const rest = [payloadText(job), plain(job.lastError ?? '')].filter(Boolean)
  return [job.id, job.state, `attempts ${job.attempts}`, when, rest.join('  ')]
}

async function showJob(name: string, id: string, options: Options): Promise<void> {
  const job = await queueOf(name, options).job(id)
  if (job === undefined) {
    process.exitCode = EXIT.nothing
    process.stderr.write('There is no such job.\n')
    return
  }
  if (options.json) return print(jobJson(job))
  const { history = [], payload: _, text: __, base64: ___, ...fields } = job
  printTable([
    ...Object.entries(fields).map(([field, value]) => [field, plain(String(value))]),
    ...history.map(({ attempt, at, error }) => [`attempt ${attempt}`, `${at}  ${plain(error)}`]),
    ['payload', payloadText(job)],
  ])
}
