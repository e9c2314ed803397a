/**
 * The limits that the client knows, each with its unit in its name. Those of the API are `src/protocol/limits.ts` said
 * again, because the client must stand alone; a test holds the two against each other.
 */

/** Jobs of one request to enqueue. */
export const MAX_JOBS_PER_ENQUEUE = 1000
/** Jobs of one claim. */
export const MAX_JOBS_PER_CLAIM = 100
/** Jobs that one settle call can renew or release, and so as many as a loop may hold. */
export const MAX_ITEMS_PER_SETTLE = 1000

export const MIN_LEASE_MS = 10
export const MAX_LEASE_MS = 86_400_000
/** How long a lease is taken to be as long as nobody has said. */
export const DEFAULT_LEASE_MS = 30_000
export const MAX_WAIT_MS = 60_000

/** 366 days: as far ahead as a job can be scheduled. */
export const MAX_DELAY_MS = 31_622_400_000
/** As much of an error's text as the server keeps. */
export const MAX_ERROR_CHARS = 2048

/** Characters of one request: a deployment takes 5 MiB unless it says otherwise, and a character has three bytes at most. */
export const MAX_REQUEST_CHARS = 1_398_101
/** The longest delay that timers take: about 25 days. Whoever wants more looks again then. */
export const MAX_TIMER_MS = 2_147_483_647

/** How long after its lease a job's end is still reported: nobody may have claimed it since. */
export const GRACE_MS = 30_000
/** Between two claims of an empty queue, when the server says nothing. */
export const IDLE_MS = 1000
/** The most that is waited between two attempts, unless the server asks for more. */
export const BACKOFF_CAP_MS = 30_000
/** However long a server asks to be left alone, it is asked again after this. */
export const RETRY_AFTER_CAP_MS = 60_000
