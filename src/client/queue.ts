/**
 * One queue and its verbs: the client's face.
 *
 * Everything that is sent is sent again after a failure that may be over the next time, up to the client's `retry`;
 * each verb is such that this is safe. Verbs throw `EchoMQError`, or the reason of the `signal` they were given.
 */
import { Consumer } from './consumer.ts'
import { type Drained, type DrainOptions, drainLoop } from './drain.ts'
import { createEnqueue } from './enqueue.ts'
import { EchoMQError, errorText } from './errors.ts'
import { type Mint, mintClaimId } from './ids.ts'
import type {
  Enqueued,
  EnqueueItem,
  EnqueueOptions,
  EnqueueResult,
  Instant,
  Job,
  JobRef,
  JobState,
  JobView,
  QueueStats,
} from './jobs.ts'
import { type ConsumeOptions, createLooper, type Handler } from './loop.ts'
import { createMoves, jobPath, type MoveAnswer, type MoveBody, type MoveName } from './moves.ts'
import { mustMatch } from './rules.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import type { Transport } from './transport.ts'

/** For every verb. */
export type CallOptions = {
  /** Ends the call when it is aborted: it throws the signal's reason. What was sent may have been carried out. */
  readonly signal?: AbortSignal | undefined
}

export type QueueOptions<Input, Output> = {
  /** Payloads are checked against it at both ends: zod, valibot, arktype, any Standard Schema. */
  readonly schema?: StandardSchema<Input, Output> | undefined
  /** `text`: payloads are strings, stored verbatim instead of as JSON. */
  readonly as?: 'text' | undefined
}

export type ClaimOptions = CallOptions & {
  /** How many jobs at most: 1 .. 100, default 1. */
  readonly limit?: number | undefined
  /** How long the leases are, in milliseconds: 10 .. 86,400,000; default the queue's. */
  readonly leaseMs?: number | undefined
  /** How long to wait for a job, in milliseconds: 0 .. 25,000, default 0. The leases begin when the jobs are taken. */
  readonly waitMs?: number | undefined
}

export type JobsOptions = CallOptions & {
  /** Which jobs: `pending`, `active`, `scheduled` or `dead`; default `pending`. */
  readonly state?: JobState | undefined
  /** Which come first: `newest` or `oldest`; default `newest`. */
  readonly order?: 'newest' | 'oldest' | undefined
  /** How many jobs one request brings: 1 .. 200, default 50. */
  readonly limit?: number | undefined
  /** Only jobs that were minted at this instant or later. Like `to` for `pending` and `dead` only. */
  readonly from?: Instant | undefined
  /** Only jobs that were minted before this instant. */
  readonly to?: Instant | undefined
  /** Whether payloads come along; default no. Needs the scope `observe:payload`. */
  readonly payload?: boolean | undefined
}

export type RedriveOptions = CallOptions & {
  /** How many jobs to look at: 1 .. 1000, default 100. */
  readonly limit?: number | undefined
  /** Only jobs that were minted at this instant or later. */
  readonly from?: Instant | undefined
  /** Only jobs that were minted before this instant. */
  readonly to?: Instant | undefined
  /** Only jobs whose last error has this in it. */
  readonly errorContains?: string | undefined
  /** Whether to count them and change nothing; default no. */
  readonly dryRun?: boolean | undefined
  /** Where to go on: from the answer before. */
  readonly cursor?: string | undefined
}

export type Redriven = { readonly redriven: number; readonly more: boolean; readonly cursor?: string }

/**
 * A queue. `Input` is what is enqueued, `Output` what is claimed: they differ where a schema transforms.
 *
 * @example
 * const emails = emq.queue<{ to: string }>('emails')
 */
export interface Queue<Input = unknown, Output = Input> {
  /** The queue's name. */
  readonly name: string

  /**
   * Puts a job into the queue.
   *
   * @throws {EchoMQError} `invalid` before anything is sent when the payload does not fit the schema.
   *
   * @example
   * await emails.enqueue({ to: 'a@example.com' }, { delayMs: 60_000, idempotencyKey: 'welcome-42' })
   */
  enqueue(payload: Input, options?: EnqueueOptions & CallOptions): Promise<Enqueued>

