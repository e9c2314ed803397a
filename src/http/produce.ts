/** Producing: one job, or many jobs with one result each. */
import * as z from 'zod'
import { isJobId } from '../protocol/ids.ts'
import { JsonText } from '../protocol/json-text.ts'
import { isIdempotencyKey } from '../protocol/keys.ts'
import {
  DEFAULT_IDEMPOTENCY_TTL_MS,
  MAX_IDEMPOTENCY_TTL_MS,
  MAX_JOBS_PER_ENQUEUE,
  MIN_IDEMPOTENCY_TTL_MS,
} from '../protocol/limits.ts'
import type { Result } from '../protocol/refusals.ts'
import type { Queue } from '../queue/database.ts'
import type { Enqueued, NewJob } from '../queue/produce.ts'
import { ProblemError } from './problem.ts'
import { accepted, refusalProblem, refused } from './refusal.ts'
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
  rejectTooFarAhead,
} from './schemas.ts'
import { element } from './validate.ts'

const idempotencyTtlMs = integer(MIN_IDEMPOTENCY_TTL_MS, MAX_IDEMPOTENCY_TTL_MS).meta({
  description: 'The window of the key, in ms.',
  default: DEFAULT_IDEMPOTENCY_TTL_MS,
})

const jobSchema = z
  .strictObject({
    payload: z
      .instanceof(JsonText)
      .optional()
      .describe(
        'Any JSON value, stored as the text that was sent: numbers keep their digits. A value that cannot be kept exactly (a lone surrogate, a key given twice) is rejected.',
      ),
    text: z.string().optional().describe('Text, stored verbatim.'),
    id: jobId
      .optional()
      .describe('An id of your choice. If it is taken, the job is a `duplicate`. Default: a new id.'),
    delayMs: delayMs.optional(),
    runAt: instant
      .optional()
      .describe('When the job is due, at most 366 days ahead. Not together with `delayMs`.'),
    startBy: instant
      .optional()
      .describe(
        'A job that no consumer has started by then moves to dead with `lastError` `expired`, instead of being delivered late.',
      ),
    idempotencyKey: idempotencyKey.optional(),
    idempotencyTtlMs: idempotencyTtlMs.optional(),
    maxAttempts: maxAttempts.optional(),
  })
  .superRefine((job, context) => {
    const reject = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if ('payload' in job === 'text' in job) reject('payload', 'send exactly one of payload and text')
    if (job.delayMs !== undefined && job.runAt !== undefined)
      reject('runAt', 'send only one of delayMs and runAt')
  })
  .meta({
    id: 'NewJob',
    description: 'A job, with exactly one of `payload` and `text`.',
    override: exactlyOne('payload', 'text'),
  })

type Job = z.output<typeof jobSchema>

const manySchema = z
  .strictObject({
    jobs: z.array(element(jobSchema, 'job')).min(1).max(MAX_JOBS_PER_ENQUEUE),
    idempotencyKey: idempotencyKey
      .optional()
      .describe(
        'One key for the whole batch. A repeat returns the results of the first request and creates nothing.',
      ),
    idempotencyTtlMs: idempotencyTtlMs.optional(),
  })
  .describe('Many jobs. A bad job stops no other.')

const newSchema = z.object({ id: jobId, status: z.enum(['enqueued', 'scheduled']) })
const duplicateSchema = z
  .object({ id: jobId, status: z.literal('duplicate') })
  .meta({ id: 'Duplicate', description: 'The job was enqueued before, with this id. Nothing changed.' })
const manyResultSchema = z
  .object({ results: z.array(z.union([newSchema, duplicateSchema, z.object({ error: itemErrorSchema })])) })
  .meta({ id: 'EnqueuedMany', description: 'One result for each job, in input order.' })

const utf8 = new TextEncoder()

type EnqueueCall = Call<unknown, unknown, Queue, undefined>

