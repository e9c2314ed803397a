/** Consuming: claims, and what a holder does with the jobs it claimed. */
import * as z from 'zod'
import { isJobId, type JobId } from '../protocol/ids.ts'
import type { Finding } from '../protocol/json-text.ts'
import { MAX_ITEMS_PER_SETTLE, MAX_JOBS_PER_CLAIM, MAX_WAIT_MS } from '../protocol/limits.ts'
import type { Result } from '../protocol/refusals.ts'
import type { Claimed, Settled, Settlement } from '../queue/consume.ts'
import type { Queue } from '../queue/database.ts'
import { createPollingWaiter } from '../wake/polling.ts'
import { findingProblem } from './body.ts'
import { type As, claimedJobText } from './jobs-json.ts'
import { accepted, itemError } from './refusal.ts'
import { JsonText, ok, type Route, route } from './route.ts'
import {
  as,
  claimId,
  delayMs,
  errorText,
  integer,
  itemErrorSchema,
  jobId,
  leaseMs,
  maxAttempts,
  payloadMembers,
  token,
} from './schemas.ts'
import { fieldErrors } from './validate.ts'

const claimMembers = {
  leaseMs: leaseMs
    .optional()
    .meta({ description: "Length of the lease in ms. Default: the queue's `leaseMs`, else 30000." }),
  limit: integer(1, MAX_JOBS_PER_CLAIM)
    .optional()
    .meta({ description: 'Claims up to this many. Left out: one job, by the script of the wire contract.' }),
  as: as.optional(),
  claimId: claimId.optional(),
}

const needsLimit = (claim: { claimId?: string | undefined; limit?: number | undefined }): boolean =>
  claim.claimId === undefined || claim.limit !== undefined

const claimSchema = z
  .strictObject({
    ...claimMembers,
    waitMs: integer(0, MAX_WAIT_MS).optional().meta({
      description:
        'Holds the request until there is a job, or for this long. A caller that hangs up ends it.',
      default: 0,
    }),
  })
  .refine(needsLimit, { path: ['claimId'], message: 'goes only with limit' })
  .meta({ id: 'Claim', override: { dependentRequired: { claimId: ['limit'] } } })

const nextClaimSchema = z
  .strictObject({
    ...claimMembers,
    limit: integer(1, MAX_JOBS_PER_CLAIM).meta({ description: 'Claims up to this many.' }),
  })
  .meta({ id: 'NextClaim', description: 'What to claim in the same call.' })

/** What a claim tells when it gives no job. */
const emptyMembers = {
  retryAfterMs: z
    .int()
    .optional()
    .meta({ description: 'With no job: when to ask again, in ms. It grows while the queue stays empty.' }),
  paused: z.boolean().optional().meta({ description: 'There when the queue is paused.' }),
}

const claimedSchema = z
  .object({
    jobs: z.array(
      z
        .object({
          id: jobId,
          queue: z.string(),
          token: z.int().meta({ description: 'The fencing token. Every report on the job needs it.' }),
          leaseMs: z.int().meta({ description: 'What is left of the lease, in ms.' }),
          enqueuedAt: z.iso.datetime().meta({ description: 'When the id was made.' }),
          ...payloadMembers,
        })
        .meta({ id: 'ClaimedJob', description: 'A job in your hands, until its lease runs out.' }),
    ),
    ...emptyMembers,
  })
  .meta({ id: 'Claimed' })

const moves = {
  complete: z.strictObject({ token }),
  retry: z.strictObject({
    token,
    error: errorText.optional(),
    delayMs: delayMs.optional().meta({
      description: "Milliseconds until the next attempt. Default: the queue's backoff, with full jitter.",
    }),
    maxAttempts: maxAttempts.optional().meta({
      description: "Retry budget for this once. Default: the job's, else the queue's. 0: no limit.",
    }),
  }),
  fail: z.strictObject({ token, error: errorText.optional() }),
  release: z.strictObject({
    token,
    delayMs: delayMs
      .optional()
      .meta({ description: 'Milliseconds until it may be claimed again.', default: 0 }),
  }),
  extend: z.strictObject({ token, leaseMs }),
}

const itemSchema = z
  .discriminatedUnion('action', [
    moves.complete.extend({ id: jobId, action: z.literal('complete') }).meta({ id: 'Complete' }),
    moves.retry.extend({ id: jobId, action: z.literal('retry') }).meta({ id: 'Retry' }),
    moves.fail.extend({ id: jobId, action: z.literal('fail') }).meta({ id: 'Fail' }),
    moves.release.extend({ id: jobId, action: z.literal('release') }).meta({ id: 'Release' }),
    moves.extend.extend({ id: jobId, action: z.literal('extend') }).meta({ id: 'Extend' }),
  ])
  .meta({ id: 'Settlement', description: 'What to do with one job that was claimed.' })

