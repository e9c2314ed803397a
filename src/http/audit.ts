/** The audit of a queue: one bounded step per call, with a cursor for the next step. */
import * as z from 'zod'
import { DEFAULT_MOVE_LIMIT, MAX_MOVE_LIMIT } from '../protocol/limits.ts'
import { AUDIT_KINDS, AUDIT_SETS, decodeAuditCursor, encodeAuditCursor } from '../queue/audit.ts'
import { ok, route, success } from './route.ts'
import { cursorOf, integer, nextCursor } from './schemas.ts'

export const auditRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/audit',
    operationId: 'audit',
    summary: 'Find jobs whose sets and rows disagree, and repair them',
    description: `One bounded step: repeat the call with the \`cursor\` until a response has none. The audit reads the four sets and then the rows of the queue. It finds

- \`ghost\`: an id in a set, or a part of a row, without a job. The repair deletes it.
- \`orphan\`: a job in no set. The repair follows its row: a pending or dead job returns to its set, an active job gets a lease that has run out, a scheduled job has lost its time and becomes pending.
- \`doubled\`: a job in several sets. It stays in the set that its row names, else in the first of active, schedule, pending, dead.
- \`state\`: a job whose row names another set than the one that contains it. The set is right.
- \`score\`: a pending or dead job with a score. The score becomes 0.

Jobs that move during the audit are not findings: one step of Redis checks and repairs each job. A finding without one correct repair is reported and not changed. Each step makes two requests to Redis. The steps through the rows scan all keys of the database. Safe to repeat: a repaired job is not found again.`,
    scope: 'operate',
    body: z.strictObject({
      cursor: cursorOf(decodeAuditCursor),
      limit: integer(1, MAX_MOVE_LIMIT)
        .optional()
        .meta({ description: 'Checks about this many ids.', default: DEFAULT_MOVE_LIMIT }),
      repair: z
        .boolean()
        .optional()
        .meta({ description: 'Repairs every finding that has one correct repair.', default: false }),
    }),
    responses: success(
      'The findings of this step, and a cursor if there is more',
      z.object({
        checked: z.int().describe('Checked ids. A job counts twice: in its set and as a row.'),
        findings: z.array(
          z.object({
            id: z.string(),
            kind: z.enum(AUDIT_KINDS),
            sets: z.array(z.enum(AUDIT_SETS)).describe('The sets that contain the job.'),
          }),
        ),
        repaired: z.int().describe('How many findings were repaired.'),
        cursor: nextCursor,
      }),
    ),
    handle: async ({ queue, body: { limit = DEFAULT_MOVE_LIMIT, ...request } }) => {
      const { cursor, ...step } = await queue.audit({ limit, ...request })
      return ok({ ...step, cursor: cursor === undefined ? undefined : encodeAuditCursor(cursor) })
    },
  }),
]