  /**
   * Puts many jobs into the queue, up to 1000 with a request. Answers in their order; a bad one stops no other.
   *
   * @throws {EchoMQError} when a request failed and no job got in. Once one did, the others have the error each.
   *
   * @example
   * const results = await emails.enqueueMany([{ payload: { to: 'a@example.com' } }, { payload: { to: 'b@example.com' }, delayMs: 1000 }])
   * const refused = results.filter((result) => 'error' in result)
   */
  enqueueMany(items: readonly EnqueueItem<Input>[], options?: CallOptions): Promise<EnqueueResult[]>

  /**
   * Takes the oldest jobs, each with a lease. A job whose payload does not fit the schema goes to the dead letters
   * instead of being handed out.
   *
   * @example
   * const [job] = await emails.claim({ leaseMs: 30_000, waitMs: 20_000 })
   */
  claim(options?: ClaimOptions): Promise<Job<Output>[]>

  /**
   * Says that a job is done; it is gone then. `gone`: it was already.
   *
   * @throws {EchoMQError} `stale` when the lease is not the job's live one any more.
   *
   * @example
   * await emails.complete(job)
   */
  complete(job: JobRef, options?: CallOptions): Promise<'completed' | 'gone'>

  /**
   * Gives a job back to be tried again. `dead`: it has been tried often enough.
   *
   * @param options.error What went wrong: text or anything that was thrown. 2048 characters of it are kept.
   * @param options.delayMs How long to wait, in milliseconds; default the queue's backoff.
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.retry(job, { error: 'mail server busy', delayMs: 5000 })
   */
  retry(
    job: JobRef,
    options?: CallOptions & {
      readonly error?: unknown
      readonly delayMs?: number | undefined
      readonly maxAttempts?: number | undefined
    },
  ): Promise<'scheduled' | 'dead'>

  /**
   * Puts a job among the dead letters.
   *
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.fail(job, { error: 'no such address' })
   */
  fail(job: JobRef, options?: CallOptions & { readonly error?: unknown }): Promise<void>

  /**
   * Gives a job back as if it had not been claimed: it costs no attempt.
   *
   * @param options.delayMs How long it then waits, in milliseconds; default 0.
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.release(job)
   */
  release(job: JobRef, options?: CallOptions & { readonly delayMs?: number | undefined }): Promise<void>

  /**
   * Makes a lease end so many milliseconds from now, by the server's clock. Answers how many they are.
   *
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.extend(job, 30_000)
   */
  extend(job: JobRef, leaseMs: number, options?: CallOptions): Promise<number>

  /**
   * The queue's numbers.
   *
   * @throws {EchoMQError} `not_found` when the queue was never used.
   *
   * @example
   * const { counts } = await emails.stats()
   */
  stats(options?: CallOptions): Promise<QueueStats>

  /**
   * One job, with its payload where the token may see it, or undefined when there is none.
   *
   * @example
   * const view = await emails.job(id)
   */
  job(id: string, options?: CallOptions): Promise<JobView<Input> | undefined>

  /**
   * The jobs in one state, page after page as they are read.
   *
   * @example
   * for await (const view of emails.jobs({ state: 'dead' })) console.log(view.id, view.lastError)
   */
  jobs(options?: JobsOptions): AsyncGenerator<JobView<Input>, void>

  /**
   * Works the queue until the consumer is stopped. See `Consumer`.
   *
   * @example
   * const consumer = emails.consume(async (job, { signal }) => send(job.payload, { signal }), { concurrency: 10 })
   */
  consume(handler: Handler<Output>, options?: ConsumeOptions): Consumer<Output>

  /**
   * Works the queue until it is empty or the time is over: for cron, Lambda and Workers. It runs each job's handler; the
   * route `.../purge` of the HTTP API is something else and deletes jobs.
   *
   * @throws {EchoMQError} when nothing could be claimed.
   *
   * @example
   * const { done, failed } = await emails.drain(async (job) => send(job.payload), { deadlineMs: 25_000 })
   */
  drain(handler: Handler<Output>, options?: DrainOptions): Promise<Drained>

  /**
   * Brings a dead job back, with a fresh budget of attempts.
   *
   * @throws {EchoMQError} `wrong_state` when it is not dead, `gone`.
   *
   * @example
   * await emails.redrive(id)
   */
  redrive(id: string, options?: CallOptions): Promise<{ readonly id: string; readonly status: 'pending' }>

  /**
   * Brings dead jobs back, a bounded number at a time.
   *
   * @example
   * let answer = await emails.redriveMany({ errorContains: 'timeout' })
   * while (answer.more) answer = await emails.redriveMany({ errorContains: 'timeout', cursor: answer.cursor })
   */
  redriveMany(options?: RedriveOptions): Promise<Redriven>

