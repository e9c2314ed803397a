/**
 * What a consumer sends to the queue: claim, the five moves that need a token, and settle.
 *
 * Each may be repeated with the same body after a lost response: a claim by its `claimId`, a move by its token. This
 * file alone decides what the response to such a repeat means.
 */
import { EchoMQError, errorText, mayHaveRun, mustMatch } from './errors.ts'
import type { Job, JobRef } from './jobs.ts'
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
  /** The claim stopped early, so the queue may not be empty: claim again at once. */
  readonly more?: true
  /** When the request was sent, on the monotonic clock: no lease of it began earlier. */
  readonly sentAt: number
}

export type MoveName = 'complete' | 'retry' | 'fail' | 'release' | 'extend'

export type MoveBody = {
  /** What went wrong: a text, or anything that was thrown. */
  readonly error?: unknown
  readonly delayMs?: number | undefined
  readonly leaseMs?: number | undefined
  readonly maxAttempts?: number | undefined
}

export type MoveAnswer = {
  /** Where the job is now. `gone`: the job no longer exists or is no longer the caller's, as the caller wanted. */
  readonly status: 'completed' | 'gone' | 'scheduled' | 'dead' | 'pending' | 'extended'
  readonly delayMs?: number
  readonly leaseMs?: number
}

export type SettleItem = JobRef & { readonly action: MoveName; readonly leaseMs?: number }

export type Moves = {
  /** Makes one attempt. */
  claim(body: ClaimBody, signal?: AbortSignal): Promise<Claimed>
  /**
   * Repeats until the API responds; see `Transport.repeat`.
   *
   * @param body.signal Ends everything: the attempt and the wait between two attempts.
   * @param wake Ends the wait between two attempts only.
   */
  move(
    name: MoveName,
    job: JobRef,
    body?: MoveBody & { readonly signal?: AbortSignal | undefined },
    wake?: AbortSignal,
    again?: (failures: number) => boolean,
  ): Promise<MoveAnswer>
  /** Makes one attempt with at most 1000 items. Returns for each item the error that stopped it, if one did. */
  settle(
    items: readonly SettleItem[],
    signal?: AbortSignal,
    timeoutMs?: number,
  ): Promise<(EchoMQError | undefined)[]>
}

type SettleResult = { readonly status?: string; readonly error?: ProblemBody }

/** The path of a job below the path of its queue. The check keeps a malformed id from reaching another route. */
export function jobPath(id: string): string {
  mustMatch('job id', id, /^[A-Z]{3}[0-9A-Za-z]{11}$/)
  return `/jobs/${id}`
}

/**
 * @param path The path of the queue.
 * @param as `text`: claims ask for text, and payloads are that text.
 */
export function createMoves(transport: Transport, path: string, as?: 'text'): Moves {
  return {
    async claim(body, signal) {
      const sentAt = transport.clock.now()
      const timeoutMs = transport.timeoutMs + (body.waitMs ?? 0)
      const answer = await transport.send<Omit<Claimed, 'sentAt'>>(
        `${path}/claim`,
        'jobs',
        JSON.stringify({ ...body, as }),
        signal,
        timeoutMs,
      )
      const jobs = as ? answer.jobs.map((job) => ({ ...job, payload: job.text })) : answer.jobs
      return { ...answer, jobs, sentAt }
    },

    async move(name, { id, token }, { signal, error, ...body } = {}, wake = signal, again) {
      const at = `${path}${jobPath(id)}/${name}`
      const text = error === undefined ? error : errorText(error)
      const words = JSON.stringify({ token, ...body, error: text })
      let lostAnswer = false
      return transport.repeat(
        async () => {
          try {
            return await transport.send<MoveAnswer>(at, 'status', words, signal)
          } catch (failure) {
            if (!(failure instanceof EchoMQError)) throw failure
            const isGone = failure.code === 'gone'
            const isDone =
              name === 'complete'
                ? // Nobody needs to do this job any more: completing it has no other purpose.
                  isGone
                : // An earlier attempt whose response was lost made the token stale.
                  lostAnswer && name !== 'extend' && (isGone || failure.reason === 'released')
            if (isDone) return { status: 'gone' }
            lostAnswer ||= mayHaveRun(failure)
            throw failure
          }
        },
        wake,
        again,
      )
    },

    async settle(items, ...attempt) {
      const { results } = await transport.send<{ results: SettleResult[] }>(
        `${path}/settle`,
        'results',
        JSON.stringify({ items }),
        ...attempt,
      )
      return items.map(({ action }, i) => {
        const { status, error } = results[i] ?? {}
        return status ? undefined : problemError(action, error)
      })
    },
  }
}
