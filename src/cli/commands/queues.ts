/** `echomq-edge queues`: the queues that the token may see, and their numbers. */
import { Command } from 'commander'
import type { QueueStats } from '../../client/index.ts'
import { type ConnectionOptions, transportTo, urlOption } from '../connection.ts'
import { EXIT } from '../exit-codes.ts'
import { printJson, printTable } from '../output.ts'

type Options = ConnectionOptions & { readonly json?: true }
type Page = { readonly queues: readonly QueueStats[]; readonly cursor?: string }

export function queuesCommand(): Command {
  return new Command('queues')
    .summary('the queues and their numbers')
    .description('Prints the queues that the token may see, each with how many jobs it has in each state.')
    .addOption(urlOption())
    .option('--json', 'print the numbers of each queue as a line of JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when there is none.

Examples:
  $ echomq-edge queues
  $ echomq-edge queues --json | jq -r 'select(.counts.dead > 0) | .queue'`,
    )
    .action(run)
}

async function run(options: Options): Promise<void> {
  const { repeat, send } = transportTo(options)
  const queues: QueueStats[] = []
  let cursor: string | undefined
  do {
    const query: string = cursor === undefined ? '' : `?${new URLSearchParams({ cursor })}`
    const page = await repeat(() => send<Page>(`/v1/queues${query}`, 'queues'))
    queues.push(...page.queues)
    cursor = page.cursor
  } while (cursor !== undefined)

  if (queues.length === 0) {
    process.exitCode = EXIT.nothing
    if (!options.json) process.stderr.write('There is no queue.\n')
  } else if (options.json) queues.forEach(printJson)
  else printTable(queues.map(rowOf))
}

function rowOf({ queue, counts, paused }: QueueStats): string[] {
  const numbers = Object.entries(counts).map(([state, count]) => `${state} ${count}`)
  return [queue, ...numbers, paused ? 'paused' : '']
}
