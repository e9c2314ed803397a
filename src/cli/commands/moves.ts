/** `echomq-edge complete`, `retry`, `fail`, `release` and `extend`: the moves of a claimed job. */
import type { JobRef, Queue } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf } from '../connection.ts'
import { EXIT } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { formatDuration, parseCount, parseDuration } from '../values.ts'

type Options = CommonOptions & {
  readonly error?: string
  readonly delay?: number
  readonly maxAttempts?: number
  readonly lease: number
}

type Moved = { readonly status: string; readonly leaseMs?: number }

type Move = Omit<Parameters<typeof defineCommand>[0], 'usage' | 'json' | 'run'> & {
  readonly move: (queue: Queue<string>, job: JobRef, options: Options) => Promise<Moved>
}

const ERROR = option('--error <text>', 'what went wrong')
const REFUSALS = 'Exits with 3 when the job no longer exists, with 4 when the token is stale.'

const MOVES: Readonly<Record<string, Move>> = {
  complete: {
    summary: 'report that a claimed job is done',
    description: 'Completes a job, which deletes it.',
    notes: REFUSALS.replace('exists', 'exists (it may have been completed before)'),
    examples: ['complete emails JOB0KHTOWnGLuC 1'],
    move: async (queue, job) => ({ status: await queue.complete(job) }),
  },
  retry: {
    summary: 'return a claimed job to be retried',
    description:
      'Returns a job to be retried. It prints `scheduled`, or `dead` when the budget of the job is used up.',
    options: [
      ERROR,
      option('--delay <duration>', "delay before the retry (default: the queue's backoff)", parseDuration),
      option('--max-attempts <count>', "budget (default: the job's, then the queue's)", parseCount),
    ],
    notes: 'Exits with 4 when the token is stale.',
    examples: [
      "retry emails JOB0KHTOWnGLuC 1 --error 'mail server busy'",
      'retry emails JOB0KHTOWnGLuC 1 --delay 10m',
    ],
    move: async (queue, job, { error, delay, maxAttempts }) => ({
      status: await queue.retry(job, { error, delayMs: delay, maxAttempts }),
    }),
  },
  fail: {
    summary: 'move a claimed job to the dead letters',
    description: 'Moves a job to the dead letters. It is not retried until it is redriven.',
    options: [ERROR],
    notes: REFUSALS,
    examples: ["fail emails JOB0KHTOWnGLuC 1 --error 'no such address'"],
    async move(queue, job, { error }) {
      await queue.fail(job, { error })
      return { status: 'dead' }
    },
  },
  release: {
    summary: 'return a claimed job, untried',
    description: 'Returns a job as if it had not been claimed: it uses no attempt.',
    options: [option('--delay <duration>', 'delay before the job may run (default: none)', parseDuration)],
    notes: REFUSALS,
    examples: ['release emails JOB0KHTOWnGLuC 1'],
    async move(queue, job, { delay }) {
      await queue.release(job, { delayMs: delay })
      return { status: delay ? 'scheduled' : 'pending' }
    },
  },
  extend: {
    summary: 'extend the lease of a claimed job',
    description: 'Makes the lease of a job end this long from now.',
    options: [
      option('--lease <duration>', 'length of the lease, up to 24h', parseDuration).makeOptionMandatory(),
    ],
    notes: REFUSALS,
    examples: ['extend emails JOB0KHTOWnGLuC 1 --lease 10m'],
    move: async (queue, job, { lease }) => ({
      status: 'extended',
      leaseMs: await queue.extend(job, lease),
    }),
  },
}

export const MOVE_COMMANDS = Object.entries(MOVES).map(([name, { move, ...shape }]) =>
  defineCommand({
    ...shape,
    usage: `${name} <queue> <id> <token>`,
    json: 'print the result as JSON',
    async run(queue: string, id: string, token: number, options: Options) {
      const moved = await move(queueOf(queue, options), { id, token }, options)
      if (moved.status === 'gone') process.exitCode = EXIT.nothing
      const lease = moved.leaseMs === undefined ? '' : `  ${formatDuration(moved.leaseMs)}`
      if (options.json) printJson({ id, ...moved })
      else print(`${id} ${moved.status}${lease}`)
    },
  }),
)
