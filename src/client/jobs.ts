/**
 * Jobs as callers see them, on their way in and out. Types only.
 */
import type { EchoMQError } from './errors.ts'

/** An instant: a `Date`, RFC 3339 text with a zone, or Unix milliseconds. */
export type Instant = Date | string | number

/** How one job is enqueued. All of it is optional. */
export type EnqueueOptions = {
  /** How long to wait before the job may run, in milliseconds: 0 .. 366 days. Not beside `runAt`. */
  readonly delayMs?: number | undefined
  /** Before which instant the job does not run. */
  readonly runAt?: Instant | undefined
  /** Nobody started it by then: it goes to the dead letters instead of running late. */
  readonly startBy?: Instant | undefined
  /** The same key within its window makes no second job, whatever became of the first. `[A-Za-z0-9._:-]{1,255}` */
  readonly idempotencyKey?: string | undefined
  /** How long the key is remembered, in milliseconds: 1 s .. 7 days, default 10 minutes. */
  readonly idempotencyTtlMs?: number | undefined
  /** How often the job may be started; 0 for no limit; default the queue's. */
  readonly maxAttempts?: number | undefined
  /** The job's id, instead of one that the client mints: `JOB` and eleven base62 digits. */
  readonly id?: string | undefined
}

/** One of many jobs to enqueue. */
export type EnqueueItem<Input> = EnqueueOptions & { readonly payload: Input }

/** What became of a job that was enqueued. `duplicate`: there was one already, with this id or this key. */
export type Enqueued = { readonly id: string; readonly status: 'enqueued' | 'scheduled' | 'duplicate' }

/** One of the results of `enqueueMany`. `id` is what to send again when the error is `retryable`. */
export type EnqueueResult = Enqueued | { readonly id: string; readonly error: EchoMQError }

/** A job together with its lease. */
export type Job<Payload = unknown> = {
  readonly id: string
  readonly queue: string
  /** The fencing token: it rises with each claim of the job, so it also says which attempt this is. */
  readonly token: number
  /** `undefined` when the stored bytes are no JSON: then `text` or `base64` has them. */
  readonly payload: Payload
  readonly text?: string
  readonly base64?: string
  /** RFC 3339, UTC. */
  readonly enqueuedAt: string
  /** How long the lease was when it was given, in milliseconds. */
  readonly leaseMs: number
}

/** What a move needs to know of a job. */
export type JobRef = { readonly id: string; readonly token: number }

export type JobState = 'pending' | 'active' | 'scheduled' | 'dead'

/** A job as it is looked at, without a lease. Every `...At` is RFC 3339, UTC. */
export type JobView<Payload = unknown> = {
  readonly id: string
  readonly queue: string
  readonly state: JobState
  readonly attempts: number
  readonly enqueuedAt: string
  readonly runAt?: string
  readonly leaseUntil?: string
  readonly startBy?: string
  readonly maxAttempts?: number
  readonly lapses?: number
  readonly lastError?: string
  readonly history?: readonly { readonly attempt: number; readonly at: string; readonly error: string }[]
  /** As the job has it, where the token may see it and it was asked for. */
  readonly payload?: Payload
  readonly text?: string
  readonly base64?: string
}

/** A queue's numbers. Every `...At` is RFC 3339, UTC. */
export type QueueStats = {
  readonly queue: string
  readonly counts: Readonly<Record<JobState, number>>
  readonly oldestPendingAt?: string
  readonly nextDueAt?: string
  readonly nextLapseAt?: string
  readonly paused: boolean
  readonly completed: number
  readonly failed: number
  readonly ghosts: number
  readonly settings: Readonly<Record<string, unknown>>
}
