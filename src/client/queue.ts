/**
 * One queue and its verbs: the client's interface.
 *
 * Every verb but `purge` is safe to repeat, so it repeats its request after a retryable failure, at most `retry` times.
 * Verbs throw `EchoMQError`, or the reason of the `signal` that the caller aborted.
 */
import { Consumer } from './consumer.ts'
import { type Drained, type DrainOptions, drainLoop } from './drain.ts'
import { createEnqueue } from './enqueue.ts'
import { EchoMQError, mustMatch } from './errors.ts'
import { randomName } from './ids.ts'
import type {
  Audited,
  Enqueued,
  EnqueueItem,
  EnqueueOptions,
  EnqueueResult,
  Instant,
  Job,
  JobRef,
  JobState,
  JobView,
  Purged,
  QueueStats,
  Redriven,
} from './jobs.ts'
import { type ConsumeOptions, type Handler, type StartLoop, startLoop } from './loop.ts'
import { createMoves, jobPath, type MoveBody } from './moves.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import { queryOf, type Transport } from './transport.ts'

/** The options of every verb. */
export type CallOptions = {
  /** Aborts the call: it throws the reason of the signal. The server may still have carried out the request. */
  readonly signal?: AbortSignal | undefined
}

export type QueueOptions<Input, Output> = {
  /** Checks payloads at both ends: zod, valibot, arktype, any Standard Schema. */
  readonly schema?: StandardSchema<Input, Output> | undefined
  /** `text`: payloads are strings and are stored verbatim instead of as JSON. */
  readonly as?: 'text' | undefined
}

export type ClaimOptions = CallOptions & {
  /** At most this many jobs: 1 .. 100, default 1. */
  readonly limit?: number | undefined
  /** The length of the leases, in milliseconds: 10 .. 86,400,000; default the queue's. */
  readonly leaseMs?: number | undefined
  /** How long to wait for a job, in milliseconds: 0 .. 60,000, default 0. The leases begin when the jobs are taken. */
  readonly waitMs?: number | undefined
}

/** The options of a move; each move takes the ones that it needs. */
export type MoveOptions<Option extends keyof MoveBody = never> = CallOptions & Pick<MoveBody, Option>

export type JobsOptions = CallOptions & {
  /** The state of the jobs: `pending`, `active`, `scheduled` or `dead`; default `pending`. */
  readonly state?: JobState | undefined
  /** `newest` or `oldest` first; default `newest`. */
  readonly order?: 'newest' | 'oldest' | undefined
  /** How many jobs one request returns: 1 .. 200, default 50. */
  readonly limit?: number | undefined
  /** Only jobs that were minted at this instant or later. Like `to`, for `pending` and `dead` only. */
  readonly from?: Instant | undefined
  /** Only jobs that were minted before this instant. */
  readonly to?: Instant | undefined
  /** Whether to return payloads; default no. Needs the scope `observe:payload`. */
  readonly payload?: boolean | undefined
}

export type RedriveOptions = CallOptions & {
  /** How many jobs to read: 1 .. 1000, default 100. */
  readonly limit?: number | undefined
  /** Only jobs that were minted at this instant or later. */
  readonly from?: Instant | undefined
  /** Only jobs that were minted before this instant. */
  readonly to?: Instant | undefined
  /** Only jobs whose last error contains this text. */
  readonly errorContains?: string | undefined
  /** Whether to count the jobs and change nothing; default no. */
  readonly dryRun?: boolean | undefined
  /** Where to go on: from the previous result. */
  readonly cursor?: string | undefined
}

export type PurgeOptions = CallOptions & {
  /** The state of the jobs: `pending`, `scheduled` or `dead`. */
  readonly state: Exclude<JobState, 'active'>
  /** At most this many jobs, the oldest first: 1 .. 1000, default 100. */
  readonly limit?: number | undefined
}

export type AuditOptions = CallOptions & {
  /** Where to go on: from the previous result. */
  readonly cursor?: string | undefined
  /** About how many ids to read: 1 .. 1000, default 100. */
  readonly limit?: number | undefined
  /** Whether to repair every case that has one correct fix; default no. */
  readonly repair?: boolean | undefined
}

/**
 * A queue. `Input` is the payload that is enqueued, `Output` the one that is claimed: they differ where a schema
 * transforms.
 *
 * @example
 * const emails = emq.queue<{ to: string }>('emails')
 */
export interface Queue<Input = unknown, Output = Input> {
  /** The queue's name. */
  readonly name: string

