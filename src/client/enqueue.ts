/**
 * Putting jobs into a queue, one or many.
 *
 * Every job has its id before the first send, and its words do not change, so a send whose answer was lost is
 * repeated without making a second job. A minted id that turns out to be somebody else's is minted again, so no job
 * is lost to a collision. A payload that does not fit is refused before anything is sent.
 */

import { EchoMQError, mayHaveRun } from './errors.ts'
import type { Mint } from './ids.ts'
import type { Enqueued, EnqueueItem, EnqueueOptions, EnqueueResult } from './jobs.ts'
import { MAX_JOBS_PER_ENQUEUE, MAX_REQUEST_CHARS } from './limits.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import { type ProblemBody, problemError, type Transport } from './transport.ts'

/** A job on its way. */
type Draft = {
  id: string
  /** The client made the id, so nobody minds if it makes another. */
  readonly minted: boolean
  readonly scheduled: boolean
  /** The job's JSON behind its id. */
  words?: string
  /** An attempt to send it may have been carried out. */
  lostAnswer?: boolean
  /** What became of it: either. */
  status?: Enqueued['status']
  error?: EchoMQError
}

type WireResult = Partial<Enqueued> & { readonly error?: ProblemBody }

const wordsOf = (payload: unknown, options: EnqueueOptions, as: 'text' | undefined): string => {
  const name = as ?? 'payload'
  const words = JSON.stringify({ [name]: payload, ...options })
  // JSON leaves out what it cannot say, such as undefined.
  if (!words.startsWith(`{"${name}"`) || (as && typeof payload !== 'string')) throw new TypeError()
  return words.slice(1)
}

const jsonOf = ({ id, words }: Draft): string => `{"id":${JSON.stringify(id)},${words}`

export type Enqueue<Input> = {
  one(item: EnqueueItem<Input>, signal?: AbortSignal): Promise<Enqueued>
  many(items: readonly EnqueueItem<Input>[], signal?: AbortSignal): Promise<EnqueueResult[]>
}

/**
 * @param path The queue's.
 * @param as `text`: payloads are strings, to be stored verbatim.
 */
export const createEnqueue = <Input>(
  transport: Transport,
  path: string,
  mint: Mint,
  schema: StandardSchema<Input, unknown> | undefined,
  as?: 'text',
): Enqueue<Input> => {
  const draftOf = async ({ payload, id, ...options }: EnqueueItem<Input>): Promise<Draft> => {
    const draft: Draft = {
      // Before anything is awaited: ids rise in the order of the call.
      id: id ?? mint(),
      minted: id === undefined,
      scheduled: Boolean(options.delayMs || options.runAt),
    }
    try {
      await parsePayload(schema, payload)
      draft.words = wordsOf(payload, options, as)
    } catch (cause) {
      draft.error =
        cause instanceof EchoMQError
          ? cause
          : new EchoMQError('invalid', `payload must fit its schema and be ${as ?? 'JSON'}`, { cause })
    }
    return draft
  }

  const send = async (
    drafts: readonly Draft[],
    alone: boolean,
    signal?: AbortSignal,
  ): Promise<WireResult[]> => {
    const words = drafts.map(jsonOf).join()
    try {
      if (alone) return [await transport.send<WireResult>(`${path}/jobs`, 'id', words, signal)]
      const body = `{"jobs":[${words}]}`
      return (await transport.send<{ results: WireResult[] }>(`${path}/jobs`, 'results', body, signal))
        .results
    } catch (error) {
      for (const draft of drafts) draft.lostAnswer ||= error instanceof EchoMQError && mayHaveRun(error)
      throw error
    }
  }

  /** Sends drafts until each has its status or error. Throws when one has neither, or an error that may pass. */
  const put = (drafts: readonly Draft[], alone: boolean, signal?: AbortSignal): Promise<void> => {
    let open = drafts
    return transport.repeat(async () => {
      const results = await send(open, alone, signal)
      let isFirst = true
      open = open.filter((draft, i) => {
        const { id = draft.id, status, error = { code: 'internal' } } = results[i] ?? {}
        const isItself = status === 'duplicate' && draft.minted && id === draft.id
        if (!status) {
          draft.error = problemError('enqueue', error)
          draft.lostAnswer ||= mayHaveRun(draft.error)
        } else if (isItself && !draft.lostAnswer) {
          draft.error = new EchoMQError('internal', 'id is taken')
          draft.id = mint(isFirst)
          isFirst = false
        } else {
          // What stands in its way is its own attempt whose answer was lost.
          draft.status = isItself ? (draft.scheduled ? 'scheduled' : 'enqueued') : status
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
        // Once something is in the queue the caller must learn what, and what not.
        if (!(error instanceof EchoMQError) || !drafts.some(({ status }) => status)) throw error
        for (const draft of sound) draft.error ??= error
      }
      return drafts.map(({ id, status, error }) =>
        status ? { id, status } : { id, error: error as EchoMQError },
      )
    },
  }
}

const chunksOf = (drafts: readonly Draft[]): Draft[][] => {
  const chunks: Draft[][] = []
  let chars = 0
  for (const draft of drafts) {
    const chunk = chunks.at(-1)
    const size = jsonOf(draft).length
    chars += size
    if (chunk && chunk.length < MAX_JOBS_PER_ENQUEUE && chars < MAX_REQUEST_CHARS) chunk.push(draft)
    else {
      chunks.push([draft])
      chars = size
    }
  }
  return chunks
}
