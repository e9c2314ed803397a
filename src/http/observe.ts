/** Observing: stats, pages of jobs, single jobs, metrics. Payloads and error texts only for those who may see them. */
import * as z from 'zod'
import type { Scope } from '../env.ts'
import { classifyJobId, mintedAt } from '../protocol/ids.ts'
import { isQueueName, queueMatches } from '../protocol/keys.ts'
import { DEFAULT_PAGE, MAX_PAGE } from '../protocol/limits.ts'
import { type PageCursor, type QueueStats, registeredQueues, statsOf } from '../queue/observe.ts'
import { allows, type Grant } from './auth.ts'
import { storedJobText } from './jobs-json.ts'
import { metricsText } from './metrics.ts'
import { ProblemError } from './problem.ts'
import { type Call, JsonText, ok, route } from './route.ts'
import { as, digits, instantParameter, iso } from './schemas.ts'

const STATES = ['pending', 'active', 'scheduled', 'dead'] as const

export const settingsResponse = z
  .object({
    maxAttempts: z.int(),
    backoff: z.object({ baseMs: z.int(), maxMs: z.int() }),
    leaseMs: z.int(),
    maxActive: z.int(),
    maxPending: z.int(),
  })
  .meta({ id: 'Settings' })

const statsResponse = z
  .object({
    queue: z.string(),
    counts: z.object({ pending: z.int(), active: z.int(), scheduled: z.int(), dead: z.int() }),
    oldestPendingAt: z.iso.datetime().optional(),
    nextDueAt: z.iso.datetime().optional(),
    nextLapseAt: z.iso.datetime().optional(),
    paused: z.boolean(),
    completed: z.int(),
    failed: z.int(),
    ghosts: z.int(),
    settings: settingsResponse,
  })
  .meta({ id: 'QueueStats' })

const jobResponse = z
  .object({
    id: z.string(),
    queue: z.string(),
    state: z.enum(STATES),
    attempts: z.int(),
    enqueuedAt: z.iso.datetime(),
    runAt: z.iso.datetime().optional(),
    leaseUntil: z.iso.datetime().optional(),
    maxAttempts: z.int().optional(),
    lapses: z.int().optional(),
    startBy: z.iso.datetime().optional(),
    lastError: z.string().optional(),
    history: z.array(z.object({ attempt: z.int(), at: z.iso.datetime(), error: z.string() })).optional(),
    payload: z.unknown().optional(),
    text: z.string().optional(),
    base64: z.string().optional(),
  })
  .meta({ id: 'Job' })

const flag = z.enum(['true', 'false']).transform((word) => word === 'true')
const payloadParameter = flag.meta({ override: { type: 'string', enum: ['true', 'false'] } })

/** Stats as the API writes them. */
export function statsBody({ known: _, oldestPending, nextDueMs, nextLapseMs, ...stats }: QueueStats): object {
  const at = (ms: number | undefined) => (ms === undefined ? undefined : iso(ms))
  return {
    ...stats,
    oldestPendingAt: oldestPending === undefined ? undefined : at(mintedAt(oldestPending)),
    nextDueAt: at(nextDueMs),
    nextLapseAt: at(nextLapseMs),
  }
}

const encodeCursor = ({ id, score, seen }: PageCursor): string => `${score}:${seen}:${id}`

function decodeCursor(text: string): PageCursor | undefined {
  const [score = '', seen = '', id = '', ...rest] = text.split(':')
  const isSound =
    rest.length === 0 &&
    /^[\d.e+-]{1,32}$/.test(score) &&
    Number.isFinite(Number(score)) &&
    /^\d{1,9}$/.test(seen) &&
    classifyJobId(id) === 'job'
  return isSound ? { id, score, seen: Number(seen) } : undefined
}

const cursorParameter = z
  .string()
  .transform((text, context) => {
    const cursor = decodeCursor(text)
    if (cursor !== undefined) return cursor
    context.addIssue({ code: 'custom', message: 'is no cursor of this list' })
    return z.NEVER
  })
  .meta({ override: { type: 'string' } })

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
  const names = new Set([...(await registeredQueues(database.port)), ...settings.queues])
  return [...names].filter((name) => grant.queues.some((pattern) => queueMatches(pattern, name))).sort()
}

export const observeRoutes = [
  route({
    method: 'GET',
    path: '/v1/queues',
    operationId: 'listQueues',
    summary: 'List queues with their stats, by name',
    scope: 'observe',
    query: z.strictObject({
      cursor: z
        .string()
        .refine(isQueueName, 'is no cursor of this list')
        .meta({ override: { type: 'string' } })
        .optional(),
      limit: digits(1, MAX_PAGE).optional(),
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
      const stats = await statsOf(call.database.port, page)
      return ok({ queues: stats.map(statsBody), cursor: names.length > limit ? page.at(-1) : undefined })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{queue}',
    operationId: 'stats',
    summary: 'Counts, ages and settings of a queue',
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
      'pending and dead are in mint order, and `from` <= mint time < `to` selects in them; active is ordered by lease deadline, scheduled by run-at.',
    scope: 'observe',
    query: z
      .strictObject({
        state: z.enum(STATES).default('pending'),
        order: z.enum(['newest', 'oldest']).default('newest'),
        limit: digits(1, MAX_PAGE).optional(),
        cursor: cursorParameter.optional(),
        from: instantParameter.optional(),
        to: instantParameter.optional(),
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
    summary: 'Metrics of all queues that the token may see, as Prometheus text',
    scope: 'observe',
    responses: { 200: { description: 'Prometheus text format 0.0.4' } },
    errors: [],
    handle: async (call) => {
      const stats = await statsOf(call.database.port, await visibleQueues(call))
      return {
        status: 200,
        body: metricsText(stats, call.database.now()),
        contentType: 'text/plain; version=0.0.4; charset=utf-8',
      }
    },
  }),
]