/** A valid job as it is stored. Throws if it breaks a limit that no schema knows. */
function newJob({ payload, text = '', ...job }: Job, { settings, database }: EnqueueCall): NewJob {
  rejectTooFarAhead(job.runAt, database.now())
  if (job.id !== undefined && !isJobId(job.id)) throw refused({ refused: 'wrong_kind' })
  const stored = payload?.text ?? text
  const { maxPayloadBytes } = settings.limits
  // Each UTF-16 unit takes at least one byte: a text longer than the limit need not be encoded.
  if (stored.length > maxPayloadBytes || utf8.encode(stored).length > maxPayloadBytes)
    throw new ProblemError('too_large', `The payload is larger than the limit of ${maxPayloadBytes} bytes.`)
  return { ...job, payload: stored }
}

async function enqueueMany(body: z.output<typeof manySchema>, call: EnqueueCall): Promise<Answer> {
  const key = keyOf(body, call.request.headers.get('Idempotency-Key'))
  const batch = key === undefined ? undefined : { key, ttlMs: body.idempotencyTtlMs }
  const jobs = body.jobs.map((element): NewJob | ProblemError['problem'] => {
    if ('problem' in element) return element.problem
    try {
      return newJob(element.value, call)
    } catch (error) {
      if (error instanceof ProblemError) return error.problem
      throw error
    }
  })
  const good = jobs.filter((job) => 'payload' in job)
  const stored = good.length === 0 ? [] : await call.queue.enqueueMany(good, batch)
  if (stored.some((result) => !result.ok && result.refusal.refused === 'key_reused'))
    throw keyProblem('belongs to a batch of another size')
  const enqueued = stored.values()
  const results = jobs.map((job) => {
    if (!('payload' in job)) return { error: job }
    const result = enqueued.next().value as Result<Enqueued>
    return result.ok ? result.value : { error: refusalProblem(result.refusal) }
  })
  return ok({ results })
}

async function enqueueOne(job: Job, call: EnqueueCall): Promise<Answer> {
  const idempotencyKey = keyOf(job, call.request.headers.get('Idempotency-Key'))
  const [result] = await call.queue.enqueueMany([newJob({ ...job, idempotencyKey }, call)])
  const enqueued = accepted(result as Result<Enqueued>)
  return { status: enqueued.status === 'duplicate' ? 200 : 201, body: enqueued }
}

/** The idempotency key of a request, from its field or from the header. */
function keyOf(
  { idempotencyKey }: { idempotencyKey?: string | undefined },
  header: string | null,
): string | undefined {
  if (header === null) return idempotencyKey
  if (!isIdempotencyKey(header)) throw keyProblem('the header must match [A-Za-z0-9._:-]{1,255}')
  if ((idempotencyKey ?? header) !== header) throw keyProblem('differs from the header Idempotency-Key')
  return header
}

const keyProblem = (message: string): ProblemError =>
  new ProblemError('invalid', 'Invalid idempotency key.', { errors: [{ path: 'idempotencyKey', message }] })

export const produceRoutes = [
  route({
    method: 'POST',
    path: '/v1/queues/{queue}/jobs',
    operationId: 'enqueue',
    summary: 'Enqueue one job, or up to 1000',
    description:
      'One job, or `{"jobs": [...]}` with up to 1000 jobs. A bad job stops no other job.\n\nA job with `delayMs` or `runAt` is scheduled; any other job is pending at once. Pending jobs are claimed in the order of their ids.\n\nSafe to repeat under an `idempotencyKey`, of the job or of the whole batch: the repeat returns `duplicate`, whatever became of the jobs. Without a key, a repeat after a lost response can create a second job.',
    scope: 'produce',
    headers: { 'Idempotency-Key': idempotencyKey },
    body: z.union([manySchema, jobSchema]),
    responses: {
      201: { description: 'The job is enqueued or scheduled', schema: newSchema },
      200: {
        description: 'A duplicate, with the id of the first job; or one result for each of many jobs',
        schema: z.union([duplicateSchema, manyResultSchema]),
      },
    },
    errors: ['wrong_kind', 'overloaded'],
    handle: (call) => {
      if (!('jobs' in call.body)) return enqueueOne(call.body, call)
      return enqueueMany(call.body, call)
    },
  }),
]
