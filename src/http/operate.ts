/** Operating: the pumps, maintenance, redrive, reschedule, remove, drain, pause and settings. */
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
import { ok, route } from './route.ts'
import {
  delayMs,
  exactlyOne,
  idFromCursor,
  idToCursor,
  instant,
  integer,
  jobId,
  leaseMs,
  maxAttempts,
  refuseTooFarAhead,
} from './schemas.ts'
import { noFields } from './validate.ts'

const limit = integer(1, MAX_MOVE_LIMIT)
  .optional()
  .meta({ description: 'At most this many jobs.', default: DEFAULT_MOVE_LIMIT })
const limitBody = z.strictObject({ limit })
const pausedResponse = z.object({ paused: z.boolean() })
const more = z.boolean().meta({ description: 'Whether there is more to do: call again.' })

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

export const operateRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/promote',
    operationId: 'promote',
    summary: 'Move jobs that are due to pending',
    description: 'Claims with `limit` and maintenance do it too; call it where neither runs. Safe to repeat.',
    scope: 'operate',
    body: limitBody,
    responses: {
      200: { description: 'What was moved', schema: z.object({ promoted: z.int(), more }) },
    },
    errors: [],
    handle: async ({ queue, body }) => {
      const { promoted, more } = await queue.promote(body.limit ?? DEFAULT_MOVE_LIMIT)
      return ok({ promoted, more })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/reap',
    operationId: 'reap',
    summary: 'Take back jobs whose lease has lapsed',
    description:
      'At its first lapse a job is pending again; from the second on it waits for its backoff, and once its budget is spent it is dead. Claims with `limit` and maintenance do it too. Safe to repeat.',
    scope: 'operate',
    body: limitBody,
    responses: {
      200: {
        description: 'What was taken out of active, and how much of it died',
        schema: z.object({ reaped: z.int(), dead: z.int(), more }),
      },
    },
    errors: [],
    handle: async ({ queue, body }) => {
      const { reaped, dead, more } = await queue.reap(body.limit ?? DEFAULT_MOVE_LIMIT)
      return ok({ reaped, dead, more })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/maintenance',
    operationId: 'maintain',
    summary: 'Do what the cron does',
    description:
      'Promotes and reaps in all queues where something is to do, in bounded steps and within a time. For schedulers other than the cron. A token with queue patterns maintains only those queues. Safe to repeat.',
    scope: 'operate',
    body: noFields,
    responses: {
      200: {
        description: 'What was moved, and which queues are not finished',
        schema: z.object({
          queues: z.int().meta({ description: 'Queues that were visited.' }),
          promoted: z.int(),
          reaped: z.int(),
          dead: z.int(),
          ghosts: z.int(),
          remaining: z.array(z.string()).meta({ description: 'Queues that were due and are not finished.' }),
        }),
      },
    },
    errors: [],
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
    summary: 'Bring a dead job back to pending',
    description:
      'Same id, same payload, a fresh retry budget; the fencing token goes on rising. A repeat is refused: the job is not dead any more.',
    scope: 'operate',
    body: noFields,
    responses: {
      200: {
        description: 'The job is pending',
        schema: z.object({ id: jobId, status: z.literal('pending') }),
      },
    },
    errors: ['gone', 'wrong_state', 'wrong_kind'],
    handle: async ({ queue, id }) => ok(accepted(await queue.redrive(id))),
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/redrive',
    operationId: 'redriveMany',
    summary: 'Bring dead jobs back, oldest first',
    description:
      'Chosen by the time their ids were made and by error text. Looks at a bounded number of jobs and says where to go on. Safe to repeat: what was redriven is not dead any more.',
    scope: 'operate',
    body: z.strictObject({
      limit,
      from: instant.optional().meta({ description: 'Jobs made at this instant or later.' }),
      to: instant.optional().meta({ description: 'Jobs made before this instant.' }),
      errorContains: z
        .string()
        .min(1)
        .max(MAX_ERROR_CHARS)
        .optional()
        .meta({ description: 'Jobs whose last error has this in it, to the letter.' }),
      dryRun: z.boolean().optional().meta({ description: 'Counts, and changes nothing.', default: false }),
      cursor: z
        .string()
        .transform((text, context) => {
          const id = idFromCursor(text)
          if (id !== undefined) return id
          context.addIssue({ code: 'custom', message: 'is no cursor of this operation' })
          return z.NEVER
        })
        .meta({ description: 'Where the call before ended: its `cursor`.', override: { type: 'string' } })
        .optional(),
    }),
    responses: {
      200: {
        description: 'How many were redriven, or would have been',
        schema: z.object({
          redriven: z.int(),
          more,
          cursor: z.string().optional().meta({ description: 'Where to go on, when there is more.' }),
        }),
      },
    },
    errors: [],
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT, ...request } }) => {
      const { cursor, ...result } = await queue.redriveMany({ limit, ...request })
      return ok({ ...result, cursor: cursor === undefined ? undefined : idToCursor(cursor) })
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/queues/{queue}/jobs/{id}/schedule',
    operationId: 'reschedule',
    summary: 'Move a scheduled job to another time',
    description:
      'Exactly one of `delayMs` and `runAt`. A time that has come, as with `delayMs` 0, makes it pending. Safe to repeat.',
    scope: 'operate',
    body: z
      .strictObject({ delayMs: delayMs.optional(), runAt: instant.optional() })
      .refine((body) => (body.delayMs === undefined) !== (body.runAt === undefined), {
        path: ['runAt'],
        message: 'exactly one of runAt and delayMs must be given',
      })
      .meta({ override: exactlyOne('delayMs', 'runAt') }),
    responses: {
      200: {
        description: 'Where the job is now',
        schema: z.object({ id: jobId, status: z.enum(['pending', 'scheduled']) }),
      },
    },
    errors: ['gone', 'wrong_state', 'wrong_kind'],
    handle: async ({ queue, id, body, database }) => {
      const { runAt, delayMs = 0 } = body
      refuseTooFarAhead(runAt, database.now())
      return ok(accepted(await queue.reschedule(id, runAt === undefined ? { delayMs } : { runAt })))
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/queues/{queue}/jobs/{id}',
    operationId: 'remove',
    summary: 'Delete a job that no live lease holds',
    description:
      'A job whose lease has run out may be deleted. Safe to repeat: the second answer is 410 `gone`.',
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
    path: '/v1/queues/{queue}/drain',
    operationId: 'drain',
    summary: 'Delete jobs of one state, oldest first',
    description:
      'A bounded number at a time: call again while there is more. What is deleted is gone for good.',
    scope: 'operate',
    body: z.strictObject({ state: z.enum(['pending', 'scheduled', 'dead']), limit }),
    responses: {
      200: {
        description: 'How many were deleted',
        schema: z.object({ removed: z.int(), more }),
      },
    },
    errors: [],
    handle: async ({ queue, body }) => ok(await queue.purge(body.state, body.limit ?? DEFAULT_MOVE_LIMIT)),
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/pause',
    operationId: 'pause',
    summary: 'Stop claims through this API',
    description:
      'Claims with `limit` stop at once, others within a second. Everything else goes on: jobs can be enqueued, and those that are active can be settled. Clients that speak to Redis themselves must look for the pause. Safe to repeat.',
    scope: 'operate',
    body: noFields,
    responses: { 200: { description: 'The queue is paused', schema: pausedResponse } },
    errors: [],
    handle: async ({ queue }) => {
      await queue.pause()
      return ok({ paused: true })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/resume',
    operationId: 'resume',
    summary: 'Let claims through again',
    description: 'Safe to repeat.',
    scope: 'operate',
    body: noFields,
    responses: { 200: { description: 'The queue is not paused', schema: pausedResponse } },
    errors: [],
    handle: async ({ queue }) => {
      await queue.resume()
      return ok({ paused: false })
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/queues/{queue}/settings',
    operationId: 'changeSettings',
    summary: 'Change settings of a queue',
    description:
      'What is given is merged into the settings in force; `null` takes one back to its default. Safe to repeat.',
    scope: 'operate',
    body: settingsBody,
    responses: { 200: { description: 'The settings in force', schema: settingsResponse } },
    errors: [],
    handle: async ({ queue, body }) => ok(await queue.changeSettings(body)),
  }),
]
