/** Producing: one job, or many of which each answers for itself. */
import * as z from 'zod'
import { classifyJobId } from '../protocol/ids.ts'
import {
  MAX_DELAY_MS,
  MAX_IDEMPOTENCY_TTL_MS,
  MAX_JOBS_PER_ENQUEUE,
  MIN_IDEMPOTENCY_TTL_MS,
} from '../protocol/limits.ts'
import type { Refusal } from '../protocol/refusals.ts'
import type { Enqueued, NewJob } from '../queue/produce.ts'
import { ProblemError } from './problem.ts'
import { accepted, itemError } from './refusal.ts'
import { type Answer, type Call, ok, route } from './route.ts'
import { delayMs, idempotencyKey, instant, integer, maxAttempts } from './schemas.ts'
import { fieldErrors } from './validate.ts'

/** The members that a job may have; whether they go together is seen to below. */
export const jobSchema = z
  .strictObject({
    payload: z.unknown().optional().meta({ description: 'Any JSON value; stored as its JSON text' }),
    text: z.string().optional().meta({ description: 'Stored verbatim' }),
    id: z
      .string()
      .refine((id) => classifyJobId(id) !== 'ill-formed', 'must be JOB and 11 base62 digits')
      .meta({ override: { type: 'string', pattern: '^JOB[0-9A-Za-z]{11}$' } })
      .optional(),
    delayMs: delayMs.optional(),
    runAt: instant.optional(),
    startBy: instant.optional(),
    idempotencyKey: idempotencyKey.optional(),
    idempotencyTtlMs: integer(MIN_IDEMPOTENCY_TTL_MS, MAX_IDEMPOTENCY_TTL_MS).optional(),
    maxAttempts: maxAttempts.optional(),
  })
  .superRefine((job, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if ('payload' in job === 'text' in job) refuse('payload', 'exactly one of payload and text must be given')
    if (job.delayMs !== undefined && job.runAt !== undefined)
      refuse('runAt', 'delayMs and runAt exclude each other')
  })
  .meta({ id: 'NewJob' })

const manySchema = z
  .strictObject({ jobs: z.array(z.unknown()).min(1).max(MAX_JOBS_PER_ENQUEUE) })
  .meta({ id: 'NewJobs' })

const bodySchema = z.unknown()

const enqueuedSchema = z
  .object({ id: z.string(), status: z.enum(['enqueued', 'scheduled', 'duplicate']) })
  .meta({ id: 'Enqueued' })
const itemErrorSchema = z
  .object({ error: z.object({ code: z.string(), detail: z.string() }) })
  .meta({ id: 'ItemError' })
const manyResultSchema = z
  .object({ results: z.array(z.union([enqueuedSchema, itemErrorSchema])) })
  .meta({ id: 'EnqueuedMany' })

const utf8 = new TextEncoder()

/** Reads one job; `payloadText` is the exact text of its payload. Throws a problem that names the fields. */
function readJob(
  value: unknown,
  payloadText: string | undefined,
  { maxPayloadBytes, nowMs }: { maxPayloadBytes: number; nowMs: number },
): NewJob {
  const parsed = jobSchema.safeParse(value)
  if (!parsed.success)
    throw new ProblemError('invalid', 'The job is malformed.', { errors: fieldErrors(parsed.error) })
  const { text, payload: _, ...job } = parsed.data
  for (const field of ['runAt', 'startBy'] as const) {
    // An absolute time is the one thing that a clock other than the server's may price.
    if ((job[field] ?? 0) - nowMs > MAX_DELAY_MS)
      throw new ProblemError('invalid', 'The job is malformed.', {
        errors: [{ path: field, message: 'is more than 366 days ahead' }],
      })
  }
  if (job.id !== undefined && classifyJobId(job.id) === 'other-kind')
    accepted<never>({ refused: 'wrong_kind' })
  const payload = payloadText ?? text ?? ''
  // One UTF-16 unit is at least one byte: what is longer than the limit need not be encoded to be counted.
  if (payload.length > maxPayloadBytes || utf8.encode(payload).length > maxPayloadBytes)
    throw new ProblemError('too_large', `The payload is larger than ${maxPayloadBytes} bytes.`)
  return { ...job, payload }
}

const isMany = (value: unknown): boolean => typeof value === 'object' && value !== null && 'jobs' in value

async function enqueueMany({ json, settings, database, queue }: Call<unknown, unknown>): Promise<Answer> {
  const parsed = manySchema.safeParse(json?.value)
  if (!parsed.success)
    throw new ProblemError('invalid', 'The body is malformed.', { errors: fieldErrors(parsed.error) })
  const limits = { maxPayloadBytes: settings.limits.maxPayloadBytes, nowMs: database.now() }
  const results: unknown[] = []
  const good: { job: NewJob; index: number }[] = []
  for (const [index, value] of parsed.data.jobs.entries()) {
    try {
      good.push({ job: readJob(value, json?.jobPayloadTexts?.[index], limits), index })
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error
      const { code, detail, errors } = error.problem
      results[index] = { error: { code, detail, ...(errors === undefined ? {} : { errors }) } }
    }
  }
  const enqueued = good.length === 0 ? [] : await queue.enqueueMany(good.map(({ job }) => job))
  for (const [nth, { index }] of good.entries()) {
    const result = enqueued[nth] as Enqueued | Refusal
    results[index] = 'refused' in result ? { error: itemError(result) } : result
  }
  return ok({ results })
}

async function enqueueOne(call: Call<unknown, unknown>): Promise<Answer> {
  const { json, request, settings, database, queue } = call
  const limits = { maxPayloadBytes: settings.limits.maxPayloadBytes, nowMs: database.now() }
  const value = withHeaderKey(json?.value, request.headers.get('Idempotency-Key'))
  const [result] = await queue.enqueueMany([readJob(value, json?.payloadText, limits)])
  const enqueued = accepted(result as Enqueued | Refusal)
  return { status: enqueued.status === 'duplicate' ? 200 : 201, body: enqueued }
}

/** The header `Idempotency-Key` is the field `idempotencyKey`; both, and different, is an error. */
function withHeaderKey(value: unknown, header: string | null): unknown {
  if (header === null || typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if ('idempotencyKey' in value && value.idempotencyKey !== header)
    throw new ProblemError('invalid', 'The job is malformed.', {
      errors: [{ path: 'idempotencyKey', message: 'differs from the header Idempotency-Key' }],
    })
  return { ...value, idempotencyKey: header }
}

export const produceRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/jobs',
    operationId: 'enqueue',
    summary: 'Enqueue one job, or up to 1000',
    scope: 'produce',
    body: bodySchema.meta({
      override: {
        anyOf: [{ $ref: '#/components/schemas/NewJob' }, { $ref: '#/components/schemas/NewJobs' }],
      },
    }),
    responses: {
      201: { description: 'The job is enqueued or scheduled', schema: enqueuedSchema },
      200: {
        description: 'A duplicate, with the id of the first job; or the results of many, in input order',
        schema: z.union([enqueuedSchema, manyResultSchema]),
      },
    },
    errors: ['wrong_kind', 'overloaded'],
    handle: (call) => {
      if (call.json === undefined) throw new ProblemError('invalid', 'A body is required.')
      return isMany(call.json.value) ? enqueueMany(call) : enqueueOne(call)
    },
  }),
]