  /**
   * Stops claims until `resume`. What runs goes on.
   *
   * @example
   * await emails.pause()
   */
  pause(options?: CallOptions): Promise<{ readonly paused: boolean }>

  /**
   * Lets claims go on.
   *
   * @example
   * await emails.resume()
   */
  resume(options?: CallOptions): Promise<{ readonly paused: boolean }>
}

/** Parameters behind a question mark; going through JSON leaves out the undefined ones. */
const queryOf = (parameters: object): string =>
  `?${new URLSearchParams(JSON.parse(JSON.stringify(parameters)))}`

export const createQueue = <Input, Output>(
  transport: Transport,
  mint: Mint,
  name: string,
  { schema, as }: QueueOptions<Input, Output>,
): Queue<Input, Output> => {
  mustMatch('queue name', name, /^(?!emq$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/)
  const path = `/v1/queues/${name}`
  const moves = createMoves(transport, path, as)
  const loopOf = createLooper(transport, moves, schema)
  const enqueue = createEnqueue<Input>(transport, path, mint, schema, as)

  type MoveOptions = CallOptions & Omit<MoveBody, 'error'> & { readonly error?: unknown }
  const move = (
    verb: MoveName,
    job: JobRef,
    { signal, error, ...body }: MoveOptions = {},
  ): Promise<MoveAnswer> => {
    const words = { ...body, error: error === undefined ? error : errorText(error) }
    return moves.move(verb, job, words, { wake: signal, signal })
  }

  const ask = <Answer>(
    at: string,
    expects: string,
    { signal }: CallOptions = {},
    body?: string,
  ): Promise<Answer> => transport.repeat(() => transport.send(path + at, expects, body, signal), signal)

  return {
    name,

    enqueue: (payload, { signal, ...options } = {}) => enqueue.one({ ...options, payload }, signal),

    enqueueMany: (items, { signal } = {}) => enqueue.many(items, signal),

    async claim({ signal, limit = 1, ...options } = {}) {
      const body = { ...options, limit, claimId: mintClaimId() }
      const { jobs } = await transport.repeat(() => moves.claim(body, signal), signal)
      const fitting: Job<Output>[] = []
      for (const job of jobs) {
        try {
          fitting.push({ ...job, payload: await parsePayload(schema, job.payload) })
        } catch (error) {
          // It will never fit; but a schema that throws may be right the next time. Where this fails, the lease
          // lapses and the job comes to here again.
          await move(error instanceof EchoMQError ? 'fail' : 'retry', job, { signal, error }).catch(() => {})
        }
      }
      return fitting
    },

    complete: async (job, options) => (await move('complete', job, options)).status as 'completed' | 'gone',

    retry: async (job, options) =>
      (await move('retry', job, options)).status === 'dead' ? 'dead' : 'scheduled',

    async fail(job, options) {
      await move('fail', job, options)
    },

    async release(job, options) {
      await move('release', job, options)
    },

    extend: async (job, leaseMs, options) =>
      (await move('extend', job, { ...options, leaseMs })).leaseMs ?? leaseMs,

    stats: (options) => ask('', 'counts', options),

    job: (id, options) =>
      ask<JobView<Input> | undefined>(jobPath(id), 'state', options).catch((error) => {
        if (error?.code !== 'not_found') throw error
        return undefined
      }),

    async *jobs({ signal, ...options } = {}) {
      let cursor: string | undefined
      do {
        const at = `/jobs${queryOf({ ...options, cursor })}`
        const page = await ask<{ jobs: JobView<Input>[]; cursor?: string }>(at, 'jobs', { signal })
        yield* page.jobs
        cursor = page.cursor
      } while (cursor)
    },

    consume: (handler, options = {}) => new Consumer((tell) => loopOf(handler, options, tell)),

    drain: async (handler, { deadlineMs = 25_000, ...options } = {}) =>
      drainLoop(
        (tell) => loopOf(handler, { ...options, waitMs: 0 }, tell, true),
        transport.clock,
        deadlineMs,
      ),

    redrive: (id, options) => ask(`${jobPath(id)}/redrive`, 'status', options, '{}'),

    redriveMany: ({ signal, ...options } = {}) =>
      ask('/redrive', 'redriven', { signal }, JSON.stringify(options)),

    pause: (options) => ask('/pause', 'paused', options, '{}'),

    resume: (options) => ask('/resume', 'paused', options, '{}'),
  }
}
