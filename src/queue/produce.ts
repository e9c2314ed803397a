/**
 * Producing: one round trip for up to a thousand jobs, each of which answers for itself.
 *
 * An id that is minted here and turns out to be taken is a collision of two minters, not a duplicate: it is minted
 * again, so that no job is lost to it. When the answer was lost, jobs with such ids are sent once more as they are,
 * and what is taken then is their own. Of ids that the caller chose nobody here could tell; it repeats them itself.
 */
import type { Minter } from '../protocol/ids.ts'
import { keyspace } from '../protocol/keys.ts'
import { DEFAULT_IDEMPOTENCY_TTL_MS } from '../protocol/limits.ts'
import { parseRefusal, type Refusal } from '../protocol/refusals.ts'
import { type RedisPort, repeatIfLost, UpstreamError } from './redis.ts'
import { registerQueue } from './registry.ts'
import { groups, list, optionalText, text } from './replies.ts'
import { call, run } from './scripts.ts'

/** A job to enqueue. `payload` is stored as it is. Instants are epoch ms. */
export type NewJob = {
  readonly payload: string
  readonly id?: string | undefined
  readonly delayMs?: number | undefined
  readonly runAt?: number | undefined
  /** When nobody has started the job by then, it goes to dead. */
  readonly startBy?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly idempotencyKey?: string | undefined
  readonly idempotencyTtlMs?: number | undefined
}

/** `duplicate` comes with the id of the job that was first. */
export type Enqueued = { readonly id: string; readonly status: 'enqueued' | 'scheduled' | 'duplicate' }

/** A job on its way: under which id, whether the caller chose it, and where its result belongs. */
type Sent = NewJob & { readonly id: string; readonly chosen: boolean; readonly index: number }

/** More collisions in a row than this do not happen by chance. */
const MAX_MINTS = 5

export function createProducer(port: RedisPort, queue: string, minter: Minter) {
  const keys = keyspace(queue)

  async function send(jobs: readonly Sent[]): Promise<(Enqueued | Refusal)[]> {
    const keyed = jobs.flatMap(({ idempotencyKey }) =>
      idempotencyKey === undefined ? [] : [keys.idempotency(idempotencyKey)],
    )
    const args = jobs.flatMap((job) => [
      job.id,
      job.payload,
      job.delayMs ?? '',
      job.runAt ?? '',
      job.startBy ?? '',
      job.maxAttempts ?? '',
      job.idempotencyKey === undefined ? '' : (job.idempotencyTtlMs ?? DEFAULT_IDEMPOTENCY_TTL_MS),
      job.chosen ? 1 : '',
    ])
    const rows = jobs.map(({ id }) => keys.job(id))
    const fixed = [keys.pending, keys.schedule, keys.active, keys.dead, keys.meta, keys.startBy]
    const [, reply] = await run(port, [
      registerQueue(queue),
      call('enqueue_many', [...fixed, ...rows, ...keyed], args),
    ])
    return groups(list(reply), 2).map(([word, id]) => {
      const status = text(word)
      if (status === 'enqueued' || status === 'scheduled' || status === 'duplicate')
        return { id: text(id), status }
      const refusal = parseRefusal(status)
      if (refusal === undefined) throw new UpstreamError('Redis answered a status that does not exist')
      return refusal
    })
  }

  /** What became of jobs that are stored. Where an instant was given, only their rows tell whether it had come. */
  async function statusesOf(jobs: readonly Sent[]): Promise<{ index: number; result: Enqueued }[]> {
    const asked = jobs.filter(({ runAt }) => runAt !== undefined)
    // Stored they are, whatever comes of this question.
    const replies =
      asked.length === 0
        ? []
        : await run(
            port,
            asked.map(({ id }) => ['HGET', keys.job(id), 'state']),
          ).catch(() => [])
    const states = new Map(asked.map(({ id }, nth) => [id, optionalText(replies[nth])]))
    return jobs.map(({ id, index, delayMs = 0 }) => {
      const isScheduled = delayMs > 0 || states.get(id) === 'scheduled'
      return { index, result: { id, status: isScheduled ? 'scheduled' : 'enqueued' } }
    })
  }

  return {
    /** Enqueues jobs in one round trip; the results are in their order. Safe to repeat for jobs with an id or a key. */
    async enqueueMany(jobs: readonly NewJob[]): Promise<(Enqueued | Refusal)[]> {
      const results: (Enqueued | Refusal)[] = []
      /** Those that were stored by a first sending whose answer was lost. */
      const stored: Sent[] = []
      let open = jobs.map((job, index) => ({ job, index }))
      for (let mints = 0; open.length > 0 && mints < MAX_MINTS; mints++) {
        const sent = open.map(({ job, index }) => ({
          ...job,
          id: job.id ?? minter.mint(),
          chosen: job.id !== undefined,
          index,
        }))
        const { result: answers, repeated } = sent.some(({ chosen }) => chosen)
          ? { result: await send(sent), repeated: false }
          : await repeatIfLost(() => send(sent))
        open = []
        for (const [nth, job] of sent.entries()) {
          const answer = answers[nth]
          if (answer === undefined) throw new UpstreamError('Redis answered for fewer jobs than were sent')
          const isTaken =
            'status' in answer && answer.status === 'duplicate' && !job.chosen && answer.id === job.id
          if (isTaken && !repeated) minter.collided()
          if (isTaken && !repeated) open.push({ job: jobs[job.index] ?? job, index: job.index })
          if (isTaken && repeated) stored.push(job)
          results[job.index] = answer
        }
      }
      for (const { index, result } of await statusesOf(stored)) results[index] = result
      if (open.length > 0) throw new Error('every id that was minted is taken: the minter is broken')
      return results
    },
  }
}
