/** Operating: promote, reap, maintenance, redrive, reschedule, remove, purge, pause and settings. */
import * as z from 'zod'
import { maintain } from '../maintenance/maintenance.ts'
import { queueMatches } from '../protocol/keys.ts'
import {
  DEFAULT_MOVE_LIMIT,
  MAX_BACKOFF_BASE_MS,
  MAX_BACKOFF_MAX_MS,
  MAX_ERROR_CHARS,
  MAX_MOVE_LIMIT,
  MAX_QUEUE_CAP,
} from '../protocol/limits.ts'
import { settingsResponse } from './observe.ts'
import { accepted } from './refusal.ts'
import { ok, type Route, route, success } from './route.ts'
import {
  cursorOf,
  delayMs,
  exactlyOne,
  idFromCursor,
  idToCursor,
  instant,
  integer,
  jobId,
  leaseMs,
  maxAttempts,
  nextCursor,
  rejectTooFarAhead,
} from './schemas.ts'
import { noFields } from './validate.ts'

const limit = integer(1, MAX_MOVE_LIMIT)
  .optional()
  .meta({ description: 'At most this many jobs.', default: DEFAULT_MOVE_LIMIT })
const limitBody = z.strictObject({ limit })
const pausedResponse = z.object({ paused: z.boolean() })
const more = z.boolean().describe('Whether there are more jobs: call again.')

const meaningOf = (name: keyof typeof settingsResponse.shape) => ({
  description: settingsResponse.shape[name].description,
})

const settingsBody = z.strictObject({
  maxAttempts: maxAttempts.nullish().meta(meaningOf('maxAttempts')),
  backoff: z
    .strictObject({
      baseMs: integer(1, MAX_BACKOFF_BASE_MS).nullish(),
      maxMs: integer(1, MAX_BACKOFF_MAX_MS).nullish(),
    })
    .nullish()
    .meta(meaningOf('backoff')),
  leaseMs: leaseMs.nullish().meta(meaningOf('leaseMs')),
  maxActive: integer(0, MAX_QUEUE_CAP).nullish().meta(meaningOf('maxActive')),
  maxPending: integer(0, MAX_QUEUE_CAP).nullish().meta(meaningOf('maxPending')),
})

/** `POST .../pause` or `.../resume`. */
function pauseRoute(action: 'pause' | 'resume', summary: string, description: string): Route {
  const paused = action === 'pause'
  return route({
    method: 'POST',
    path: `/v1/queues/{queue}/${action}`,
    operationId: action,
    summary,
    description,
    scope: 'operate',
    body: noFields,
    responses: success('Whether the queue is paused', pausedResponse),
    handle: async ({ queue }) => {
      await queue[action]()
      return ok({ paused })
    },
  })
}

