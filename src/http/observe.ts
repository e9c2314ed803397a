/** Observing: stats, pages of jobs, single jobs and metrics. Payloads and error texts need `observe:payload`. */
import * as z from 'zod'
import { mintedAt } from '../protocol/ids.ts'
import { JsonText } from '../protocol/json-text.ts'
import { isQueueName, queueMatches } from '../protocol/keys.ts'
import { DEFAULT_PAGE, MAX_PAGE } from '../protocol/limits.ts'
import { JOB_STATES } from '../protocol/states.ts'
import type { Scope } from '../protocol/tokens.ts'
import type { PageCursor, QueueStats } from '../queue/observe.ts'
import { allows, type Grant } from './auth.ts'
import { storedJobText } from './jobs-json.ts'
import { metricsText } from './metrics.ts'
import { ProblemError } from './problem.ts'
import { type Call, ok, route, success } from './route.ts'
import {
  as,
  cursorOf,
  digits,
  idFromCursor,
  idToCursor,
  instantParameter,
  iso,
  jobId,
  nextCursor,
  optionalIso,
  payloadMembers,
} from './schemas.ts'

export const settingsResponse = z
  .object({
    maxAttempts: z.int().describe('Retry budget of jobs without their own. 0: no limit.'),
    backoff: z
      .object({ baseMs: z.int(), maxMs: z.int() })
      .describe('Maximum delay after attempt n: `baseMs` x 2^(n-1), at most `maxMs`.'),
    leaseMs: z.int().describe('Lease of claims without `leaseMs`.'),
    maxActive: z.int().describe('Maximum number of active jobs. 0: no limit.'),
    maxPending: z
      .int()
      .describe('Maximum number of pending jobs. A full queue rejects new jobs. 0: no limit.'),
  })
  .meta({ id: 'Settings', description: 'The settings in force.' })

const statsResponse = z
  .object({
    queue: z.string(),
    counts: z
      .object({ pending: z.int(), active: z.int(), scheduled: z.int(), dead: z.int() })
      .describe('Jobs by state.'),
    oldestPendingAt: z.iso.datetime().optional().describe('Mint time of the oldest pending job.'),
    nextDueAt: z.iso.datetime().optional().describe('When the next scheduled job is due.'),
    nextLapseAt: z.iso.datetime().optional().describe('When the next lease runs out.'),
    paused: z.boolean(),
    completed: z.int().describe('How many jobs were completed, ever.'),
    failed: z.int().describe('How many jobs moved to dead, ever.'),
    ghosts: z.int().describe('How many ids without a job were removed, ever.'),
    settings: settingsResponse,
  })
  .meta({ id: 'QueueStats', description: 'The stats of a queue.' })

const jobResponse = z
  .object({
    id: jobId,
    queue: z.string(),
    state: z.enum(JOB_STATES),
    attempts: z.int().describe('How often the job was claimed: the live fencing token.'),
    enqueuedAt: z.iso.datetime().describe('The mint time of its id.'),
    runAt: z.iso.datetime().optional().describe('When the job is due. Only if scheduled.'),
    leaseUntil: z.iso.datetime().optional().describe('When the lease runs out. Only if active.'),
    maxAttempts: z.int().optional().describe('The own retry budget of the job.'),
    lapses: z.int().optional().describe('How many leases lapsed since the job was enqueued or redriven.'),
    startBy: z.iso.datetime().optional().describe('When the job expires, unless a consumer starts it.'),
    lastError: z.string().optional().describe('The last error. Needs `observe:payload`.'),
    history: z
      .array(z.object({ attempt: z.int(), at: z.iso.datetime(), error: z.string() }))
      .optional()
      .describe('The last five failures, if there are any. Needs `observe:payload`.'),
    ...payloadMembers,
  })
  .meta({ id: 'Job', description: 'A job. Payload and error texts need `observe:payload`.' })

