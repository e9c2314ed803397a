/** The audit of a queue: one bounded step a call, with a cursor to the next. */
import * as z from 'zod'
import { DEFAULT_MOVE_LIMIT, MAX_MOVE_LIMIT } from '../protocol/limits.ts'
import { AUDIT_KINDS, AUDIT_SETS, decodeAuditCursor, encodeAuditCursor } from '../queue/audit.ts'
import { ok, route } from './route.ts'
import { integer } from './schemas.ts'

const cursor = z
  .string()
  .transform((text, context) => {
    const cursor = decodeAuditCursor(text)
    if (cursor !== undefined) return cursor
    context.addIssue({ code: 'custom', message: 'is no cursor of this operation' })
    return z.NEVER
  })
  .meta({ override: { type: 'string' }, description: 'Where the step before ended' })

export const auditRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/audit',
    operationId: 'audit',
    summary: 'Look for jobs that are not where they should be, and repair them',
    scope: 'operate',
    body: z.strictObject({
      cursor: cursor.optional(),
      limit: integer(1, MAX_MOVE_LIMIT).optional(),
      repair: z.boolean().optional(),
    }),
    responses: {
      200: {
        description: 'What this step found; a cursor comes with it when there is more to look at',
        schema: z.object({
          checked: z.int(),
          findings: z.array(
            z.object({ id: z.string(), kind: z.enum(AUDIT_KINDS), sets: z.array(z.enum(AUDIT_SETS)) }),
          ),
          repaired: z.int(),
          cursor: z.string().optional(),
        }),
      },
    },
    errors: [],
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT, ...request } }) => {
      const { cursor, ...step } = await queue.audit({ limit, ...request })
      return ok({ ...step, cursor: cursor === undefined ? undefined : encodeAuditCursor(cursor) })
    },
  }),
]
