/**
 * Producing: one round trip for up to a thousand jobs, each with its own result.
 *
 * When an id that was minted here is taken, two minters have collided: it is no duplicate, and the job gets another id,
 * so that it is not lost. When the answer was lost, jobs with minted ids are sent once more as they are, and an id that
 * is taken then is the job itself. Jobs with ids of the caller are not repeated: only the caller can tell the cases apart.
 */

import type { Minter } from '../protocol/ids.ts'
import { DEFAULT_IDEMPOTENCY_TTL_MS } from '../protocol/limits.ts'
import { accept, parseRefusal, type Result, refuse } from '../protocol/refusals.ts'
import { call } from '../protocol/script-call.ts'
import type { QueueRef } from './context.ts'
import { repeatIfLost, UpstreamError } from './redis.ts'
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

/** A job with its id, whether the caller chose that id, and the index of its result. */
type Sent = NewJob & { readonly id: string; readonly chosen: boolean; readonly index: number }

/** More collisions in a row than this are no coincidence. */
const MAX_MINTS = 5

async function send({ port, queue }: QueueRef, jobs: readonly Sent[]): Promise<Result<Enqueued>[]> {
  const each = jobs.map(({ id, payload, delayMs, runAt, startBy, maxAttempts, chosen, ...job }) => ({
    ...{ id, payload, delayMs, runAt, startBy, maxAttempts },
    explicit: chosen,
    key: job.idempotencyKey,
    idempotencyTtlMs:
      job.idempotencyKey === undefined ? undefined : (job.idempotencyTtlMs ?? DEFAULT_IDEMPOTENCY_TTL_MS),
  }))
  const [, reply] = await run(port, [registerQueue(queue), call('enqueue_many', { q: queue, each })])
  const pairs = groups(list(reply), 2)
  if (pairs.length !== jobs.length) throw new UpstreamError('Redis returned too few results')
  return pairs.map(([word, id]) => {
    const status = text(word)
    if (status === 'enqueued' || status === 'scheduled' || status === 'duplicate')
      return accept({ id: text(id), status })
    const refusal = parseRefusal(status)
    if (refusal === undefined) throw new UpstreamError('Redis returned an unknown status')
    return refuse(refusal)
  })
}

/** The results of jobs that are stored already. Only the row of a job with a run-at says whether it was due. */
async function statusesOf(
  { port, keys }: QueueRef,
  jobs: readonly Sent[],
): Promise<{ index: number; result: Result<Enqueued> }[]> {
  const asked = jobs.filter(({ runAt }) => runAt !== undefined)
  const reads = asked.map(({ id }) => ['HGET', keys.job(id), 'state'])
  // The jobs are stored, so a failure of this read is no failure of the enqueue.
  const replies = asked.length === 0 ? [] : await run(port, reads).catch(() => [])
  const states = new Map(asked.map(({ id }, nth) => [id, optionalText(replies[nth])]))
  return jobs.map(({ id, index, delayMs = 0 }) => {
    const isScheduled = delayMs > 0 || states.get(id) === 'scheduled'
    return { index, result: accept({ id, status: isScheduled ? 'scheduled' : 'enqueued' }) }
  })
}

/**
 * Enqueues jobs in one round trip; the results are in their order. Safe to repeat for jobs with an id or an
 * idempotency key.
 */
export async function enqueueMany(
  context: QueueRef & { readonly minter: Minter },
  jobs: readonly NewJob[],
): Promise<Result<Enqueued>[]> {
  const { minter } = context
  const results: Result<Enqueued>[] = []
  /** Jobs that were stored by a first request whose answer was lost. */
  const stored: Sent[] = []
  let open = jobs.map((job, index) => ({ ...job, index }))
  for (let mints = 0; open.length > 0 && mints < MAX_MINTS; mints++) {
    const sent = open.map((job) => ({ ...job, id: job.id ?? minter.mint(), chosen: job.id !== undefined }))
    const { result: answers, repeated } = sent.some(({ chosen }) => chosen)
      ? { result: await send(context, sent), repeated: false }
      : await repeatIfLost(() => send(context, sent))
    const collided: typeof open = []
    for (const [nth, job] of sent.entries()) {
      const answer = answers[nth] as Result<Enqueued>
      results[job.index] = answer
      const isTaken =
        answer.ok && answer.value.status === 'duplicate' && !job.chosen && answer.value.id === job.id
      if (!isTaken) continue
      if (repeated) stored.push(job)
      else {
        minter.collided()
        collided.push(open[nth] as (typeof open)[number])
      }
    }
    open = collided
  }
  for (const { index, result } of await statusesOf(context, stored)) results[index] = result
  if (open.length > 0) throw new Error('Every minted id is taken: the minter is broken')
  return results
}
