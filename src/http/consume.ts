/** Consuming: claims, and the moves of claimed jobs. */
import * as z from 'zod'
import { isJobId, type JobId } from '../protocol/ids.ts'
import { FlawedElement, JsonText } from '../protocol/json-text.ts'
import { MAX_ITEMS_PER_SETTLE, MAX_JOBS_PER_CLAIM, MAX_WAIT_MS } from '../protocol/limits.ts'
import type { Result } from '../protocol/refusals.ts'
import type { Claimed, Settled, Settlement } from '../queue/consume.ts'
import type { Queue } from '../queue/database.ts'
import { takePlace } from '../wake/places.ts'
import { waitForJobs } from '../wake/wait.ts'
import { type As, claimedJobText } from './jobs-json.ts'
import { accepted, refusalProblem } from './refusal.ts'
import { ok, type Route, route, success } from './route.ts'
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
import { type Element, element } from './validate.ts'

const claimMembers = {
  leaseMs: leaseMs
    .optional()
    .describe("Length of the lease in ms. Default: the queue's `leaseMs`, else 30000."),
  limit: integer(1, MAX_JOBS_PER_CLAIM)
    .optional()
    .describe('Claims up to this many jobs. Default: one job, by the script of the wire contract.'),
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
        'Holds the request until there is a job, at most for this time in ms. A caller that hangs up ends the wait.',
      default: 0,
    }),
  })
  .refine(needsLimit, { path: ['claimId'], message: 'needs limit' })
  .meta({ id: 'Claim', override: { dependentRequired: { claimId: ['limit'] } } })

const nextClaimSchema = z
  .strictObject({
    ...claimMembers,
    limit: integer(1, MAX_JOBS_PER_CLAIM).describe('Claims up to this many jobs.'),
  })
  .meta({ id: 'NextClaim', description: 'The claim of the next jobs in the same call.' })

/** The fields of a claim that returns no job. */
const emptyMembers = {
  retryAfterMs: z
    .int()
    .optional()
    .describe('Without jobs: when to claim again, in ms. It grows while the queue stays empty.'),
  more: z
    .literal(true)
    .optional()
    .describe(
      'Without jobs: the claim stopped early, because it removed many ghosts or expired jobs. The queue may not be empty: claim again at once.',
    ),
  paused: z.literal(true).optional().describe('Present if the queue is paused.'),
}

const claimedSchema = z
  .object({
    jobs: z.array(
      z
        .object({
          id: jobId,
          queue: z.string(),
          token: z.int().describe('The fencing token. Every move of the job needs it.'),
          leaseMs: z.int().describe('The remaining time of the lease, in ms.'),
          enqueuedAt: z.iso.datetime().describe('The mint time of the id.'),
          attempt: z
            .int()
            .optional()
            .describe('Which attempt of its budget this is, from 1. Only of claims with `limit`.'),
          maxAttempts: z
            .int()
            .optional()
            .describe('The budget of the job. 0: no limit. Only of claims with `limit`.'),
          headers: z
            .record(z.string(), z.string())
            .optional()
            .describe('What the producer gave with the job. Only of claims with `limit`.'),
          ...payloadMembers,
        })
        .meta({ id: 'ClaimedJob', description: 'A job that you own until its lease runs out.' }),
    ),
    ...emptyMembers,
  })
  .meta({ id: 'Claimed' })

