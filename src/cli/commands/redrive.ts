/** `echomq-edge redrive`: brings dead jobs back. */
import { Command } from 'commander'
import type { Queue, RedriveOptions } from '../../client/index.ts'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'
import { startProgress } from '../progress.ts'
import { UsageError } from '../usage-error.ts'
import { parseInstant } from '../values.ts'

type Options = ConnectionOptions & {
  readonly all?: true
  readonly errorContains?: string
  readonly from?: number
  readonly to?: number
  readonly dryRun?: true
  readonly json?: true
}

/** Jobs that one request looks at: enough for speed, few enough for a bar that moves. */
const STEP = 500

export function redriveCommand(): Command {
  return new Command('redrive')
    .summary('bring dead jobs back')
    .description(
      'Brings dead jobs back with the same id and payload and a fresh budget of attempts: one job by its id, all, or those that a filter selects.',
    )
    .argument('<queue>')
    .argument('[id]', 'of one job')
    .option('--all', 'every dead job')
    .option('--error-contains <text>', 'those whose last error has this in it')
    .option('--from <instant>', 'those made then or later', parseInstant)
    .option('--to <instant>', 'those made before then', parseInstant)
    .option('--dry-run', 'count them and change nothing')
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Shows a progress bar on a terminal. May be stopped and started again at any time.

Examples:
  $ echomq-edge redrive emails JOB0KHTOWnGLuC
  $ echomq-edge redrive emails --error-contains timeout --dry-run
  $ echomq-edge redrive emails --all`,
    )
    .action(run)
}

async function run(name: string, id: string | undefined, options: Options): Promise<void> {
  const { all, errorContains, from, to, dryRun, json } = options
  const selects = all ?? errorContains ?? from ?? to
  if (id === undefined && selects === undefined)
    throw new UsageError('Which jobs? Give the id of one, or --all, or a filter.')
  if (id !== undefined && selects !== undefined)
    throw new UsageError(
      'The id of one job, and --all or a filter, exclude each other: give one or the other.',
    )
  if (id !== undefined && dryRun) throw new UsageError('--dry-run counts what --all or a filter selects.')
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
  const progress = startProgress('redriving')
  let redriven = 0
  let looked = 0
  let cursor: string | undefined
  for (;;) {
    progress.show(Math.min(looked, total), total)
    const answer = await queue.redriveMany({ ...filter, cursor, limit: STEP })
    redriven += answer.redriven
    looked += STEP
    cursor = answer.cursor
    if (!answer.more) break
  }
  progress.clear()
  return redriven
}
