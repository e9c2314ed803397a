/**
 * The limits that the client knows, each with its unit in its name. The API's own limits repeat
 * `src/protocol/limits.ts`, because the client imports nothing; a test compares the two.
 */

/** Jobs in one enqueue request. */
export const MAX_JOBS_PER_ENQUEUE = 1000
/** Jobs in one claim. */
export const MAX_JOBS_PER_CLAIM = 100
/** Items in one settle request, and so the most jobs that a loop may hold. */
export const MAX_ITEMS_PER_SETTLE = 1000

export const MIN_LEASE_MS = 10
export const MAX_LEASE_MS = 86_400_000
/** The assumed length of a lease until the first claim reports the real one. */
export const DEFAULT_LEASE_MS = 30_000
export const MAX_WAIT_MS = 60_000

/** 366 days: the longest delay of a scheduled job. */
export const MAX_DELAY_MS = 31_622_400_000
/** The server keeps this much of an error's text. */
export const MAX_ERROR_CHARS = 2048

/** Bytes of one request to Redis: the smallest plan of Upstash accepts 1 MB. */
export const MAX_REQUEST_BYTES = 1_000_000
/** The longest delay that timers accept: about 25 days. */
export const MAX_TIMER_MS = 2_147_483_647

/** How long after the lease the end of a job is still reported: no other consumer may have claimed the job yet. */
export const GRACE_MS = 30_000
/** Between two claims of an empty queue, when the server gives no hint. */
export const IDLE_MS = 1000
/** The longest backoff, unless the server asks for more. */
export const BACKOFF_CAP_MS = 30_000
/** The longest `Retry-After` that the client follows. */
export const RETRY_AFTER_CAP_MS = 60_000
