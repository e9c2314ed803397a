/**
 * What another Worker gets over a service binding: the client's verbs, the queue's name first. Types only, so that
 * a caller needs nothing of this project but them.
 *
 * Everything that crosses is copied: options and payloads are plain values, and no verb takes a signal. What is
 * thrown arrives as an `Error` with the name and the fields of the client's `EchoMQError` but without its class:
 * callers look at `error.code`. Both Workers need a compatibility date of 2026-04-21 or later for that, or the flag
 * `enhanced_error_serialization`; before it only the text arrives, which has the code in it.
 */
import type {
  ClaimOptions,
  EnqueueItem,
  EnqueueOptions,
  Job,
  JobRef,
  JobsOptions,
  JobView,
  Queue,
  QueueOptions,
  RedriveOptions,
} from '../client/index.ts'

/** `text`: payloads are strings, stored verbatim instead of as JSON. */
export type PayloadFormat = Pick<QueueOptions<unknown, unknown>, 'as'>

/** The options of a move, as the client has them. */
export type MoveOptions<Move extends 'retry' | 'fail' | 'release'> = Omit<
  NonNullable<Parameters<Queue[Move]>[1]>,
  'signal'
>

export type PageOptions = Omit<JobsOptions, 'signal'> & {
  /** Where to go on: from the page before. */
  readonly cursor?: string | undefined
}

export type Page<Payload = unknown> = {
  readonly jobs: readonly JobView<Payload>[]
  /** Where the next page begins; missing on the last one. */
  readonly cursor?: string
}

/**
 * The type of the binding in the calling Worker's `env`. What each verb does is said at the client's `Queue`.
 * (Cloudflare's own `Service<typeof QueueService>` works, too, but makes `never` of whatever has an unknown payload.)
 *
 * @example
 * type Env = { EMQ: QueueBinding }
 * await env.EMQ.enqueue('emails', { to: 'a@example.com' }, { delayMs: 60_000 })
 */
export interface QueueBinding {
  enqueue<Payload>(
    queue: string,
    payload: Payload,
    options?: EnqueueOptions & PayloadFormat,
  ): ReturnType<Queue<Payload>['enqueue']>
  enqueueMany<Payload>(
    queue: string,
    items: readonly EnqueueItem<Payload>[],
    options?: PayloadFormat,
  ): ReturnType<Queue<Payload>['enqueueMany']>
  claim<Payload = unknown>(
    queue: string,
    options?: Omit<ClaimOptions, 'signal'> & PayloadFormat,
  ): Promise<Job<Payload>[]>
  complete(queue: string, job: JobRef): ReturnType<Queue['complete']>
  retry(queue: string, job: JobRef, options?: MoveOptions<'retry'>): ReturnType<Queue['retry']>
  fail(queue: string, job: JobRef, options?: MoveOptions<'fail'>): ReturnType<Queue['fail']>
  release(queue: string, job: JobRef, options?: MoveOptions<'release'>): ReturnType<Queue['release']>
  extend(queue: string, job: JobRef, leaseMs: number): ReturnType<Queue['extend']>
  stats(queue: string): ReturnType<Queue['stats']>
  job<Payload = unknown>(queue: string, id: string): Promise<JobView<Payload> | undefined>
  /** One page of the jobs in one state. */
  jobs<Payload = unknown>(queue: string, options?: PageOptions): Promise<Page<Payload>>
  redrive(queue: string, id: string): ReturnType<Queue['redrive']>
  redriveMany(queue: string, options?: Omit<RedriveOptions, 'signal'>): ReturnType<Queue['redriveMany']>
  pause(queue: string): ReturnType<Queue['pause']>
  resume(queue: string): ReturnType<Queue['resume']>
}
