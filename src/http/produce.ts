/** Producing: one job, or many of which each answers for itself. */
import * as z from 'zod'
import { isJobId } from '../protocol/ids.ts'
import {
  DEFAULT_IDEMPOTENCY_TTL_MS,
  MAX_IDEMPOTENCY_TTL_MS,
  MAX_JOBS_PER_ENQUEUE,
  MIN_IDEMPOTENCY_TTL_MS,
} from '../protocol/limits.ts'
import type { Result } from '../protocol/refusals.ts'
import type { Queue } from '../queue/database.ts'
import type { Enqueued, NewJob } from '../queue/produce.ts'
import { findingProblem } from './body.ts'
import { ProblemError } from './problem.ts'
import { accepted, itemError, refused } from './refusal.ts'
import { type Answer, type Call, ok, route } from './route.ts'
import {
  delayMs,
  exactlyOne,
  idempotencyKey,
  instant,
  integer,
  itemErrorSchema,
  jobId,
  maxAttempts,
  refuseTooFarAhead,
} from './schemas.ts'
import { validate } from './validate.ts'

/** The members that a job may have; whether they go together is seen to below. */
const jobSchema = z
  .strictObject({
    payload: z.unknown().optional().meta({
      description:
        'Any JSON value, kept as the text it was sent as: numbers keep their digits. What cannot be kept exactly (a lone surrogate, a key given twice) is refused.',
    }),
    text: z.string().optional().meta({ description: 'Text, kept verbatim.' }),
    id: jobId.optional().meta({
      description: 'An id of your own choice. One that is taken is a `duplicate`. Default: a fresh one.',
    }),
    delayMs: delayMs.optional(),
    runAt: instant
      .optional()
      .meta({ description: 'When it becomes due, at most 366 days ahead. Excludes `delayMs`.' }),
    startBy: instant.optional().meta({
      description:
        'A job that nobody has started by then goes to dead with `lastError` `expired`, instead of being handed out late.',
    }),
    idempotencyKey: idempotencyKey.optional(),
    idempotencyTtlMs: integer(MIN_IDEMPOTENCY_TTL_MS, MAX_IDEMPOTENCY_TTL_MS)
      .optional()
      .meta({ description: 'The window of the key.', default: DEFAULT_IDEMPOTENCY_TTL_MS }),
    maxAttempts: maxAttempts.optional(),
  })
  .superRefine((job, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if ('payload' in job === 'text' in job) refuse('payload', 'exactly one of payload and text must be given')
    if (job.delayMs !== undefined && job.runAt !== undefined)
      refuse('runAt', 'delayMs and runAt exclude each other')
  })
  .meta({
    id: 'NewJob',
    description: 'A job, with exactly one of `payload` and `text`.',
    override: exactlyOne('payload', 'text'),
  })

const jobsOf = <Job extends z.ZodType>(job: Job) =>
  z
    .strictObject({ jobs: z.array(job).min(1).max(MAX_JOBS_PER_ENQUEUE) })
    .meta({ description: 'Many jobs, each of which answers for itself.' })

const manySchema = jobsOf(z.unknown())

const newSchema = z.object({ id: jobId, status: z.enum(['enqueued', 'scheduled']) })
const duplicateSchema = z
  .object({ id: jobId, status: z.literal('duplicate') })
  .meta({ id: 'Duplicate', description: 'The job was enqueued before, under this id. Nothing was changed.' })
const manyResultSchema = z
  .object({ results: z.array(z.union([newSchema, duplicateSchema, z.object({ error: itemErrorSchema })])) })
  .meta({ id: 'EnqueuedMany', description: 'One result for each job, in input order.' })

const utf8 = new TextEncoder()

type JobLimits = { readonly maxPayloadBytes: number; readonly nowMs: number }

