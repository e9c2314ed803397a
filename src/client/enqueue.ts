/**
 * Enqueues jobs, one or many.
 *
 * Every request has an idempotency key that is the same for all attempts of its call: the caller's, else a random one.
 * So a repeat after a lost response creates no second job, whatever became of the first. The server mints the ids. A
 * payload that does not match the schema is rejected before anything is sent.
 */
import { EchoMQError, mayHaveRun } from './errors.ts'
import { randomName } from './ids.ts'
import type { Enqueued, EnqueueItem, EnqueueResult } from './jobs.ts'
import { MAX_JOBS_PER_ENQUEUE, MAX_REQUEST_BYTES } from './limits.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import { type ProblemBody, problemError, type Transport } from './transport.ts'

/** The JSON of a job, or the reason why it is not sent. */
type Draft =
  | {
      readonly words: string
      /** The result for a job that an earlier attempt of this call has stored. */
      readonly status: Enqueued['status']
      /** About the size of the job in the request to Redis. */
      readonly bytes: number
    }
  | { readonly error: EchoMQError }

type WireResult = Partial<Enqueued> & { readonly error?: ProblemBody }

/** What the request to Redis adds for each job, about. */
const JOB_BYTES = 150
const utf8 = new TextEncoder()

export type Enqueue<Input> = {
  one(item: EnqueueItem<Input>, signal?: AbortSignal): Promise<Enqueued>
  many(items: readonly EnqueueItem<Input>[], signal?: AbortSignal): Promise<EnqueueResult[]>
}

/**
 * @param path The path of the queue.
 * @param as `text`: payloads are strings and are stored verbatim.
 */
export function createEnqueue<Input>(
  transport: Transport,
  path: string,
  schema: StandardSchema<Input, unknown> | undefined,
  as?: 'text',
): Enqueue<Input> {
  const name = as ?? 'payload'

  async function draftOf({ payload, delayMs, ...options }: EnqueueItem<Input>): Promise<Draft> {
    try {
      const job = { [name]: payload, ...options, delayMs: delayMs && Math.ceil(delayMs) }
      const words = JSON.stringify(job)
      // JSON drops a field whose value it cannot express, such as undefined.
      if (!words.startsWith(`{"${name}"`) || (as && typeof payload !== 'string')) throw new TypeError()
      // Checked as a consumer will read it: a Date, for instance, arrives as text.
      await parsePayload(schema, JSON.parse(words)[name])
      const bytes = JOB_BYTES + utf8.encode(JSON.stringify(words)).length
      const status = delayMs || options.runAt ? 'scheduled' : 'enqueued'
      // Nobody can tell whose job has an id of the caller's.
      return { words, status: options.id ? 'duplicate' : status, bytes }
    } catch (cause) {
      const error =
        cause instanceof EchoMQError
          ? cause
          : new EchoMQError('invalid', `payload must match its schema and be ${as ?? 'JSON'}`, { cause })
      return { error }
    }
  }

  /** Sends one request under a key until it is answered, and returns its results. */
  function put(
    expects: string,
    words: string,
    drafts: readonly Pick<Enqueued, 'status'>[],
    isOurKey: boolean,
    signal?: AbortSignal,
  ): Promise<WireResult[]> {
    let lostAnswer = false
    return transport.repeat(async () => {
      try {
        const answer = await transport.send<WireResult & { results?: WireResult[] }>(
          `${path}/jobs`,
          expects,
          words,
          signal,
        )
        const results = answer.results ?? [answer]
        // Under a random key a duplicate is the job of an attempt whose response was lost.
        return lostAnswer && isOurKey
          ? results.map((result, i) =>
              result.status === 'duplicate'
                ? { ...result, ...(drafts[i] && { status: drafts[i].status }) }
                : result,
            )
          : results
      } catch (error) {
        lostAnswer ||= error instanceof EchoMQError && mayHaveRun(error)
        throw error
      }
    }, signal)
  }

  return {
    async one(item, signal) {
      const { idempotencyKey = randomName() } = item
      const draft = await draftOf({ ...item, idempotencyKey })
      if ('error' in draft) throw draft.error
      const [result] = await put('id', draft.words, [draft], item.idempotencyKey === undefined, signal)
      return result as Enqueued
    },

    async many(items, signal) {
      const drafts = await Promise.all(items.map(draftOf))
      const sound = drafts.filter((draft) => 'words' in draft)
      const results: EnqueueResult[] = []
      try {
        for (const chunk of chunksOf(sound)) {
          const words = `{"jobs":[${chunk.map((draft) => draft.words)}],"idempotencyKey":"${randomName()}"}`
          const answered = await put('results', words, chunk, true, signal)
          results.push(
            ...answered.map((result) =>
              result.error ? { error: problemError('enqueue', result.error) } : (result as Enqueued),
            ),
          )
        }
      } catch (error) {
        // Once a job is in the queue, the caller must learn which jobs are in it and which are not.
        if (!(error instanceof EchoMQError) || !results.length) throw error
        while (results.length < sound.length) results.push({ error })
      }
      const rest = results.values()
      return drafts.map((draft) => ('error' in draft ? draft : (rest.next().value as EnqueueResult)))
    },
  }
}

/** Splits drafts into requests that the API and every plan of Redis accept. */
function chunksOf<Job extends { readonly bytes: number }>(drafts: readonly Job[]): Job[][] {
  const chunks: Job[][] = []
  let chunk: Job[] = []
  let bytes = MAX_REQUEST_BYTES
  for (const draft of drafts) {
    bytes += draft.bytes
    if (chunk.length >= MAX_JOBS_PER_ENQUEUE || bytes > MAX_REQUEST_BYTES) {
      chunk = []
      chunks.push(chunk)
      bytes = draft.bytes
    }
    chunk.push(draft)
  }
  return chunks
}
