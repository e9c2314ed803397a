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
    description: `One bounded step: go on with the \`cursor\` until none comes. It walks the four sets and then the rows of the queue, and finds

- \`ghost\`: an id in a set, or a part of a row, without a job. Repaired by taking it away.
- \`orphan\`: a job in no set. Repaired by what its row says: pending and dead jobs go back, one that was active gets a lease that is over, one that was scheduled has lost its time and becomes pending.
- \`doubled\`: a job in more sets than one. It stays in the one that its row names, else in the first of active, schedule, pending, dead.
- \`state\`: a job whose row names another set than the one it is in. The set is right.
- \`score\`: a pending or dead job with a score. It becomes 0.

Jobs that move meanwhile are never taken for a fault: each is judged, and repaired, in one step of Redis. What has no one right answer is reported and left alone. A step makes two requests to Redis, and those through the rows read all keys of the database. Safe to repeat; what was repaired is found no more.`,
    scope: 'operate',
    body: z.strictObject({
      cursor: cursor.optional(),
      limit: integer(1, MAX_MOVE_LIMIT)
        .optional()
        .meta({ description: 'About as many ids are looked at.', default: DEFAULT_MOVE_LIMIT }),
      repair: z
        .boolean()
        .optional()
        .meta({ description: 'Repairs what has one right answer.', default: false }),
    }),
    responses: {
      200: {
        description: 'What this step found; a cursor comes with it when there is more to look at',
        schema: z.object({
          checked: z
            .int()
            .meta({ description: 'Ids that were looked at. A job is met in its set and as a row.' }),
          findings: z.array(
            z.object({
              id: z.string(),
              kind: z.enum(AUDIT_KINDS),
              sets: z.array(z.enum(AUDIT_SETS)).meta({ description: 'The sets that held the job.' }),
            }),
          ),
          repaired: z.int().meta({ description: 'How many of the findings were repaired.' }),
          cursor: z.string().optional().meta({ description: 'Where to go on, when there is more.' }),
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
