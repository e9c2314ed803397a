/** `echomq-edge queues`: the queues that the token may see, and their numbers. */
import type { QueueStats } from '../../client/index.ts'
import { type CommonOptions, defineCommand } from '../command.ts'
import { listQueues } from '../connection.ts'
import { EXIT } from '../failure.ts'
import { printError, printJson, printTable } from '../output.ts'

export const queuesCommand = defineCommand({
  usage: 'queues',
  summary: 'list the queues and their numbers',
  description: 'Prints the queues that the token may see, each with its number of jobs in each state.',
  json: 'print the numbers of each queue as a line of JSON',
  notes: 'Exits with 3 when there is no queue.',
  examples: ['queues', "queues --json | jq -r 'select(.counts.dead > 0) | .queue'"],
  run,
})

async function run(options: CommonOptions): Promise<void> {
  const queues = await listQueues(options)
  if (queues.length === 0) {
    process.exitCode = EXIT.nothing
    if (!options.json) printError('There is no queue.')
  } else if (options.json) queues.forEach(printJson)
  else printTable(queues.map(rowOf))
}

function rowOf({ queue, counts, paused }: QueueStats): string[] {
  const numbers = Object.entries(counts).map(([state, count]) => `${state} ${count}`)
  return [queue, ...numbers, paused ? 'paused' : '']
}
