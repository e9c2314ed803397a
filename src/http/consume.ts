/** Consuming: claims, and what a holder does with the jobs it claimed. */
import * as z from 'zod'
import { isJobId, type JobId } from '../protocol/ids.ts'
import { MAX_ITEMS_PER_SETTLE, MAX_JOBS_PER_CLAIM, MAX_WAIT_MS } from '../protocol/limits.ts'
import type { Refusal } from '../protocol/refusals.ts'
import type { Claimed, Settled, Settlement } from '../queue/consume.ts'
import type { Queue } from '../queue/database.ts'
import { createPollingWaiter } from '../queue/waiting.ts'
import { type As, claimedJobText } from './jobs-json.ts'
import { accepted, itemError } from './refusal.ts'
import { JsonText, ok, type Route, route } from './route.ts'
import { as, claimId, delayMs, errorText, integer, jobId, leaseMs, maxAttempts, token } from './schemas.ts'
import { fieldErrors } from './validate.ts'

const claimMembers = {
  leaseMs: leaseMs.optional(),
  limit: integer(1, MAX_JOBS_PER_CLAIM).optional(),
  as: as.optional(),
  claimId: claimId.optional(),
}

const needsLimit = (claim: { claimId?: string | undefined; limit?: number | undefined }): boolean =>
  claim.claimId === undefined || claim.limit !== undefined

export const claimSchema = z
  .strictObject({ ...claimMembers, waitMs: integer(0, MAX_WAIT_MS).optional() })
  .refine(needsLimit, { path: ['claimId'], message: 'goes only with limit' })
  .meta({ id: 'Claim' })

const nextClaimSchema = z
  .strictObject({ ...claimMembers, limit: integer(1, MAX_JOBS_PER_CLAIM) })
  .meta({ id: 'NextClaim' })

const claimedSchema = z
  .object({
    jobs: z.array(
      z
        .object({
          id: z.string(),
          queue: z.string(),
          token: z.int(),
          leaseMs: z.int(),
          enqueuedAt: z.iso.datetime(),
          payload: z.unknown().optional(),
          text: z.string().optional(),
          base64: z.string().optional(),
        })
        .meta({ id: 'ClaimedJob' }),
    ),
    retryAfterMs: z.int().optional(),
    paused: z.boolean().optional(),
  })
  .meta({ id: 'Claimed' })

const moves = {
  complete: z.strictObject({ token }),
  retry: z.strictObject({
    token,
    error: errorText.optional(),
    delayMs: delayMs.optional(),
    maxAttempts: maxAttempts.optional(),
  }),
  fail: z.strictObject({ token, error: errorText.optional() }),
  release: z.strictObject({ token, delayMs: delayMs.optional() }),
  extend: z.strictObject({ token, leaseMs }),
}

const itemSchema = z
  .discriminatedUnion('action', [
    moves.complete.extend({ id: jobId, action: z.literal('complete') }),
    moves.retry.extend({ id: jobId, action: z.literal('retry') }),
    moves.fail.extend({ id: jobId, action: z.literal('fail') }),
    moves.release.extend({ id: jobId, action: z.literal('release') }),
    moves.extend.extend({ id: jobId, action: z.literal('extend') }),
  ])
  .meta({ id: 'Settlement' })

export const settleSchema = z
  .strictObject({
    items: z
      .array(z.unknown())
      .min(1)
      .max(MAX_ITEMS_PER_SETTLE)
      .meta({
        override: {
          type: 'array',
          minItems: 1,
          maxItems: MAX_ITEMS_PER_SETTLE,
          items: { $ref: '#/components/schemas/Settlement' },
        },
      }),
    claim: nextClaimSchema.optional(),
  })
  .meta({ id: 'Settle' })

const settledSchema = z
  .object({
    id: z.string(),
    status: z.enum(['completed', 'scheduled', 'dead', 'pending', 'extended']),
    delayMs: z.int().optional(),
    leaseMs: z.int().optional(),
  })
  .meta({ id: 'Settled' })

/** Schemas that the document names and no route holds whole. */
export const consumeComponents = { Settlement: itemSchema }

const claimedMembers = (queue: Queue, claimed: Claimed, format: As): string => {
  const jobs = claimed.jobs.map((job) => claimedJobText(queue.name, job, format))
  const hint = queue.hintMs(jobs.length, claimed.nextMs)
  const members = [`"jobs":[${jobs.join(',')}]`]
  if (jobs.length === 0) members.push(`"retryAfterMs":${hint}`)
  if (claimed.paused) members.push('"paused":true')
  return members.join(',')
}

/** Reads one item of a settle: what to do, or its result when it is malformed. */
function readItem(value: unknown): { settlement: Settlement } | { result: object } {
  const parsed = itemSchema.safeParse(value)
  if (parsed.success && isJobId(parsed.data.id)) return { settlement: parsed.data }
  const error = parsed.success
    ? itemError({ refused: 'wrong_kind' })
    : { code: 'invalid', detail: 'The item is malformed.', errors: fieldErrors(parsed.error) }
  const id = typeof value === 'object' && value !== null && 'id' in value ? value.id : null
  return { result: { id: typeof id === 'string' ? id : null, error } }
}

