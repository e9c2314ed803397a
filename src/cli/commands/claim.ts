/** `echomq-edge claim`: claims jobs, each with a lease. */
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { EXIT } from '../failure.ts'
import { jobJson, payloadText, print, printError } from '../output.ts'
import { formatDuration, parseDuration, parseLimit } from '../values.ts'

type Options = CommonOptions & { readonly limit?: number; readonly lease?: number; readonly wait?: number }

export const claimCommand = defineCommand({
  usage: 'claim <queue>',
  summary: 'claim jobs, each with a lease',
  description:
    'Claims the oldest jobs of a queue and prints each with its id, its fencing token and its payload. Complete or return a job, with its id and token, before its lease lapses: then another consumer may claim it.',
  options: [
    option('--limit <count>', 'at most this many jobs, up to 100 (default: 1)', parseLimit),
    option('--lease <duration>', "length of the leases (default: the queue's)", parseDuration),
    option('--wait <duration>', 'how long to wait for a job, up to 60s (default: 0s)', parseDuration),
  ],
  json: 'print each job as a line of JSON',
  notes: 'Exits with 3 when there is no job.',
  examples: [
    'claim emails',
    'claim emails --limit 10 --lease 2m --wait 20s --json',
    `claim emails --json | jq -r '"\\(.id) \\(.token)"'`,
  ],
  run,
})

async function run(name: string, { limit, lease, wait, ...options }: Options): Promise<void> {
  const jobs = await queueOf(name, options).claim({ limit, leaseMs: lease, waitMs: wait })
  for (const job of jobs) {
    const held = `token ${job.token}  ${formatDuration(job.leaseMs)}`
    print(options.json ? jobJson(job) : `${job.id}  ${held}  ${payloadText(job)}`)
  }
  if (jobs.length > 0) return
  process.exitCode = EXIT.nothing
  // A token that may only consume cannot see this.
  const isPaused = await queueOf(name, options)
    .stats()
    .then(
      ({ paused }) => paused,
      () => false,
    )
  if (isPaused) printError('The queue is paused: claims return no job.')
  else if (!options.json) printError('There is no job to claim.')
}
