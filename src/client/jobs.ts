/**
 * Jobs and queues as callers see them, in requests and responses. Types only.
 */
import type { EchoMQError } from './errors.ts'

/** An instant: a `Date`, RFC 3339 text with a zone, or Unix milliseconds. */
export type Instant = Date | string | number

/** How one job is enqueued. Every option is optional. */
export type EnqueueOptions = {
  /** The delay before the job may run, in milliseconds: 0 .. 366 days. Not together with `runAt`. */
  readonly delayMs?: number | undefined
  /** The earliest instant at which the job may run. */
  readonly runAt?: Instant | undefined
  /** A job that no consumer has started by this instant goes to the dead letters instead of running late. */
  readonly startBy?: Instant | undefined
  /** A repeat of this key within its window creates no second job, whatever became of the first. `[A-Za-z0-9._:-]{1,255}` */
  readonly idempotencyKey?: string | undefined
  /** How long the key is remembered, in milliseconds: 1 s .. 7 days, default 10 minutes. */
  readonly idempotencyTtlMs?: number | undefined
  /** The budget: how often the job may be started; 0 means no limit; default the queue's. */
  readonly maxAttempts?: number | undefined
  /** The job's id, instead of one that the server mints: `JOB` and eleven base62 digits. */
  readonly id?: string | undefined
}

/** One of many jobs to enqueue. */
export type EnqueueItem<Input> = EnqueueOptions & { readonly payload: Input }

/** The result of an enqueue. `duplicate`: a job with this id or this key already exists. */
export type Enqueued = { readonly id: string; readonly status: 'enqueued' | 'scheduled' | 'duplicate' }

/** One result of `enqueueMany`. */
export type EnqueueResult = Enqueued | { readonly error: EchoMQError }

/** A job together with its lease. */
export type Job<Payload = unknown> = {
  readonly id: string
  readonly queue: string
  /** The fencing token. It increases with each claim of the job, so it is also the number of the attempt. */
  readonly token: number
  /** `undefined` when the stored bytes are not JSON: then `text` or `base64` has them. */
  readonly payload: Payload
  readonly text?: string
  readonly base64?: string
  /** RFC 3339, UTC. */
  readonly enqueuedAt: string
  /** The length of the lease when it was granted, in milliseconds. */
  readonly leaseMs: number
}

/** The part of a job that a move needs. */
export type JobRef = Pick<Job, 'id' | 'token'>

export type JobState = 'pending' | 'active' | 'scheduled' | 'dead'

/** A job as an observer sees it, without a lease. Every `...At` is RFC 3339, UTC. */
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
  /** Present when it was requested and the token may see it. */
  readonly payload?: Payload
  readonly text?: string
  readonly base64?: string
}

/** The numbers of a queue. Every `...At` is RFC 3339, UTC. */
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

/** The result of one `redriveMany`. `more`: go on with `cursor`. */
export type Redriven = { readonly redriven: number; readonly more: boolean; readonly cursor?: string }

/** The result of one `purge`. `more`: jobs of this state are left. */
export type Purged = { readonly removed: number; readonly more: boolean }

/** The result of one step of an audit. `cursor`: go on with it. */
export type Audited = {
  /** Ids that this step read. An audit reads a job twice: in its set, and as a row. */
  readonly checked: number
  /** The inconsistent jobs: what is wrong with each (`ghost`, `orphan`, ...), and the sets that contain it. */
  readonly findings: readonly {
    readonly id: string
    readonly kind: string
    readonly sets: readonly string[]
  }[]
  /** How many of the findings were repaired. */
  readonly repaired: number
  readonly cursor?: string
}