const itemsOf = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({
    items: z.array(item).min(1).max(MAX_ITEMS_PER_SETTLE),
    claim: nextClaimSchema.optional(),
  })

const completed = z.object({ id: jobId, status: z.literal('completed') })
const scheduled = z.object({ id: jobId, status: z.literal('scheduled'), delayMs: z.int() })
const dead = z.object({ id: jobId, status: z.literal('dead') })
const pending = z.object({ id: jobId, status: z.literal('pending') })
const extended = z.object({ id: jobId, status: z.literal('extended'), leaseMs: z.int() })

/** What each move answers. */
const answers = {
  complete: completed,
  retry: z.union([scheduled, dead]),
  fail: dead,
  release: z.object({ id: jobId, status: z.enum(['pending', 'scheduled']) }),
  extend: extended,
}

const settledSchema = z
  .union([completed, scheduled, dead, pending, extended])
  .meta({ id: 'Settled', description: 'What became of one job.' })

const settleResultSchema = z
  .object({
    results: z
      .array(z.union([settledSchema, z.object({ id: z.string().nullable(), error: itemErrorSchema })]))
      .meta({
        description: 'One for each item, in input order. An item without a usable id has the id null.',
      }),
    jobs: claimedSchema.shape.jobs
      .optional()
      .meta({ description: 'With `claim`: the next jobs, perhaps none.' }),
    ...emptyMembers,
  })
  .meta({ id: 'SettleResult' })

const claimedMembers = (queue: Queue, claimed: Claimed, format: As): string => {
  const jobs = claimed.jobs.map((job) => claimedJobText(queue.name, job, format))
  const hint = queue.hintMs(jobs.length, claimed.nextMs)
  const members = [`"jobs":[${jobs.join(',')}]`]
  if (jobs.length === 0) members.push(`"retryAfterMs":${hint}`)
  if (claimed.paused) members.push('"paused":true')
  return members.join(',')
}

const idOf = (item: unknown): string | null =>
  typeof item === 'object' && item !== null && 'id' in item && typeof item.id === 'string' ? item.id : null

/** Reads one item of a settle: what to do, or its result when it is malformed or something was found in its text. */
function readItem(
  value: unknown,
  finding: Finding | undefined,
): { settlement: Settlement } | { result: object } {
  if (finding !== undefined) {
    // Of an id that is given twice JSON.parse keeps one: it names nothing.
    const id = finding.path === 'id' ? null : idOf(value)
    return { result: { id, error: findingProblem(finding).problem } }
  }
  const parsed = itemSchema.safeParse(value)
  if (parsed.success && isJobId(parsed.data.id)) return { settlement: parsed.data }
  const error = parsed.success
    ? itemError({ refused: 'wrong_kind' })
    : { code: 'invalid', detail: 'The item is malformed.', errors: fieldErrors(parsed.error) }
  return { result: { id: idOf(value), error } }
}

/** One move of a claimed job: `POST /v1/queues/{queue}/jobs/{id}/<action>`. */
function move<Body extends z.ZodType>(
  action: keyof typeof moves,
  [summary, description]: readonly [string, string],
  body: Body,
  handle: (queue: Queue, id: JobId, body: z.output<Body>) => Promise<Result<object>>,
): Route {
  return route({
    method: 'POST',
    path: `/v1/queues/{queue}/jobs/{id}/${action}`,
    operationId: action,
    summary,
    description,
    scope: 'consume',
    body,
    responses: { 200: { description: 'The move was made', schema: answers[action] } },
    errors: ['stale', 'gone', 'wrong_kind'],
    handle: async ({ queue, id, body }) => ok(accepted(await handle(queue, id, body as z.output<Body>))),
  })
}