export const operateRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/promote',
    operationId: 'promote',
    summary: 'Move due jobs to pending',
    description: 'Claims with `limit` and maintenance do this too. Safe to repeat.',
    scope: 'operate',
    body: limitBody,
    responses: success('How many jobs were moved', z.object({ promoted: z.int(), more })),
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT } }) => {
      const { promoted, more } = await queue.promote(limit)
      return ok({ promoted, more })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/reap',
    operationId: 'reap',
    summary: 'Take back jobs whose lease lapsed',
    description:
      'After its first lapse a job is pending again; after a later lapse it is scheduled with its backoff; when its budget is used up it is dead. Claims with `limit` and maintenance do this too. Safe to repeat.',
    scope: 'operate',
    body: limitBody,
    responses: success(
      'How many jobs were taken back, and how many of them moved to dead',
      z.object({ reaped: z.int(), dead: z.int(), more }),
    ),
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT } }) => {
      const { reaped, dead, more } = await queue.reap(limit)
      return ok({ reaped, dead, more })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/maintenance',
    operationId: 'maintain',
    summary: 'Run maintenance',
    description:
      'Does the work of the cron, for other schedulers: sweeps all queues that are due, in bounded steps and bounded time. A token with queue patterns maintains only the queues that match. Safe to repeat.',
    scope: 'operate',
    body: noFields,
    responses: success(
      'How many jobs were moved, and which queues are not finished',
      z.object({
        queues: z.int().describe('How many queues were visited.'),
        promoted: z.int(),
        reaped: z.int(),
        dead: z.int(),
        ghosts: z.int(),
        remaining: z.array(z.string()).describe('Queues that are due and not finished.'),
      }),
    ),
    handle: async ({ database, settings, grant }) => {
      const all = grant.queues.includes('*')
      const only = (queue: string): boolean => grant.queues.some((pattern) => queueMatches(pattern, queue))
      const { failures, ...report } = await maintain(database, {
        always: settings.queues,
        only: all ? undefined : only,
      })
      for (const { cause } of failures) console.error('maintenance of a queue failed', cause)
      return ok(report)
    },
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/jobs/{id}/redrive',
    operationId: 'redrive',
    summary: 'Redrive a dead job',
    description:
      'Moves the job to pending with the same id and payload and a fresh retry budget. The fencing token still increases. A repeat is rejected, because the job is no longer dead.',
    scope: 'operate',
    body: noFields,
    responses: success('The job is pending', z.object({ id: jobId, status: z.literal('pending') })),
    errors: ['gone', 'wrong_state', 'wrong_kind'],
    handle: async ({ queue, id }) => ok(accepted(await queue.redrive(id))),
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/redrive',
    operationId: 'redriveMany',
    summary: 'Redrive many dead jobs, oldest first',
    description:
      'Selects jobs by mint time and by error text. Each call reads a bounded number of jobs and returns where to continue. Safe to repeat: a redriven job is no longer dead.',
    scope: 'operate',
    body: z.strictObject({
      limit,
      from: instant.optional().describe('Only jobs minted at this instant or later.'),
      to: instant.optional().describe('Only jobs minted before this instant.'),
      errorContains: z
        .string()
        .min(1)
        .max(MAX_ERROR_CHARS)
        .optional()
        .describe('Only jobs whose last error contains this text. Case-sensitive.'),
      dryRun: z
        .boolean()
        .optional()
        .meta({ description: 'Counts the jobs, and changes nothing.', default: false }),
      cursor: cursorOf(idFromCursor),
    }),
    responses: success(
      'How many jobs were redriven, or would be',
      z.object({
        redriven: z.int(),
        more,
        cursor: nextCursor,
      }),
    ),
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT, ...request } }) => {
      const { cursor, ...result } = await queue.redriveMany({ limit, ...request })
      return ok({ ...result, cursor: cursor === undefined ? undefined : idToCursor(cursor) })
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/queues/{queue}/jobs/{id}/schedule',
    operationId: 'reschedule',
    summary: 'Reschedule a scheduled job',
    description:
      'Takes exactly one of `delayMs` and `runAt`. A time that is not in the future makes the job pending. Safe to repeat.',
    scope: 'operate',
    body: z
      .strictObject({ delayMs: delayMs.optional(), runAt: instant.optional() })
      .refine((body) => (body.delayMs === undefined) !== (body.runAt === undefined), {
        path: ['runAt'],
        message: 'send exactly one of runAt and delayMs',
      })
      .meta({ override: exactlyOne('delayMs', 'runAt') }),
    responses: success(
      'The new state of the job',
      z.object({ id: jobId, status: z.enum(['pending', 'scheduled']) }),
    ),
    errors: ['gone', 'wrong_state', 'wrong_kind'],
    handle: async ({ queue, id, body, database }) => {
      const { runAt, delayMs = 0 } = body
      rejectTooFarAhead(runAt, database.now())
      return ok(accepted(await queue.reschedule(id, runAt === undefined ? { delayMs } : { runAt })))
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/queues/{queue}/jobs/{id}',
    operationId: 'remove',
    summary: 'Delete a job',
    description:
      'A job under a live lease cannot be deleted. Safe to repeat: the second response is 410 `gone`.',
    scope: 'operate',
    responses: { 204: { description: 'The job is deleted' } },
    errors: ['gone', 'locked', 'wrong_kind'],
    handle: async ({ queue, id }) => {
      accepted(await queue.remove(id))
      return { status: 204 }
    },
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/purge',
    operationId: 'purge',
    summary: 'Delete the jobs of one state, oldest first',
    description:
      'Deletes a bounded number of jobs: call again while there are more. A deleted job cannot be restored.',
    scope: 'operate',
    body: z.strictObject({ state: z.enum(['pending', 'scheduled', 'dead']), limit }),
    responses: success('How many jobs were deleted', z.object({ removed: z.int(), more })),
    handle: async ({ queue, body }) => ok(await queue.purge(body.state, body.limit ?? DEFAULT_MOVE_LIMIT)),
  }),
  pauseRoute(
    'pause',
    'Stop claims through this API',
    'Claims with `limit` stop at once, other claims within a second. Nothing else stops: jobs can be enqueued, and active jobs can be settled. Clients that talk to Redis directly must check for the pause themselves. Safe to repeat.',
  ),
  pauseRoute('resume', 'Allow claims again', 'Ends a pause. Safe to repeat.'),
  route({
    method: 'PUT',
    path: '/v1/queues/{queue}/settings',
    operationId: 'changeSettings',
    summary: 'Change the settings of a queue',
    description:
      'Merges the request into the stored settings. `null` resets a setting to its default. Safe to repeat.',
    scope: 'operate',
    body: settingsBody,
    responses: success('The settings in force', settingsResponse),
    handle: async ({ queue, body }) => ok(await queue.changeSettings(body)),
  }),
]
