/** `echomq-edge schedule`: moves a scheduled job to another instant, or runs it now. */
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf, sendWith } from '../connection.ts'
import { UsageError } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { parseDuration, parseInstant } from '../values.ts'

type Options = CommonOptions & {
  readonly runAt?: number
  readonly delay?: number
  readonly now?: true
}

export const scheduleCommand = defineCommand({
  usage: 'schedule <queue> <id>',
  summary: 'move a scheduled job to another instant, or run it now',
  description: 'Changes when a scheduled job becomes pending.',
  options: [
    option('--run-at <instant>', 'earliest instant at which the job may run', parseInstant),
    option('--delay <duration>', 'delay from now', parseDuration),
    option('--now', 'the job becomes pending at once'),
  ],
  json: 'print the result as JSON',
  notes: 'Exits with 3 when the job no longer exists, with 4 when it is not scheduled.',
  examples: ['schedule emails JOB0KHTOWnGLuC --now', 'schedule emails JOB0KHTOWnGLuC --delay 2h'],
  run,
})

async function run(
  queueName: string,
  id: string,
  { runAt, delay, now, json, ...options }: Options,
): Promise<void> {
  const delayMs = now ? 0 : delay
  if ([runAt, delay, now].filter((value) => value !== undefined).length !== 1)
    throw new UsageError('Give one of --run-at, --delay and --now.')
  const { name } = queueOf(queueName, options)
  const path = `/v1/queues/${name}/jobs/${encodeURIComponent(id)}/schedule`
  const { status } = await sendWith<{ status: string }>(options, 'PUT', path, {
    runAt: runAt === undefined ? undefined : new Date(runAt).toISOString(),
    delayMs,
  })
  if (json) printJson({ id, status })
  else print(`${id} ${status}`)
}