export const consumeRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/claim',
    operationId: 'claim',
    summary: 'Claim jobs under a lease',
    description:
      'Hands out the oldest pending jobs, each under a lease and with a fencing token. Report on each before its lease runs out, or extend it; a job whose lease ran out goes to somebody else. An empty or a paused queue answers no job.\n\nWithout `limit` it is one job, by the script that all clients of the wire contract share: a repeat after a lost answer takes another one, and the first comes back when its lease lapses. With `limit` the same request also moves what is due and takes back what has lapsed, and with a `claimId` it is safe to repeat. A batch stops short of 8 MiB of payload.',
    scope: 'consume',
    body: claimSchema,
    responses: { 200: { description: 'The jobs, perhaps none', schema: claimedSchema } },
    errors: [],
    handle: async ({ queue, body, request, database }) => {
      const { waitMs = 0, as: format = 'json', ...options } = body
      const waiter = createPollingWaiter()
      const hold = queue.hold(options.claimId)
      let [left, seenAt] = [waitMs, database.now()]
      try {
        for (;;) {
          const claimed = await queue.claim(options)
          const answer = () => ok(new JsonText(`{${claimedMembers(queue, claimed, format)}}`))
          // What has passed is added up, so that a clock that is set back makes no wait longer.
          left -= Math.max(0, database.now() - seenAt)
          seenAt = database.now()
          if (claimed.jobs.length > 0 || left <= 0) return answer()
          await waiter.pause({ atMostMs: left, nextMs: claimed.nextMs, signal: request.signal })
          // Nobody is there any more to take a job: it must not be claimed.
          if (request.signal.aborted || !hold.isNewest()) return answer()
        }
      } finally {
        hold.end()
      }
    },
  }),
  move(
    'complete',
    [
      'Retire a finished job',
      'Nothing of the job remains. A holder whose lease ran out may still complete it as long as nobody else has claimed it. Safe to repeat: the second answer is 410 `gone`.',
    ],
    moves.complete,
    (queue, id, { token }) => queue.complete(id, token),
  ),
  move(
    'retry',
    [
      'Give a failed job back, to run again later',
      'The job waits in the schedule for its backoff, exponential and with full jitter, or goes to dead when its budget is spent. Safe to repeat: the second answer is 409 `stale`, `released`.',
    ],
    moves.retry,
    (queue, id, { token, ...how }) => queue.retry(id, token, how),
  ),
  move(
    'fail',
    [
      'Send a job straight to dead',
      'For a job that no attempt can help. It stays dead until it is redriven or removed. Safe to repeat: the second answer is 409 `stale`, `released`.',
    ],
    moves.fail,
    (queue, id, { token, error }) => queue.fail(id, token, error),
  ),
  move(
    'release',
    [
      'Give a job back without spending its budget',
      'For a consumer that must stop, or cannot take the job now. The attempt does not count. Safe to repeat: the second answer is 409 `stale`, `released`.',
    ],
    moves.release,
    async (queue, id, { token, delayMs }) => {
      const result = await queue.release(id, token, delayMs)
      return result.ok ? { ok: true, value: { id, status: result.value.status } } : result
    },
  ),
  move(
    'extend',
    [
      'Extend a lease',
      "The lease ends `leaseMs` after the server's now, whatever was left of it. A lease that ran out and was not taken back yet is revived. Safe to repeat.",
    ],
    moves.extend,
    (queue, id, { token, leaseMs }) => queue.extend(id, token, leaseMs),
  ),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/settle',
    operationId: 'settle',
    summary: 'Settle many jobs, and claim the next ones in the same call',
    description:
      'Up to 1000 moves of jobs that were claimed, mixed as you like. Each item answers for itself; a bad one stops no other. With `claim` the next jobs come in the same answer. The moves are as safe to repeat as they are one by one; give the claim a `claimId`.',
    scope: 'consume',
    body: itemsOf(z.unknown()),
    wholeBody: itemsOf(itemSchema),
    responses: {
      200: {
        description: 'One result for each item, and the jobs that were claimed',
        schema: settleResultSchema,
      },
    },
    errors: [],
    handle: async ({ queue, body, json }) => {
      const { claim } = body
      const items = body.items.map((item, index) => readItem(item, json?.elementFindings?.get(index)))
      const settlements = items.flatMap((item) => ('settlement' in item ? [item.settlement] : []))
      const asksRedis = settlements.length > 0 || claim !== undefined
      const settled = asksRedis ? await queue.settle(settlements, claim) : { results: [] }
      const answers = settled.results.values()
      const results = items.map((item) => {
        if ('result' in item) return item.result
        const result = answers.next().value as Result<Settled>
        return result.ok ? result.value : { id: item.settlement.id, error: itemError(result.refusal) }
      })
      const members = [`"results":${JSON.stringify(results)}`]
      if (settled.claimed !== undefined)
        members.push(claimedMembers(queue, settled.claimed, claim?.as ?? 'json'))
      return ok(new JsonText(`{${members.join(',')}}`))
    },
  }),
]