/** One move of a claimed job: `POST /v1/queues/{queue}/jobs/{id}/<action>`. */
function move<Body extends z.ZodType>(
  action: keyof typeof moves,
  summary: string,
  body: Body,
  handle: (queue: Queue, id: JobId, body: z.output<Body>) => Promise<object | Refusal>,
): Route {
  return route({
    method: 'POST',
    path: `/v1/queues/{queue}/jobs/{id}/${action}`,
    operationId: action,
    summary,
    scope: 'consume',
    body,
    responses: { 200: { description: 'The move was made', schema: settledSchema } },
    errors: ['stale', 'gone', 'wrong_kind'],
    handle: async ({ queue, id, body }) => ok(accepted(await handle(queue, id, body as z.output<Body>))),
  })
}

/** Settles one job by the batch script. */
async function settleOne(queue: Queue, item: Settlement): Promise<Settled | Refusal> {
  const { results } = await queue.settle([item])
  return results[0] as Settled | Refusal
}

export const consumeRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/claim',
    operationId: 'claim',
    summary: 'Claim jobs under a lease',
    description:
      'Without `limit` one job, by the script that all clients of the protocol share; with `limit` up to that many.',
    scope: 'consume',
    body: claimSchema,
    responses: { 200: { description: 'The jobs, perhaps none', schema: claimedSchema } },
    errors: ['overloaded'],
    handle: async ({ queue, body, request, database }) => {
      const { waitMs = 0, as: format = 'json', ...options } = body
      const endsAt = database.now() + waitMs
      const waiter = createPollingWaiter()
      for (;;) {
        const claimed = await queue.claim(options)
        const left = endsAt - database.now()
        const answer = () => ok(new JsonText(`{${claimedMembers(queue, claimed, format)}}`))
        if (claimed.jobs.length > 0 || left <= 0) return answer()
        await waiter.pause({ atMostMs: left, nextMs: claimed.nextMs, signal: request.signal })
        // Nobody is there any more to take a job: it must not be claimed.
        if (request.signal.aborted) return answer()
      }
    },
  }),
  move('complete', 'Retire a finished job', moves.complete, async (queue, id, { token }) => {
    const result = await queue.complete(id, token)
    return typeof result === 'string' ? { id, status: result } : result
  }),
  move(
    'retry',
    'Give a failed job back, to run again later',
    moves.retry,
    async (queue, id, { token, ...how }) => {
      const result = await queue.retry(id, token, how)
      if ('refused' in result) return result
      return result.status === 'dead' ? { id, status: 'dead' } : { id, ...result }
    },
  ),
  move('fail', 'Send a job straight to dead', moves.fail, (queue, id, body) =>
    settleOne(queue, { action: 'fail', id, ...body }),
  ),
  move('release', 'Give a job back without spending its budget', moves.release, async (queue, id, body) => {
    const result = await settleOne(queue, { action: 'release', id, ...body })
    return 'refused' in result ? result : { id, status: result.status }
  }),
  move('extend', "Extend a lease, counted from the server's now", moves.extend, (queue, id, body) =>
    settleOne(queue, { action: 'extend', id, ...body }),
  ),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/settle',
    operationId: 'settle',
    summary: 'Settle many jobs, and claim the next ones in the same call',
    scope: 'consume',
    body: settleSchema,
    responses: {
      200: {
        description: 'One result for each item, in input order, and the jobs that were claimed',
        schema: z.object({
          results: z.array(
            z.union([
              settledSchema,
              z.object({ id: z.string(), error: z.looseObject({ code: z.string() }) }),
            ]),
          ),
          jobs: claimedSchema.shape.jobs.optional(),
          retryAfterMs: z.int().optional(),
          paused: z.boolean().optional(),
        }),
      },
    },
    errors: [],
    handle: async ({ queue, body }) => {
      const { claim } = body
      const items = body.items.map(readItem)
      const settlements = items.flatMap((item) => ('settlement' in item ? [item.settlement] : []))
      const asksRedis = settlements.length > 0 || claim !== undefined
      const settled = asksRedis ? await queue.settle(settlements, claim) : { results: [] }
      const answers = settled.results.values()
      const results = items.map((item) => {
        if ('result' in item) return item.result
        const result = answers.next().value as Settled | Refusal
        return 'refused' in result ? { id: item.settlement.id, error: itemError(result) } : result
      })
      const members = [`"results":${JSON.stringify(results)}`]
      if (settled.claimed !== undefined)
        members.push(claimedMembers(queue, settled.claimed, claim?.as ?? 'json'))
      return ok(new JsonText(`{${members.join(',')}}`))
    },
  }),
]