const moves = {
  complete: z.strictObject({ token }),
  retry: z.strictObject({
    token,
    error: errorText.optional(),
    delayMs: delayMs
      .optional()
      .describe("Milliseconds until the next attempt. Default: the queue's backoff, with full jitter."),
    maxAttempts: maxAttempts
      .optional()
      .describe("Retry budget for this retry. Default: the job's, else the queue's. 0: no limit."),
  }),
  fail: z.strictObject({ token, error: errorText.optional() }),
  release: z.strictObject({
    token,
    delayMs: delayMs
      .optional()
      .meta({ description: 'Milliseconds until the job can be claimed again.', default: 0 }),
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
  .meta({ id: 'Settlement', description: 'The move of one claimed job.' })

const settleSchema = z.strictObject({
  items: z.array(element(itemSchema, 'item')).min(1).max(MAX_ITEMS_PER_SETTLE),
  claim: nextClaimSchema.optional(),
})

const completed = z.object({ id: jobId, status: z.literal('completed') })
const scheduled = z.object({ id: jobId, status: z.literal('scheduled'), delayMs: z.int() })
const dead = z.object({ id: jobId, status: z.literal('dead') })
const pending = z.object({ id: jobId, status: z.literal('pending') })
const extended = z.object({ id: jobId, status: z.literal('extended'), leaseMs: z.int() })

/** The responses of the moves. */
const answers = {
  complete: completed,
  retry: z.union([scheduled, dead]),
  fail: dead,
  release: z.object({ id: jobId, status: z.enum(['pending', 'scheduled']) }),
  extend: extended,
}

const settledSchema = z
  .union([completed, scheduled, dead, pending, extended])
  .meta({ id: 'Settled', description: 'The new state of one job.' })

const settleResultSchema = z
  .object({
    results: z
      .array(z.union([settledSchema, z.object({ id: z.string().nullable(), error: itemErrorSchema })]))
      .describe('One for each item, in input order. The id is null if the item has no usable id.'),
    jobs: claimedSchema.shape.jobs.optional().describe('With `claim`: the next jobs, if there are any.'),
    ...emptyMembers,
  })
  .meta({ id: 'SettleResult' })

const claimedMembers = (queue: Queue, { jobs, more, paused, nextMs }: Claimed, format: As): string => {
  const hintMs = more ? 0 : queue.hintMs(jobs.length, nextMs)
  const members = [`"jobs":[${jobs.map((job) => claimedJobText(queue.name, job, format)).join(',')}]`]
  if (jobs.length === 0) members.push(more ? '"more":true' : `"retryAfterMs":${hintMs}`)
  if (paused) members.push('"paused":true')
  return members.join(',')
}

/** Characters of an unusable id that its result repeats. */
const MAX_ECHO_CHARS = 64

/** A claim under a name of its own: two tokens that choose the same claimId make two claims. A claimId has no blank. */
const ownClaim = <Claim extends { readonly claimId?: string | undefined }>(
  claim: Claim,
  token: string,
): Claim => (claim.claimId === undefined ? claim : { ...claim, claimId: `${claim.claimId} ${token}` })

/** The id of an item that is rejected; null if it has none. Of an id that was sent twice, none is certain. */
function sentId(sent: unknown): string | null {
  if (sent instanceof FlawedElement) return sent.flaw.path === 'id' ? null : sentId(sent.value)
  const hasId = typeof sent === 'object' && sent !== null && 'id' in sent && typeof sent.id === 'string'
  return hasId ? (sent.id as string).slice(0, MAX_ECHO_CHARS) : null
}

/** An item: its move, or its result if it is rejected. */
function readItem(item: Element<z.output<typeof itemSchema>>): { move: Settlement } | { result: object } {
  if ('problem' in item) return { result: { id: sentId(item.sent), error: item.problem } }
  const { id } = item.value
  if (isJobId(id)) return { move: item.value }
  return { result: { id, error: refusalProblem({ refused: 'wrong_kind' }) } }
}

/** One move of a claimed job: `POST /v1/queues/{queue}/jobs/{id}/<action>`. */
function move<Body extends z.ZodType>(
  action: keyof typeof moves,
  summary: string,
  description: string,
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
    responses: success('The job has moved', answers[action]),
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
      'Returns the oldest pending jobs, each with a lease and a fencing token. Settle each job before its lease runs out, or extend the lease; else another consumer gets the job. An empty or paused queue returns no job.\n\nWithout `limit`, one job is claimed by the script that all clients of the wire contract share: a repeat after a lost response claims another job, and the first job returns when its lease lapses. With `limit`, the request also sweeps the queue, and with a `claimId` it is safe to repeat. A batch stops short of 4 MiB of payload, as JSON writes it.',
    scope: 'consume',
    body: claimSchema,
    responses: success('The jobs, if there are any', claimedSchema),
    handle: async ({ queue, body, request, database, wake, settings, grant }) => {
      const { waitMs = 0, as: format = 'json', ...asked } = body
      const options = ownClaim(asked, grant.name)
      const { maxWaiting, relookMs } = settings.limits
      const place = waitMs > 0 ? takePlace(grant.name, maxWaiting) : undefined
      const hold = queue.hold(options.claimId)
      try {
        const claimed = await waitForJobs(() => queue.claim(options), {
          queue: queue.name,
          // Beyond the limit of waiting claims a claim is answered at once.
          waitMs: place === undefined ? 0 : waitMs,
          relookMs,
          wasBusy: queue.wasBusy(),
          wake,
          signal: request.signal,
          isWanted: hold.isNewest,
          now: database.now,
        })
        return ok(new JsonText(`{${claimedMembers(queue, claimed, format)}}`))
      } finally {
        hold.end()
        place?.leave()
      }
    },
  }),
  move(
    'complete',
    'Complete a job',
    'Deletes the job. A consumer whose lease ran out can still complete the job, unless it was reaped or claimed again. Safe to repeat: the second response is 410 `gone`.',
    moves.complete,
    (queue, id, { token }) => queue.complete(id, token),
  ),
  move(
    'retry',
    'Retry a failed job later',
    'Schedules the job after its backoff (exponential, with full jitter), or moves it to dead if its budget is used up. Safe to repeat: the second response is 409 `stale`, `released`.',
    moves.retry,
    (queue, id, { token, ...how }) => queue.retry(id, token, how),
  ),
  move(
    'fail',
    'Move a job to dead at once',
    'For a job that no further attempt can complete. It stays dead until it is redriven or removed. Safe to repeat: the second response is 409 `stale`, `released`.',
    moves.fail,
    (queue, id, { token, error }) => queue.fail(id, token, error),
  ),
  move(
    'release',
    'Give a job back without using its budget',
    'For a consumer that stops, or cannot do the job now. The attempt does not count. Safe to repeat: the second response is 409 `stale`, `released`.',
    moves.release,
    async (queue, id, { token, delayMs }) => {
      const result = await queue.release(id, token, delayMs)
      return result.ok ? { ok: true, value: { id, status: result.value.status } } : result
    },
  ),
  move(
    'extend',
    'Extend a lease',
    "The lease then ends `leaseMs` after the server's now, whatever its remaining time. A lease that ran out can be extended until the job is reaped. Safe to repeat.",
    moves.extend,
    (queue, id, { token, leaseMs }) => queue.extend(id, token, leaseMs),
  ),
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/settle',
    operationId: 'settle',
    summary: 'Settle many jobs, and claim the next ones in the same call',
    description:
      'Up to 1000 moves of claimed jobs, in any mixture. Each item has its own result, and a bad item stops no other item. With `claim`, the response also contains the next jobs. The moves are as safe to repeat as single moves; give the claim a `claimId`.',
    scope: 'consume',
    body: settleSchema,
    responses: success('One result for each item, and the claimed jobs', settleResultSchema),
    handle: async ({ queue, grant, body: { items, claim } }) => {
      const read = items.map(readItem)
      const moves = read.flatMap((item) => ('move' in item ? [item.move] : []))
      const asksRedis = moves.length > 0 || claim !== undefined
      const settled = asksRedis
        ? await queue.settle(moves, claim && ownClaim(claim, grant.name))
        : { results: [] }
      const answers = settled.results.values()
      const results = read.map((item) => {
        if ('result' in item) return item.result
        const result = answers.next().value as Result<Settled>
        return result.ok ? result.value : { id: item.move.id, error: refusalProblem(result.refusal) }
      })
      const members = [`"results":${JSON.stringify(results)}`]
      if (settled.claimed !== undefined)
        members.push(claimedMembers(queue, settled.claimed, claim?.as ?? 'json'))
      return ok(new JsonText(`{${members.join(',')}}`))
    },
  }),
]