/** Reads one job; `payloadText` is the exact text of its payload. Throws a problem that names the fields. */
function readJob(value: unknown, payloadText: string | undefined, limits: JobLimits): NewJob {
  const { text = '', payload: _, ...job } = validate(jobSchema, value, 'job')
  refuseTooFarAhead(job.runAt, limits.nowMs)
  if (job.id !== undefined && !isJobId(job.id)) throw refused({ refused: 'wrong_kind' })
  const payload = payloadText ?? text
  // One UTF-16 unit is at least one byte: what is longer than the limit need not be encoded to be counted.
  if (payload.length > limits.maxPayloadBytes || utf8.encode(payload).length > limits.maxPayloadBytes)
    throw new ProblemError('too_large', `The payload is larger than ${limits.maxPayloadBytes} bytes.`)
  return { ...job, payload }
}

const limitsOf = ({ settings, database }: Pick<Call, 'settings' | 'database'>): JobLimits => ({
  maxPayloadBytes: settings.limits.maxPayloadBytes,
  nowMs: database.now(),
})

type EnqueueCall = Call<unknown, unknown, Queue, undefined>

async function enqueueMany(call: EnqueueCall): Promise<Answer> {
  const { jobs } = validate(manySchema, call.body, 'body')
  const limits = limitsOf(call)
  const results: unknown[] = []
  const good: { job: NewJob; index: number }[] = []
  for (const [index, value] of jobs.entries()) {
    try {
      const finding = call.json?.elementFindings?.get(index)
      if (finding !== undefined) throw findingProblem(finding)
      good.push({ job: readJob(value, call.json?.jobPayloadTexts?.[index], limits), index })
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error
      results[index] = { error: error.problem }
    }
  }
  const enqueued = good.length === 0 ? [] : await call.queue.enqueueMany(good.map(({ job }) => job))
  for (const [nth, { index }] of good.entries()) {
    const result = enqueued[nth] as Result<Enqueued>
    results[index] = result.ok ? result.value : { error: itemError(result.refusal) }
  }
  return ok({ results })
}

async function enqueueOne(call: EnqueueCall): Promise<Answer> {
  const value = withHeaderKey(call.body, call.request.headers.get('Idempotency-Key'))
  const [result] = await call.queue.enqueueMany([readJob(value, call.json?.payloadText, limitsOf(call))])
  const enqueued = accepted(result as Result<Enqueued>)
  return { status: enqueued.status === 'duplicate' ? 200 : 201, body: enqueued }
}

/** The header `Idempotency-Key` is the field `idempotencyKey` of a single job; both, and different, is an error. */
function withHeaderKey(value: unknown, header: string | null): unknown {
  if (header === null || typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if ('idempotencyKey' in value && value.idempotencyKey !== header)
    throw keyProblem('differs from the header Idempotency-Key')
  return { ...value, idempotencyKey: header }
}

const keyProblem = (message: string): ProblemError =>
  new ProblemError('invalid', 'The job is malformed.', { errors: [{ path: 'idempotencyKey', message }] })

const isMany = (value: unknown): boolean => typeof value === 'object' && value !== null && 'jobs' in value

export const produceRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/jobs',
    operationId: 'enqueue',
    summary: 'Enqueue one job, or up to 1000',
    description:
      'One job, or `{"jobs": [...]}` with up to 1000, of which each answers for itself: a bad one stops no other.\n\nA job with `delayMs` or `runAt` waits in the schedule, any other is pending at once; pending jobs are handed out in the order of their ids.\n\nSafe to repeat with an `idempotencyKey` or an `id` of your own: the repeat answers `duplicate`. Without either, a repeat after a lost answer may make a second job.',
    scope: 'produce',
    headers: { 'Idempotency-Key': idempotencyKey },
    body: z.unknown(),
    wholeBody: z.union([jobSchema, jobsOf(jobSchema)]),
    responses: {
      201: { description: 'The job is enqueued or scheduled', schema: newSchema },
      200: {
        description: 'A duplicate, with the id of the first job; or the results of many, in input order',
        schema: z.union([duplicateSchema, manyResultSchema]),
      },
    },
    errors: ['wrong_kind', 'overloaded'],
    handle: (call) => {
      if (!isMany(call.body)) return enqueueOne(call)
      // One key for many jobs would say of all but the first that they are duplicates.
      if (call.request.headers.has('Idempotency-Key'))
        throw keyProblem('the header Idempotency-Key goes with a single job only')
      return enqueueMany(call)
    },
  }),
]
