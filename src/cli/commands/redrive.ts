/** `echomq-edge redrive`: moves dead letters back to pending. */
import type { Queue, RedriveOptions } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { UsageError } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { bar, showStatus } from '../terminal.ts'
import { parseInstant } from '../values.ts'

type Options = CommonOptions & {
  readonly all?: true
  readonly errorContains?: string
  readonly from?: number
  readonly to?: number
  readonly dryRun?: true
}

/** Jobs that one request reads: enough for speed, few enough for a bar that moves. */
const STEP = 500

export const redriveCommand = defineCommand({
  usage: 'redrive <queue> [id]',
  summary: 'move dead letters back to pending',
  description:
    'Moves dead letters back to pending, with the same id and payload and a fresh budget: one job by its id, all jobs, or the jobs that a filter selects.',
  arguments: { '[id]': 'id of one job' },
  options: [
    option('--all', 'all dead letters'),
    option('--error-contains <text>', 'only jobs whose last error contains this text'),
    option('--from <instant>', 'only jobs that were minted at this instant or later', parseInstant),
    option('--to <instant>', 'only jobs that were minted before this instant', parseInstant),
    option('--dry-run', 'count the jobs and change nothing'),
  ],
  json: 'print the result as JSON',
  notes: 'Shows a progress bar on a terminal. May be stopped and started again at any time.',
  examples: [
    'redrive emails JOB0KHTOWnGLuC',
    'redrive emails --error-contains timeout --dry-run',
    'redrive emails --all',
  ],
  run,
})

async function run(name: string, id: string | undefined, options: Options): Promise<void> {
  const { all, errorContains, from, to, dryRun, json } = options
  const selects = all ?? errorContains ?? from ?? to
  if (id === undefined && selects === undefined)
    throw new UsageError('No job is selected: give the id of one, or --all, or a filter.')
  if (id !== undefined && selects !== undefined)
    throw new UsageError('The id of one job excludes --all and filters: give one or the other.')
  if (all && (errorContains ?? from ?? to) !== undefined)
    throw new UsageError('--all contradicts a filter: give one or the other.')
  if (id !== undefined && dryRun) throw new UsageError('--dry-run needs --all or a filter.')
  const queue = queueOf(name, options)

  if (id !== undefined) {
    await queue.redrive(id)
    return json ? printJson({ id, status: 'pending' }) : print(`${id} pending`)
  }
  const redriven = await redriveAll(queue, { errorContains, from, to, dryRun })
  if (json) printJson({ redriven, dryRun: dryRun ?? false })
  else print(dryRun ? `${redriven} would be redriven` : `${redriven} redriven`)
}

async function redriveAll(queue: Queue<string>, filter: RedriveOptions): Promise<number> {
  const total = (await queue.stats()).counts.dead
  let redriven = 0
  let looked = 0
  let cursor: string | undefined
  let more = true
  while (more) {
    showStatus(`redriving ${bar(Math.min(looked, total), total)}`)
    const answer = await queue.redriveMany({ ...filter, cursor, limit: STEP })
    redriven += answer.redriven
    looked += STEP
    cursor = answer.cursor
    more = answer.more
  }
  showStatus('')
  return redriven
}
