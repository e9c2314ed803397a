/**
 * What a holder of jobs says to the queue: claim, the five moves that need a token, and settle.
 *
 * Each may be repeated with the same words after a lost answer: a claim by its `claimId`, a move by its token. What
 * the answer to such a repeat means is decided here and nowhere else.
 */
import { EchoMQError, mayHaveRun } from './errors.ts'
import type { Job, JobRef } from './jobs.ts'
import { mustMatch } from './rules.ts'
import { type ProblemBody, problemError, type Transport } from './transport.ts'

export type ClaimBody = {
  readonly limit: number
  readonly leaseMs?: number | undefined
  readonly waitMs?: number | undefined
  readonly claimId: string
}

export type Claimed = {
  readonly jobs: readonly Job[]
  readonly retryAfterMs?: number
  /** Without jobs: the claim stopped early, and the queue may not be empty. */
  readonly more?: true
  /** When the request was sent, on the monotonic clock: no lease of it began earlier. */
  readonly sentAt: number
}

export type MoveName = 'complete' | 'retry' | 'fail' | 'release' | 'extend'
export type MoveBody = {
  readonly error?: string | undefined
  readonly delayMs?: number | undefined
  readonly leaseMs?: number
  readonly maxAttempts?: number | undefined
}

export type MoveAnswer = {
  /** Where the job is now. `gone`: not in the holder's hands any more, and so it was wanted. */
  readonly status: 'completed' | 'gone' | 'scheduled' | 'dead' | 'pending' | 'extended'
  readonly delayMs?: number
  readonly leaseMs?: number
}

export type SettleItem = JobRef & { readonly action: MoveName } & MoveBody

type Patience = {
  /** For what is under way; `wake` for the wait between two attempts. */
  readonly signal?: AbortSignal | undefined
  readonly wake?: AbortSignal | undefined
  readonly again?: (failures: number) => boolean
}

export type Moves = {
  /** One attempt. */
  claim(body: ClaimBody, signal?: AbortSignal): Promise<Claimed>
  /** Until it is answered, see `Transport.repeat` for how long. */
  move(name: MoveName, job: JobRef, body: MoveBody, options: Patience): Promise<MoveAnswer>
  /** One attempt, 1000 items at most. For each of them, why it was not moved. */
  settle(
    items: readonly SettleItem[],
    signal?: AbortSignal,
    timeoutMs?: number,
  ): Promise<(EchoMQError | undefined)[]>
}

type SettleResult = { readonly status?: string; readonly error?: ProblemBody }

/** The path of a job behind its queue's. An id that is none could otherwise lead to another route. */
export const jobPath = (id: string): string => {
  mustMatch('job id', id, /^[A-Z]{3}[0-9A-Za-z]{11}$/)
  return `/jobs/${id}`
}

/**
 * @param path The queue's.
 * @param as `text`: payloads are asked for as text and are that text.
 */
export const createMoves = (transport: Transport, path: string, as?: 'text'): Moves => ({
  async claim(body, signal) {
    const sentAt = transport.clock.now()
    const timeoutMs = transport.timeoutMs + (body.waitMs ?? 0)
    const words = JSON.stringify({ ...body, as })
    const answer = await transport.send<Omit<Claimed, 'sentAt'>>(
      `${path}/claim`,
      'jobs',
      words,
      signal,
      timeoutMs,
    )
    const jobs = as ? answer.jobs.map((job) => ({ ...job, payload: job.text })) : answer.jobs
    return { ...answer, jobs, sentAt }
  },

  async move(name, job, body, { signal, wake, again }) {
    const at = `${path}${jobPath(job.id)}/${name}`
    const words = JSON.stringify({ token: job.token, ...body })
    let lostAnswer = false
    return transport.repeat(
      async () => {
        try {
          return await transport.send<MoveAnswer>(at, 'status', words, signal)
        } catch (error) {
          if (!(error instanceof EchoMQError)) throw error
          const isGone = error.code === 'gone'
          const isDone =
            name === 'complete'
              ? // Nobody needs to do this job any more: that is all that completing it was for.
                isGone
              : // An attempt whose answer was lost has spent the token; others may have finished the job since.
                lostAnswer && name !== 'extend' && (isGone || error.reason === 'released')
          if (isDone) return { status: 'gone' }
          lostAnswer ||= mayHaveRun(error)
          throw error
        }
      },
      wake,
      again,
    )
  },

  async settle(items, ...attempt) {
    const words = JSON.stringify({ items })
    const { results } = await transport.send<{ results: SettleResult[] }>(
      `${path}/settle`,
      'results',
      words,
      ...attempt,
    )
    return items.map(({ action }, i) => {
      const { status, error = { code: 'internal' } } = results[i] ?? {}
      return status ? undefined : problemError(action, error)
    })
  },
})
