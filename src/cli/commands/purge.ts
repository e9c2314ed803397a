/** `echomq-edge purge`: deletes all jobs of one state. It asks first, or needs `--yes` where nobody can answer. */
import { createInterface } from 'node:readline/promises'
import { Option } from 'commander'
import type { PurgeOptions, Queue } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { UsageError } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { bar, showStatus } from '../terminal.ts'
import { parseLimit } from '../values.ts'

type State = PurgeOptions['state']
type Options = CommonOptions & { readonly state: State; readonly limit?: number; readonly yes?: true }

/** Jobs per request: the API accepts at most 1000. */
const STEP = 1000

export const purgeCommand = defineCommand({
  usage: 'purge <queue>',
  summary: 'delete all jobs of one state for good',
  description: 'Deletes the jobs of one state, the oldest first. Deleted jobs cannot be restored.',
  options: [
    new Option('--state <state>', 'state of the jobs')
      .choices(['pending', 'scheduled', 'dead'])
      .makeOptionMandatory(),
    option('--limit <count>', 'at most this many jobs (default: all)', parseLimit),
    option('--yes', 'do not ask; required where stdin is not a terminal'),
  ],
  json: 'print the result as JSON',
  notes:
    'Asks for the name of the queue before it deletes anything. May be stopped and started again at any time.',
  examples: ['purge emails --state dead', 'purge emails --state dead --limit 1000 --yes'],
  run,
})

async function run(name: string, { state, limit, yes, json, ...options }: Options): Promise<void> {
  const queue = queueOf(name, options)
  const found = (await queue.stats()).counts[state]
  const wanted = Math.min(found, limit ?? found)
  if (!yes) await confirm(name, `Deletes ${wanted} ${state} jobs of ${name} for good.`)
  const removed = await purge(queue, state, limit ?? Number.POSITIVE_INFINITY, wanted)
  if (json) printJson({ queue: name, state, removed })
  else print(`${removed} removed`)
}

/** @throws {UsageError} unless the user types the name of the queue. */
async function confirm(name: string, warning: string): Promise<void> {
  if (!process.stdin.isTTY)
    throw new UsageError('Nobody can confirm this: stdin is not a terminal. Give --yes to delete the jobs.')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await prompt.question(`${warning}\nType the name of the queue to confirm: `)
  prompt.close()
  if (answer.trim() !== name) throw new UsageError('The name does not match. Nothing was deleted.')
}

async function purge(queue: Queue<string>, state: State, limit: number, total: number): Promise<number> {
  let removed = 0
  let more = true
  while (more && removed < limit) {
    showStatus(`purging ${bar(removed, total)}`)
    const answer = await queue.purge({ state, limit: Math.min(STEP, limit - removed) })
    removed += answer.removed
    more = answer.more
  }
  showStatus('')
  return removed
}
