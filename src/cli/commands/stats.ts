/** `echomq-edge stats`: the numbers of a queue. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { printJson, printTable } from '../output.ts'

type Options = ConnectionOptions & { readonly json?: true }

export function statsCommand(): Command {
  return new Command('stats')
    .summary('the numbers of a queue')
    .description('Prints how many jobs a queue has in each state, its counters and its oldest jobs.')
    .argument('<queue>')
    .addOption(urlOption())
    .option('--json', 'print them as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the queue was never used.

Examples:
  $ echomq-edge stats emails
  $ echomq-edge stats emails --json | jq .counts.dead`,
    )
    .action(run)
}

async function run(name: string, options: Options): Promise<void> {
  const stats = await queueOf(name, options).stats()
  if (options.json) return printJson(stats)
  const { counts, completed, failed, paused, oldestPendingAt, nextDueAt, nextLapseAt } = stats
  const rows = {
    ...counts,
    completed,
    failed,
    paused: paused ? 'yes' : 'no',
    oldestPendingAt,
    nextDueAt,
    nextLapseAt,
  }
  printTable(
    Object.entries(rows).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}
