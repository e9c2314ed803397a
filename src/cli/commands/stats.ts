/** `echomq-edge stats`: the numbers of a queue. */
import { type CommonOptions, defineCommand } from '../command.ts'
import { queueOf } from '../connection.ts'
import { printJson, printTable } from '../output.ts'

export const statsCommand = defineCommand({
  usage: 'stats <queue>',
  summary: 'show the numbers of a queue',
  description: 'Prints how many jobs a queue has in each state, its counters and its oldest jobs.',
  json: 'print them as JSON',
  notes: 'Exits with 3 when the queue was never used.',
  examples: ['stats emails', 'stats emails --json | jq .counts.dead'],
  run,
})

async function run(name: string, options: CommonOptions): Promise<void> {
  const stats = await queueOf(name, options).stats()
  if (options.json) return printJson(stats)
  const { counts, completed, failed, oldestPendingAt, nextDueAt, nextLapseAt } = stats
  const paused = stats.paused ? 'yes' : 'no'
  const rows = { ...counts, completed, failed, paused, oldestPendingAt, nextDueAt, nextLapseAt }
  printTable(
    Object.entries(rows).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}
