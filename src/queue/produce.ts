/**
 * Producing: one round trip for up to a thousand jobs, each with its own result.
 *
 * A lost reply is followed by a second request only under an idempotency key: one of the batch, or one of every job. If a
 * minted id belongs to another job, the script stores nothing, and the batch is sent again with other ids.
 */

import type { Minter } from '../protocol/ids.ts'
import { DEFAULT_IDEMPOTENCY_TTL_MS } from '../protocol/limits.ts'
import { accept, parseRefusal, type Result, refuse } from '../protocol/refusals.ts'
import { call } from '../protocol/script-call.ts'
import type { QueueRef } from './context.ts'
import { RedisError, repeatIfLost, UpstreamError } from './redis.ts'
import { registerQueue } from './registry.ts'
import { groups, list, optionalText, text } from './replies.ts'
import { run } from './scripts.ts'

/** A job to enqueue. The payload is stored unchanged. Instants are epoch ms. */
export type NewJob = {
  readonly payload: string
  readonly id?: string | undefined
  readonly delayMs?: number | undefined
  readonly runAt?: number | undefined
  /** A job that no consumer has started by then moves to dead. */
  readonly startBy?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly idempotencyKey?: string | undefined
  readonly idempotencyTtlMs?: number | undefined
}

/** The id of a duplicate is that of the first job. */
export type Enqueued = { readonly id: string; readonly status: 'enqueued' | 'scheduled' | 'duplicate' }

/** The idempotency key of a whole batch. */
export type BatchKey = { readonly key: string; readonly ttlMs?: number | undefined }

/** A job with its id, and whether the caller chose that id. */
type Sent = NewJob & { readonly id: string; readonly chosen: boolean }

/** The reply for one job. `taken`: its minted id is another job's, and nothing was stored. */
type Sending = Result<Enqueued> | 'taken'

/** More collisions in a row than this are no coincidence. */
const MAX_MINTS = 5

async function send(
  { port, queue }: QueueRef,
  jobs: readonly Sent[],
  batch: BatchKey | undefined,
): Promise<Sending[]> {
  const each = jobs.map(({ id, payload, delayMs, runAt, startBy, maxAttempts, chosen, ...job }) => ({
    ...{ id, payload, delayMs, runAt, startBy, maxAttempts },
    explicit: chosen,
    key: job.idempotencyKey,
    idempotencyTtlMs:
      job.idempotencyKey === undefined ? undefined : (job.idempotencyTtlMs ?? DEFAULT_IDEMPOTENCY_TTL_MS),
  }))
  const [, reply] = await run(port, [
    registerQueue(queue),
    call('enqueue_many', {
      q: queue,
      batchKey: batch?.key ?? '',
      batchTtlMs: batch && (batch.ttlMs ?? DEFAULT_IDEMPOTENCY_TTL_MS),
      each,
    }),
  ])
  const refused = reply instanceof RedisError ? parseRefusal(reply.text) : undefined
  if (refused !== undefined) return jobs.map(() => refuse(refused))
  const pairs = groups(list(reply), 2)
  if (pairs.length !== jobs.length) throw new UpstreamError('Redis returned too few results')
  return pairs.map(([word, id]) => {
    const status = text(word)
    if (status === 'taken') return status
    if (status === 'enqueued' || status === 'scheduled' || status === 'duplicate')
      return accept({ id: text(id), status })
    const refusal = parseRefusal(status)
    if (refusal === undefined) throw new UpstreamError('Redis returned an unknown status')
    return refuse(refusal)
  })
}

/** The statuses of jobs that are stored already. Only the row of a job with a run-at says whether it was due. */
async function statusesOf(
  { port, keys }: QueueRef,
  jobs: readonly Sent[],
): Promise<Map<string, Enqueued['status']>> {
  const asked = jobs.filter(({ runAt }) => runAt !== undefined)
  const reads = asked.map(({ id }) => ['HGET', keys.job(id), 'state'])
  // The jobs are stored, so a failure of this read is no failure of the enqueue.
  const replies = asked.length === 0 ? [] : await run(port, reads).catch(() => [])
  const states = new Map(asked.map(({ id }, nth) => [id, optionalText(replies[nth])]))
  return new Map(
    jobs.map(({ id, delayMs = 0 }) => {
      const isScheduled = delayMs > 0 || states.get(id) === 'scheduled'
      return [id, isScheduled ? 'scheduled' : 'enqueued']
    }),
  )
}

/**
 * Enqueues jobs in one round trip; the results are in their order. Safe to repeat only under an idempotency key: that of
 * the batch, or one of every job.
 */
export async function enqueueMany(
  context: QueueRef & { readonly minter: Minter },
  jobs: readonly NewJob[],
  batch?: BatchKey,
): Promise<Result<Enqueued>[]> {
  const { minter } = context
  const isRepeatable = batch !== undefined || jobs.every(({ idempotencyKey }) => idempotencyKey !== undefined)
  let sent = jobs.map((job): Sent => ({ ...job, id: job.id ?? minter.mint(), chosen: job.id !== undefined }))
  for (let mints = 0; mints < MAX_MINTS; mints++) {
    const attempt = () => send(context, sent, batch)
    const { result, repeated } = isRepeatable
      ? await repeatIfLost(attempt)
      : { result: await attempt(), repeated: false }
    const results = result.filter((answer) => answer !== 'taken')
    if (results.length === sent.length) return repeated ? ownStatuses(context, sent, results) : results
    minter.collided()
    sent = sent.map((job, nth) => (result[nth] === 'taken' ? { ...job, id: minter.mint() } : job))
  }
  throw new Error('Every minted id is taken: the minter is broken')
}

/** After a lost reply, a duplicate with the id that was minted here is the job of the first request. */
async function ownStatuses(
  context: QueueRef,
  sent: readonly Sent[],
  results: readonly Result<Enqueued>[],
): Promise<Result<Enqueued>[]> {
  const own = sent.filter(({ id, chosen }, nth) => {
    const result = results[nth]
    return !chosen && result?.ok && result.value.status === 'duplicate' && result.value.id === id
  })
  const statuses = await statusesOf(context, own)
  return results.map((result) => {
    const status = result.ok ? statuses.get(result.value.id) : undefined
    return result.ok && status !== undefined ? accept({ ...result.value, status }) : result
  })
}
