/** Observing: stats, pages of jobs, single jobs, metrics. Payloads and error texts only for those who may see them. */
import * as z from 'zod'
import { mintedAt } from '../protocol/ids.ts'
import { isQueueName, queueMatches } from '../protocol/keys.ts'
import { DEFAULT_PAGE, MAX_PAGE } from '../protocol/limits.ts'
import { JOB_STATES } from '../protocol/states.ts'
import type { Scope } from '../protocol/tokens.ts'
import type { PageCursor, QueueStats } from '../queue/observe.ts'
import { allows, type Grant } from './auth.ts'
import { storedJobText } from './jobs-json.ts'
import { metricsText } from './metrics.ts'
import { ProblemError } from './problem.ts'
import { type Call, JsonText, ok, route } from './route.ts'
import {
  as,
  digits,
  idFromCursor,
  idToCursor,
  instantParameter,
  iso,
  jobId,
  optionalIso,
  payloadMembers,
} from './schemas.ts'

export const settingsResponse = z
  .object({
    maxAttempts: z
      .int()
      .meta({ description: 'Retry budget of jobs that have none of their own. 0: no limit.' }),
    backoff: z
      .object({ baseMs: z.int(), maxMs: z.int() })
      .meta({ description: 'Ceiling of the wait after attempt n: `baseMs` x 2^(n-1), at most `maxMs`.' }),
    leaseMs: z.int().meta({ description: 'Lease of a claim that names none.' }),
    maxActive: z.int().meta({ description: 'Jobs under a lease at a time. 0: no limit.' }),
    maxPending: z.int().meta({ description: 'Pending jobs from which on enqueue is refused. 0: no limit.' }),
  })
  .meta({ id: 'Settings', description: 'The settings in force.' })

const statsResponse = z
  .object({
    queue: z.string(),
    counts: z
      .object({ pending: z.int(), active: z.int(), scheduled: z.int(), dead: z.int() })
      .meta({ description: 'Jobs by state.' }),
    oldestPendingAt: z.iso
      .datetime()
      .optional()
      .meta({ description: 'When the oldest pending job was made.' }),
    nextDueAt: z.iso.datetime().optional().meta({ description: 'When the next scheduled job is due.' }),
    nextLapseAt: z.iso.datetime().optional().meta({ description: 'When the next lease runs out.' }),
    paused: z.boolean(),
    completed: z.int().meta({ description: 'Jobs that were completed, ever.' }),
    failed: z.int().meta({ description: 'Jobs that died, ever.' }),
    ghosts: z.int().meta({ description: 'Ids that were found without a job, and dropped, ever.' }),
    settings: settingsResponse,
  })
  .meta({ id: 'QueueStats', description: 'How a queue is doing.' })

const jobResponse = z
  .object({
    id: jobId,
    queue: z.string(),
    state: z.enum(JOB_STATES),
    attempts: z.int().meta({ description: 'How often it was claimed: the newest fencing token.' }),
    enqueuedAt: z.iso.datetime().meta({ description: 'When its id was made.' }),
    runAt: z.iso.datetime().optional().meta({ description: 'When it is due. Scheduled jobs.' }),
    leaseUntil: z.iso.datetime().optional().meta({ description: 'When its lease runs out. Active jobs.' }),
    maxAttempts: z.int().optional().meta({ description: 'Its own retry budget.' }),
    lapses: z
      .int()
      .optional()
      .meta({ description: 'Leases that ran out since it was enqueued or redriven.' }),
    startBy: z.iso.datetime().optional().meta({ description: 'When it expires unless somebody starts it.' }),
    lastError: z.string().optional().meta({ description: 'What went wrong last. Needs `observe:payload`.' }),
    history: z
      .array(z.object({ attempt: z.int(), at: z.iso.datetime(), error: z.string() }))
      .optional()
      .meta({
        description: 'The last five errors, for a job that failed more than once. Needs `observe:payload`.',
      }),
    ...payloadMembers,
  })
  .meta({ id: 'Job', description: 'A job. Payload and error texts only for those who may see them.' })