const flag = z.enum(['true', 'false']).transform((word) => word === 'true')
const payloadParameter = flag.meta({
  description:
    'Whether to return payloads. Default: true for one job if the token may see it, false for a list. `true` without `observe:payload` returns 403.',
  override: { type: 'string', enum: ['true', 'false'] },
})

/** Stats as the API writes them. */
export function statsBody({ known: _, oldestPending, nextDueMs, nextLapseMs, ...stats }: QueueStats): object {
  return {
    ...stats,
    oldestPendingAt: oldestPending === undefined ? undefined : iso(mintedAt(oldestPending)),
    nextDueAt: optionalIso(nextDueMs),
    nextLapseAt: optionalIso(nextLapseMs),
  }
}

const encodeCursor = ({ id, score, seen }: PageCursor): string => `${score}:${seen}:${idToCursor(id)}`

function decodeCursor(text: string): PageCursor | undefined {
  const [score = '', seen = '', marked = '', ...rest] = text.split(':')
  const id = idFromCursor(marked)
  const isSound =
    rest.length === 0 &&
    /^[\d.e+-]{1,32}$/.test(score) &&
    Number.isFinite(Number(score)) &&
    /^\d{1,9}$/.test(seen)
  return isSound && id !== undefined ? { id, score, seen: Number(seen) } : undefined
}

const pageLimit = digits(1, MAX_PAGE, DEFAULT_PAGE).describe('The maximum number of entries.')

const sees = (grant: Grant, queue: string, scope: Scope): boolean => allows(grant, scope, queue)

/** Whether a response contains payloads. Throws if the request asks for payloads that the token may not see. */
function payloadWish(grant: Grant, queue: string, asked: boolean | undefined, otherwise: boolean): boolean {
  const may = sees(grant, queue, 'observe:payload')
  if (asked === true && !may)
    throw new ProblemError('forbidden', 'The token may not see payloads: it lacks the scope observe:payload.')
  return may && (asked ?? otherwise)
}

/** The queues that a caller may see, in byte order: the registry and the queues of `EMQ_QUEUES`. */
async function visibleQueues({
  database,
  settings,
  grant,
}: Pick<Call, 'database' | 'settings' | 'grant'>): Promise<string[]> {
  const names = new Set([...(await database.registry.names()), ...settings.queues])
  return [...names].filter((name) => grant.queues.some((pattern) => queueMatches(pattern, name))).sort()
}

/** The stats of the readable queues. A queue with a key of the wrong type is left out, so that the list still works. */
async function readableStats(
  { database }: Pick<Call, 'database'>,
  queues: readonly string[],
): Promise<QueueStats[]> {
  const { readable, unreadable } = await database.registry.stats(queues)
  for (const queue of unreadable)
    console.error(`queue ${queue} is left out: one of its keys has the wrong type`)
  return readable
}

