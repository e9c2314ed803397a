/**
 * The limits of the service, each with its unit in its name. Those of `Limits` are settings of a deployment
 * (see `src/env.ts`); the others are part of the contract.
 */

/** Limits that a deployment may change. */
export type Limits = {
  /** Stored bytes of one payload. */
  readonly maxPayloadBytes: number
  /** Bytes of one request body. */
  readonly maxBodyBytes: number
  /** How long one call to Redis may take, in milliseconds. */
  readonly redisTimeoutMs: number
  /** Claims of one token that may wait at once in an isolate. */
  readonly maxWaiting: number
  /** After this time without a wake-up, a waiting claim claims again, in milliseconds. */
  readonly relookMs: number
}

export const DEFAULT_LIMITS: Limits = {
  maxPayloadBytes: 256 * 1024,
  maxBodyBytes: 5 * 1024 * 1024,
  redisTimeoutMs: 5_000,
  maxWaiting: 200,
  relookMs: 20_000,
}

export const MAX_JOBS_PER_ENQUEUE = 1000
export const MAX_JOBS_PER_CLAIM = 100
export const MAX_ITEMS_PER_SETTLE = 1000

export const MIN_LEASE_MS = 10
export const MAX_LEASE_MS = 86_400_000
export const DEFAULT_LEASE_MS = 30_000

/** 9999-12-31T23:59:59.999Z: the last instant that RFC 3339 can tell, in epoch ms. */
export const MAX_INSTANT_MS = 253_402_300_799_999

/** 366 days: as far ahead as a job can be scheduled, in milliseconds. */
export const MAX_DELAY_MS = 31_622_400_000

export const MIN_IDEMPOTENCY_TTL_MS = 1_000
export const MAX_IDEMPOTENCY_TTL_MS = 604_800_000
export const DEFAULT_IDEMPOTENCY_TTL_MS = 600_000

/** 0 means no limit. */
export const MAX_MAX_ATTEMPTS = 1000
export const DEFAULT_MAX_ATTEMPTS = 5

export const MAX_BACKOFF_BASE_MS = 3_600_000
export const DEFAULT_BACKOFF_BASE_MS = 1_000
export const MAX_BACKOFF_MAX_MS = 86_400_000
export const DEFAULT_BACKOFF_MAX_MS = 600_000

/** Jobs that one promote, reap, purge or redrive moves at the most. */
export const MAX_MOVE_LIMIT = 1000
export const DEFAULT_MOVE_LIMIT = 100

/** Characters of an error text that are kept. */
export const MAX_ERROR_CHARS = 2048

/** Cap on maxActive and maxPending; 0 turns either off. */
export const MAX_QUEUE_CAP = 10_000_000

export const MAX_PAGE = 200
export const DEFAULT_PAGE = 50

export const MAX_WAIT_MS = 60_000

/** Payload bytes of one batch claim, as JSON writes them: the batch stops short of it. */
export const MAX_CLAIM_BYTES = 4 * 1024 * 1024

/** The largest value of the setting `maxPayloadBytes`. A larger job than a batch may hold is claimed alone. */
export const LARGEST_PAYLOAD_BYTES = 8 * 1024 * 1024