  /**
   * Enqueues a job.
   *
   * @throws {EchoMQError} `invalid` before anything is sent, when the payload does not match the schema.
   *
   * @example
   * await emails.enqueue({ to: 'a@example.com' }, { delayMs: 60_000, idempotencyKey: 'welcome-42' })
   */
  enqueue(payload: Input, options?: EnqueueOptions & CallOptions): Promise<Enqueued>

  /**
   * Enqueues many jobs, up to 1000 per request. Returns the results in order; a bad job stops no other.
   *
   * @throws {EchoMQError} when a request failed before any job was enqueued. Later failures are in the results.
   *
   * @example
   * const results = await emails.enqueueMany([{ payload: { to: 'a@example.com' } }, { payload: { to: 'b@example.com' }, delayMs: 1000 }])
   * const refused = results.filter((result) => 'error' in result)
   */
  enqueueMany(items: readonly EnqueueItem<Input>[], options?: CallOptions): Promise<EnqueueResult[]>

  /**
   * Claims the oldest jobs, each with a lease. A job whose payload does not match the schema goes to the dead letters
   * and is not returned.
   *
   * @example
   * const [job] = await emails.claim({ leaseMs: 30_000, waitMs: 20_000 })
   */
  claim(options?: ClaimOptions): Promise<Job<Output>[]>

  /**
   * Completes a job, which deletes it. `gone`: it no longer existed.
   *
   * @throws {EchoMQError} `stale` when the token is no longer the live one.
   *
   * @example
   * await emails.complete(job)
   */
  complete(job: JobRef, options?: MoveOptions): Promise<'completed' | 'gone'>

  /**
   * Returns a job to be retried. `dead`: its budget is used up.
   *
   * @param options.error What went wrong: a text or anything that was thrown. 2048 characters of it are kept.
   * @param options.delayMs The delay before the retry, in milliseconds; default the queue's backoff.
   * @param options.maxAttempts The budget; default the job's, then the queue's.
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.retry(job, { error: 'mail server busy', delayMs: 5000 })
   */
  retry(
    job: JobRef,
    options?: MoveOptions<'error' | 'delayMs' | 'maxAttempts'>,
  ): Promise<'scheduled' | 'dead'>

  /**
   * Moves a job to the dead letters.
   *
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.fail(job, { error: 'no such address' })
   */
  fail(job: JobRef, options?: MoveOptions<'error'>): Promise<void>

  /**
   * Returns a job as if it had not been claimed: it uses no attempt.
   *
   * @param options.delayMs The delay before the job may run, in milliseconds; default 0.
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.release(job)
   */
  release(job: JobRef, options?: MoveOptions<'delayMs'>): Promise<void>

  /**
   * Extends a lease: it ends this many milliseconds from now, by the server's clock. Returns the milliseconds.
   *
   * @throws {EchoMQError} `stale`, `gone`.
   *
   * @example
   * await emails.extend(job, 30_000)
   */
  extend(job: JobRef, leaseMs: number, options?: MoveOptions): Promise<number>

  /**
   * Reads the numbers of the queue.
   *
   * @throws {EchoMQError} `not_found` when the queue was never used.
   *
   * @example
   * const { counts } = await emails.stats()
   */
  stats(options?: CallOptions): Promise<QueueStats>

  /**
   * Reads one job, with its payload where the token may see it. Returns undefined when there is no such job.
   *
   * @example
   * const view = await emails.job(id)
   */
  job(id: string, options?: CallOptions): Promise<JobView<Input> | undefined>

  /**
   * Iterates over the jobs in one state, and reads them page by page.
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
   * Works the queue until it is empty or the time is over: for cron, Lambda and Workers.
   *
   * @throws {EchoMQError} when no job could be claimed.
   *
   * @example
   * const { done, failed } = await emails.drain(async (job) => send(job.payload), { deadlineMs: 25_000 })
   */
  drain(handler: Handler<Output>, options?: DrainOptions): Promise<Drained>

  /**
   * Moves a dead letter back to pending, with a fresh budget.
   *
   * @throws {EchoMQError} `wrong_state` when the job is not dead, `gone`.
   *
   * @example
   * await emails.redrive(id)
   */
  redrive(id: string, options?: CallOptions): Promise<{ readonly id: string; readonly status: 'pending' }>

  /**
   * Moves dead letters back to pending, a bounded number per call.
   *
   * @example
   * let answer = await emails.redriveMany({ errorContains: 'timeout' })
   * while (answer.more) answer = await emails.redriveMany({ errorContains: 'timeout', cursor: answer.cursor })
   */
  redriveMany(options?: RedriveOptions): Promise<Redriven>