export const observeRoutes = [
  route({
    method: 'GET',
    path: '/v1/queues',
    operationId: 'listQueues',
    summary: 'List queues with their stats',
    scope: 'observe',
    description:
      'Returns the queues that the token may see, in byte order of their names. A queue that only other clients have used is not listed.',
    query: z.strictObject({
      cursor: cursorOf((text) => (isQueueName(text) ? text : undefined)),
      limit: pageLimit.optional(),
    }),
    responses: success(
      'One page, and a cursor if there is more',
      z.object({ queues: z.array(statsResponse), cursor: nextCursor }),
    ),
    handle: async (call) => {
      const { cursor, limit = DEFAULT_PAGE } = call.query
      const names = (await visibleQueues(call)).filter((name) => cursor === undefined || name > cursor)
      const page = names.slice(0, limit)
      const stats = await readableStats(call, page)
      return ok({ queues: stats.map(statsBody), cursor: names.length > limit ? page.at(-1) : undefined })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{queue}',
    operationId: 'stats',
    summary: 'Read the counts, ages and settings of a queue',
    description: 'A queue that was never used returns 404.',
    scope: 'observe',
    responses: success('The stats', statsResponse),
    errors: ['not_found'],
    handle: async ({ queue }) => {
      const stats = await queue.stats()
      if (!stats.known) throw new ProblemError('not_found', 'This queue does not exist: it was never used.')
      return ok(statsBody(stats))
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{queue}/jobs',
    operationId: 'listJobs',
    summary: 'List the jobs of one state',
    description:
      'Pending and dead jobs are in mint order, active jobs in the order of their lease deadlines, scheduled jobs in the order of their run-at. A job that moves while you read pages can appear twice or not at all.',
    scope: 'observe',
    query: z
      .strictObject({
        state: z.enum(JOB_STATES).default('pending').describe('The state of the jobs.'),
        order: z
          .enum(['newest', 'oldest'])
          .default('newest')
          .describe('For scheduled and active jobs, `oldest` means the soonest first.'),
        limit: pageLimit.optional(),
        cursor: cursorOf(decodeCursor),
        from: instantParameter
          .optional()
          .describe(
            'Only jobs minted at this instant or later: RFC 3339 with a zone, or epoch ms. Only for pending and dead.',
          ),
        to: instantParameter
          .optional()
          .describe('Only jobs minted before this instant. Only for pending and dead.'),
        payload: payloadParameter.optional(),
        as: as.optional(),
      })
      .superRefine((query, context) => {
        if (query.state === 'pending' || query.state === 'dead') return
        for (const bound of ['from', 'to'] as const) {
          if (query[bound] !== undefined)
            context.addIssue({ code: 'custom', path: [bound], message: 'is only for pending and dead' })
        }
      }),
    responses: success(
      'One page, and a cursor if there is more',
      z.object({ jobs: z.array(jobResponse), cursor: nextCursor }),
    ),
    handle: async ({ queue, query, grant }) => {
      const { payload, as: format = 'json', limit = DEFAULT_PAGE, ...page } = query
      const withPayload = payloadWish(grant, queue.name, payload, false)
      const withErrors = sees(grant, queue.name, 'observe:payload')
      const { jobs, cursor } = await queue.list({ ...page, limit, withPayload, withErrors })
      const texts = jobs.map((job) => storedJobText(queue.name, job, { as: format, withPayload, withErrors }))
      const members = [`"jobs":[${texts.join(',')}]`]
      if (cursor !== undefined) members.push(`"cursor":${JSON.stringify(encodeCursor(cursor))}`)
      return ok(new JsonText(`{${members.join(',')}}`))
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{queue}/jobs/{id}',
    operationId: 'job',
    summary: 'Read one job',
    description: 'Returns all fields of the job. A completed job no longer exists and returns 404.',
    scope: 'observe',
    query: z.strictObject({ payload: payloadParameter.optional(), as: as.optional() }),
    responses: success('The job', jobResponse),
    errors: ['not_found', 'wrong_kind'],
    handle: async ({ queue, id, query, grant }) => {
      const withPayload = payloadWish(grant, queue.name, query.payload, true)
      const job = await queue.job(id)
      if (job === undefined) throw new ProblemError('not_found', 'This job does not exist.')
      const withErrors = sees(grant, queue.name, 'observe:payload')
      return ok(
        new JsonText(storedJobText(queue.name, job, { as: query.as ?? 'json', withPayload, withErrors })),
      )
    },
  }),
  route({
    method: 'GET',
    path: '/metrics',
    operationId: 'metrics',
    summary: 'Read the metrics of all queues that the token may see',
    description:
      'Returns Prometheus text: depth by state, age of the oldest pending job, completed and failed jobs, and sweep lag.',
    scope: 'observe',
    responses: {
      200: { description: 'Prometheus text format 0.0.4', schema: z.string(), contentType: 'text/plain' },
    },
    handle: async (call) => {
      const stats = await readableStats(call, await visibleQueues(call))
      return {
        status: 200,
        body: metricsText(stats, call.database.now()),
        contentType: 'text/plain; version=0.0.4; charset=utf-8',
      }
    },
  }),
]