const flag = z.enum(['true', 'false']).transform((word) => word === 'true')
const payloadParameter = flag.meta({
  description:
    'Whether payloads come along. Default: for one job yes, where the token may see it; for a list no. Asking without `observe:payload` is 403.',
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

const cursorParameter = z
  .string()
  .transform((text, context) => {
    const cursor = decodeCursor(text)
    if (cursor !== undefined) return cursor
    context.addIssue({ code: 'custom', message: 'is no cursor of this list' })
    return z.NEVER
  })
  .meta({ description: 'Where the page before ended: its `cursor`.', override: { type: 'string' } })

const pageLimit = digits(1, MAX_PAGE, DEFAULT_PAGE).meta({ description: 'At most this many.' })

const sees = (grant: Grant, queue: string, scope: Scope): boolean => allows(grant, scope, queue)

/** Whether payloads go into an answer: what was asked for where the token may see it, and an error where it may not. */
function payloadWish(grant: Grant, queue: string, asked: boolean | undefined, otherwise: boolean): boolean {
  const may = sees(grant, queue, 'observe:payload')
  if (asked === true && !may)
    throw new ProblemError('forbidden', 'The token may not see payloads: it lacks observe:payload.')
  return may && (asked ?? otherwise)
}

/** The queues that a caller may see, in byte order: those of the registry and those that are always maintained. */
async function visibleQueues({
  database,
  settings,
  grant,
}: Pick<Call, 'database' | 'settings' | 'grant'>): Promise<string[]> {
  const names = new Set([...(await database.registry.names()), ...settings.queues])
  return [...names].filter((name) => grant.queues.some((pattern) => queueMatches(pattern, name))).sort()
}

/** The stats of those queues that can be read. One that somebody has spoilt is left out: it must not blind the operator. */
async function readableStats(
  { database }: Pick<Call, 'database'>,
  queues: readonly string[],
): Promise<QueueStats[]> {
  const { readable, unreadable } = await database.registry.stats(queues)
  for (const queue of unreadable) console.error(`queue ${queue} is left out: a key of it holds another type`)
  return readable
}

export const observeRoutes = [
  route({
    method: 'GET',
    path: '/v1/queues',
    operationId: 'listQueues',
    summary: 'List queues with their stats, by name',
    scope: 'observe',
    description:
      'The queues that the token may see, in the byte order of their names. Queues that only clients of other languages have used are not listed.',
    query: z.strictObject({
      cursor: z
        .string()
        .refine(isQueueName, 'is no cursor of this list')
        .meta({ description: 'Where the page before ended: its `cursor`.', override: { type: 'string' } })
        .optional(),
      limit: pageLimit.optional(),
    }),
    responses: {
      200: {
        description: 'One page; a cursor comes with it when there is more',
        schema: z.object({ queues: z.array(statsResponse), cursor: z.string().optional() }),
      },
    },
    errors: [],
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
    summary: 'Counts, ages and settings of a queue',
    description: 'A queue that was never used is not found.',
    scope: 'observe',
    responses: { 200: { description: 'The stats', schema: statsResponse } },
    errors: ['not_found'],
    handle: async ({ queue }) => {
      const stats = await queue.stats()
      if (!stats.known) throw new ProblemError('not_found', 'This queue was never used.')
      return ok(statsBody(stats))
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{queue}/jobs',
    operationId: 'listJobs',
    summary: 'List the jobs of one state',
    description:
      'Pending and dead jobs come in the order in which their ids were made, active ones by the end of their lease, scheduled ones by the time they are due. Jobs that move while you read may be met twice or not at all.',
    scope: 'observe',
    query: z
      .strictObject({
        state: z.enum(JOB_STATES).default('pending').meta({ description: 'Which jobs.' }),
        order: z
          .enum(['newest', 'oldest'])
          .default('newest')
          .meta({ description: 'Of scheduled and active jobs, `oldest` is what is due or lapses soonest.' }),
        limit: pageLimit.optional(),
        cursor: cursorParameter.optional(),
        from: instantParameter.optional().meta({
          description:
            'Jobs made at this instant or later: RFC 3339 with a zone, or epoch ms. In pending and dead only.',
        }),
        to: instantParameter
          .optional()
          .meta({ description: 'Jobs made before this instant. In pending and dead only.' }),
        payload: payloadParameter.optional(),
        as: as.optional(),
      })
      .superRefine((query, context) => {
        if (query.state === 'pending' || query.state === 'dead') return
        for (const bound of ['from', 'to'] as const) {
          if (query[bound] !== undefined)
            context.addIssue({ code: 'custom', path: [bound], message: 'selects in pending and dead only' })
        }
      }),
    responses: {
      200: {
        description: 'One page; a cursor comes with it when there is more',
        schema: z.object({ jobs: z.array(jobResponse), cursor: z.string().optional() }),
      },
    },
    errors: [],
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
    summary: 'One job',
    description: 'With all that is known of it. A completed job is gone: it is not found.',
    scope: 'observe',
    query: z.strictObject({ payload: payloadParameter.optional(), as: as.optional() }),
    responses: { 200: { description: 'The job', schema: jobResponse } },
    errors: ['not_found', 'wrong_kind'],
    handle: async ({ queue, id, query, grant }) => {
      const withPayload = payloadWish(grant, queue.name, query.payload, true)
      const job = await queue.job(id)
      if (job === undefined) throw new ProblemError('not_found', 'There is no such job.')
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
    summary: 'Metrics of all queues that the token may see',
    description:
      'As Prometheus text: depth by state, age of the oldest pending job, completed and failed jobs, and how long what is due waits for a sweep.',
    scope: 'observe',
    responses: {
      200: { description: 'Prometheus text format 0.0.4', schema: z.string(), contentType: 'text/plain' },
    },
    errors: [],
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
