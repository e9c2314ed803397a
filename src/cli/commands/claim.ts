/** `echomq-edge claim`: takes jobs, each with a lease. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { EXIT } from '../exit-codes.ts'
import { jobJson, payloadText, print } from '../output.ts'
import { formatDuration, parseDuration, parseLimit } from '../values.ts'

type Options = ConnectionOptions & {
  readonly limit?: number
  readonly lease?: number
  readonly wait?: number
  readonly json?: true
}

export function claimCommand(): Command {
  return new Command('claim')
    .summary('take jobs, each with a lease')
    .description(
      'Takes the oldest jobs of a queue and prints each with its id, its token and its payload. Complete a job, or give it back, with its id and token before its lease is over: then somebody else may have it.',
    )
    .argument('<queue>')
    .option('--limit <count>', 'how many at most, up to 100 (default: 1)', parseLimit)
    .option('--lease <duration>', "how long they are held (default: the queue's)", parseDuration)
    .option('--wait <duration>', 'how long to wait for a job, up to 25s (default: not at all)', parseDuration)
    .addOption(urlOption())
    .option('--json', 'print each job as a line of JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when there is no job.

Examples:
  $ echomq-edge claim emails
  $ echomq-edge claim emails --limit 10 --lease 2m --wait 20s --json
  $ echomq-edge claim emails --json | jq -r '"\\(.id) \\(.token)"'`,
    )
    .action(run)
}

async function run(name: string, { limit, lease, wait, ...options }: Options): Promise<void> {
  const jobs = await queueOf(name, options).claim({ limit, leaseMs: lease, waitMs: wait })
  for (const job of jobs) {
    const held = `token ${job.token}  ${formatDuration(job.leaseMs)}`
    print(options.json ? jobJson(job) : `${job.id}  ${held}  ${payloadText(job)}`)
  }
  if (jobs.length > 0) return
  process.exitCode = EXIT.nothing
  if (!options.json) process.stderr.write('There is no job to claim.\n')
}