  /**
   * Deletes jobs of one state, a bounded number per call. Sends its request once: a repeat after a lost response
   * could delete more jobs than `limit`.
   *
   * @example
   * while ((await emails.purge({ state: 'dead', limit: 1000 })).more);
   */
  purge(options: PurgeOptions): Promise<Purged>

  /**
   * Makes one step of an audit, which finds inconsistent jobs and can repair them.
   *
   * @example
   * let step = await emails.audit({ repair: true })
   * while (step.cursor) step = await emails.audit({ repair: true, cursor: step.cursor })
   */
  audit(options?: AuditOptions): Promise<Audited>

  /**
   * Stops claims until `resume`. Running jobs are not affected.
   *
   * @example
   * await emails.pause()
   */
  pause(options?: CallOptions): Promise<{ readonly paused: boolean }>

  /**
   * Allows claims again.
   *
   * @example
   * await emails.resume()
   */
  resume(options?: CallOptions): Promise<{ readonly paused: boolean }>
}

export function createQueue<Input, Output>(
  transport: Transport,
  name: string,
  { schema, as }: QueueOptions<Input, Output>,
): Queue<Input, Output> {
  mustMatch('queue name', name, /^(?!emq$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/)
  const path = `/v1/queues/${name}`
  const moves = createMoves(transport, path, as)
  const enqueue = createEnqueue<Input>(transport, path, schema, as)

  function loopOf(handler: Handler<Output>, options: ConsumeOptions, isDrain?: boolean): StartLoop<Output> {
    return (tell) => startLoop(transport, moves, schema, handler, options, tell, isDrain)
  }

  /** Sends the options as the body of a POST, or none of them as a GET. */
  function ask<Answer>(
    at: string,
    expects: string,
    { signal, ...body }: CallOptions = {},
    isRead?: boolean,
  ): Promise<Answer> {
    const words = isRead ? '' : JSON.stringify(body)
    return transport.repeat(() => transport.send(path + at, expects, words, signal), signal)
  }

  return {
    name,

    enqueue: (payload, { signal, ...options } = {}) => enqueue.one({ ...options, payload }, signal),

    enqueueMany: (items, { signal } = {}) => enqueue.many(items, signal),

    async claim({ signal, limit = 1, ...options } = {}) {
      const body = { ...options, limit, claimId: randomName() }
      const { jobs } = await transport.repeat(() => moves.claim(body, signal), signal)
      const fitting: Job<Output>[] = []
      for (const job of jobs) {
        try {
          fitting.push({ ...job, payload: await parsePayload(schema, job.payload) })
        } catch (error) {
          // This payload will never match; but a schema that throws may work the next time. If the move fails, the
          // lease lapses, and the job is claimed and moved again.
          const verb = error instanceof EchoMQError ? 'fail' : 'retry'
          await moves.move(verb, job, { signal, error }).catch(() => {})
        }
      }
      return fitting
    },

    complete: async (job, options) =>
      (await moves.move('complete', job, options)).status as 'completed' | 'gone',

    retry: async (job, options) =>
      (await moves.move('retry', job, options)).status === 'dead' ? 'dead' : 'scheduled',

    async fail(job, options) {
      await moves.move('fail', job, options)
    },

    async release(job, options) {
      await moves.move('release', job, options)
    },

    extend: async (job, leaseMs, options) =>
      (await moves.move('extend', job, { ...options, leaseMs })).leaseMs as number,

    stats: (options) => ask('', 'counts', options, true),

    job: (id, options) =>
      ask<JobView<Input> | undefined>(jobPath(id), 'state', options, true).catch((error) => {
        if (error?.code !== 'not_found') throw error
        return undefined
      }),

    async *jobs({ signal, ...options } = {}) {
      let cursor: string | undefined
      do {
        const at = `/jobs${queryOf({ ...options, cursor })}`
        const page = await ask<{ jobs: JobView<Input>[]; cursor?: string }>(at, 'jobs', { signal }, true)
        yield* page.jobs
        cursor = page.cursor
      } while (cursor)
    },

    consume: (handler, options = {}) => new Consumer(loopOf(handler, options)),

    drain: async (handler, { deadlineMs = 25_000, ...options } = {}) =>
      drainLoop(loopOf(handler, { ...options, waitMs: 0 }, true), transport.clock, deadlineMs),

    redrive: (id, options) => ask(`${jobPath(id)}/redrive`, 'status', options),

    redriveMany: (options) => ask('/redrive', 'redriven', options),

    purge: ({ signal, ...options }) =>
      transport.send(`${path}/purge`, 'removed', JSON.stringify(options), signal),

    audit: (options) => ask('/audit', 'findings', options),

    pause: (options) => ask('/pause', 'paused', options),

    resume: (options) => ask('/resume', 'paused', options),
  }
}
