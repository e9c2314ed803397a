/**
 * Enqueues jobs, one or many.
 *
 * Every job has its id before the first attempt, and its body never changes, so a repeat after a lost response creates
 * no second job. If a minted id is already taken, the client mints another one, so no job is lost to a collision. A
 * payload that does not match the schema is rejected before anything is sent.
 */

import { EchoMQError, mayHaveRun } from './errors.ts'
import type { Mint } from './ids.ts'
import type { Enqueued, EnqueueItem, EnqueueOptions, EnqueueResult, Instant } from './jobs.ts'
import { MAX_JOBS_PER_ENQUEUE, MAX_REQUEST_CHARS } from './limits.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import { type ProblemBody, problemError, type Transport } from './transport.ts'

/** A job on its way to the API. */
type Draft = {
  id: string
  /** The client minted the id, so it may mint another. */
  readonly minted: boolean
  /** Its delay or its run-at, if it is scheduled. */
  readonly later: Instant | undefined
  /** The JSON of the job after its id. */
  words?: string
  /** The server may have carried out an earlier attempt. */
  lostAnswer?: boolean
  /** The result: one of the two. */
  status?: Enqueued['status']
  error?: EchoMQError
}

type WireResult = Partial<Enqueued> & { readonly error?: ProblemBody }
/** One result, or those of a batch. */
type WireAnswer = WireResult & { readonly results?: WireResult[] }

function wordsOf(payload: unknown, options: EnqueueOptions, as: 'text' | undefined): string {
  const name = as ?? 'payload'
  const words = JSON.stringify({ [name]: payload, ...options })
  // JSON drops a field whose value it cannot express, such as undefined.
  if (!words.startsWith(`{"${name}"`) || (as && typeof payload !== 'string')) throw new TypeError()
  return words.slice(1)
}

function jsonOf({ id, words }: Draft): string {
  return `{"id":${JSON.stringify(id)},${words}`
}

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
  mint: Mint,
  schema: StandardSchema<Input, unknown> | undefined,
  as?: 'text',
): Enqueue<Input> {
  async function draftOf({ payload, id, ...options }: EnqueueItem<Input>): Promise<Draft> {
    const draft: Draft = {
      // Minted before the first `await`, so that ids rise in the order of the calls.
      id: id ?? mint(),
      minted: id === undefined,
      later: options.delayMs || options.runAt,
    }
    try {
      await parsePayload(schema, payload)
      draft.words = wordsOf(payload, options, as)
    } catch (cause) {
      draft.error =
        cause instanceof EchoMQError
          ? cause
          : new EchoMQError('invalid', `payload must match its schema and be ${as ?? 'JSON'}`, { cause })
    }
    return draft
  }

  async function send(drafts: readonly Draft[], alone: boolean, signal?: AbortSignal): Promise<WireResult[]> {
    const words = drafts.map(jsonOf).join()
    const [expects, body] = alone ? ['id', words] : ['results', `{"jobs":[${words}]}`]
    try {
      const answer = await transport.send<WireAnswer>(`${path}/jobs`, expects, body, signal)
      return answer.results ?? [answer]
    } catch (error) {
      for (const draft of drafts) draft.lostAnswer ||= error instanceof EchoMQError && mayHaveRun(error)
      throw error
    }
  }

  /** Sends drafts until each has its status or its final error. Throws when one of them has neither. */
  function put(drafts: readonly Draft[], alone: boolean, signal?: AbortSignal): Promise<void> {
    let open = drafts
    return transport.repeat(async () => {
      const results = await send(open, alone, signal)
      let isFirst = true
      open = open.filter((draft, i) => {
        const { id = draft.id, status, error } = results[i] ?? {}
        const isItself = status === 'duplicate' && draft.minted && id === draft.id
        if (!status) {
          draft.error = problemError('enqueue', error)
          draft.lostAnswer ||= mayHaveRun(draft.error)
        } else if (isItself && !draft.lostAnswer) {
          draft.error = new EchoMQError('internal', 'id is taken')
          draft.id = mint(isFirst)
          isFirst = false
        } else {
          // With `isItself` the duplicate is the job of an earlier attempt whose response was lost.
          draft.status = isItself ? (draft.later ? 'scheduled' : 'enqueued') : status
          draft.id = id
        }
        return !draft.status && draft.error?.retryable
      })
      if (open[0]) throw open[0].error
    }, signal)
  }

  return {
    async one(item, signal) {
      const draft = await draftOf(item)
      if (!draft.error) await put([draft], true, signal)
      if (!draft.status) throw draft.error
      return { id: draft.id, status: draft.status }
    },

    async many(items, signal) {
      const drafts = await Promise.all(items.map(draftOf))
      const sound = drafts.filter(({ error }) => !error)
      try {
        for (const chunk of chunksOf(sound)) await put(chunk, false, signal)
      } catch (error) {
        // Once a job is in the queue, the caller must learn which jobs are in it and which are not.
        if (!(error instanceof EchoMQError) || !drafts.some(({ status }) => status)) throw error
        for (const draft of sound) draft.error ??= error
      }
      return drafts.map(({ id, status, error }) =>
        status ? { id, status } : { id, error: error as EchoMQError },
      )
    },
  }
}

/** Splits drafts into requests that the API accepts. */
function chunksOf(drafts: readonly Draft[]): Draft[][] {
  const chunks: Draft[][] = []
  let chunk: Draft[] = []
  let chars = MAX_REQUEST_CHARS
  for (const draft of drafts) {
    const size = jsonOf(draft).length
    chars += size
    if (chunk.length >= MAX_JOBS_PER_ENQUEUE || chars >= MAX_REQUEST_CHARS) {
      chunk = []
      chunks.push(chunk)
      chars = size
    }
    chunk.push(draft)
  }
  return chunks
}
