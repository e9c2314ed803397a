/** `echomq-edge jobs`: lists the jobs in one state, or shows one job with all its fields. */
import { Option } from 'commander'
import type { JobState, JobsOptions, JobView } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { EXIT } from '../failure.ts'
import { jobJson, payloadText, print, printError, printTable } from '../output.ts'
import { parseInstant, parseLimit } from '../values.ts'

type Options = CommonOptions & {
  readonly state: JobState
  readonly oldest?: true
  readonly limit: number
  readonly from?: number
  readonly to?: number
  readonly payload?: true
}

const MAX_PAGE = 200

export const jobsCommand = defineCommand({
  usage: 'jobs <queue> [id]',
  summary: 'list jobs, or show one',
  description:
    'Prints the jobs in one state, newest first. With an id, prints one job with its payload and its errors.',
  arguments: { '[id]': 'id of one job' },
  options: [
    new Option('--state <state>', 'state of the jobs')
      .choices(['pending', 'active', 'scheduled', 'dead'])
      .default('pending'),
    option('--oldest', 'oldest first; of active and scheduled jobs, the next to lapse or to be due first'),
    option('--limit <count>', 'at most this many jobs', parseLimit).default(50),
    option('--from <instant>', 'only pending or dead jobs minted at this instant or later', parseInstant),
    option('--to <instant>', 'only pending or dead jobs minted before this instant', parseInstant),
    option('--payload', 'print payloads too'),
  ],
  json: 'print each job as a line of JSON',
  notes: 'Exits with 3 when the queue was never used, or no job has the id.',
  examples: [
    'jobs emails --state dead',
    'jobs emails JOB0KHTOWnGLuC',
    'jobs emails --state dead --from 2026-11-29T00:00:00Z --limit 1000 --payload --json',
  ],
  run,
})

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
  // An empty list does not show whether the queue exists; the stats fail if it does not.
  if (count === 0) await queue.stats()
  printTable(rows)
}

function rowOf(job: JobView<string>): string[] {
  const when = job.runAt ?? job.leaseUntil ?? job.enqueuedAt
  const rest = [payloadText(job), job.lastError].filter(Boolean)
  return [job.id, job.state, `attempts ${job.attempts}`, when, rest.join('  ')]
}

async function showJob(name: string, id: string, options: Options): Promise<void> {
  const job = await queueOf(name, options).job(id)
  if (job === undefined) {
    process.exitCode = EXIT.nothing
    printError('There is no such job.')
    return
  }
  if (options.json) return print(jobJson(job))
  const { history = [], payload: _, text: __, base64: ___, ...fields } = job
  printTable([
    ...Object.entries(fields).map(([field, value]) => [field, String(value)]),
    ...history.map(({ attempt, at, error }) => [`attempt ${attempt}`, `${at}  ${error}`]),
    ['payload', payloadText(job)],
  ])
}
