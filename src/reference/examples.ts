/** The examples of the reference, by operation. A test sends each of them to the API and compares the response. */
import type { ErrorCode } from '../errors.ts'
import type { Problem } from '../http/problem.ts'
import { refusalProblem } from '../http/refusal.ts'

export type Example = {
  readonly summary: string
  readonly query?: Readonly<Record<string, string | number>>
  readonly headers?: Readonly<Record<string, string>>
  readonly request?: unknown
  /** The status of the response; only where the operation has more than one. */
  readonly status?: number
  readonly response?: unknown
}

export const EXAMPLE_QUEUE = 'emails'
export const EXAMPLE_ID = 'JOB0SUcTgl03jU'

const OTHER_ID = 'JOB0SUcTmToeK8'
const THIRD_ID = 'JOB0SUcTsCdEum'
const PAYLOAD = { to: 'ada@example.com', template: 'welcome' }
const OTHER_PAYLOAD = { to: 'grace@example.com', template: 'welcome' }
const ERROR = 'SMTP 451: try again later'

const claimed = {
  id: EXAMPLE_ID,
  queue: EXAMPLE_QUEUE,
  token: 1,
  leaseMs: 30_000,
  enqueuedAt: '2026-11-30T09:30:00.000Z',
  payload: PAYLOAD,
}
/** The same job from a claim with `limit`. */
const inBatch = { ...claimed, attempt: 1, maxAttempts: 5 }
const otherClaimed = {
  ...inBatch,
  id: OTHER_ID,
  enqueuedAt: '2026-11-30T09:30:01.250Z',
  payload: OTHER_PAYLOAD,
}

const settings = {
  maxAttempts: 5,
  backoff: { baseMs: 1000, maxMs: 600_000 },
  leaseMs: 30_000,
  maxActive: 0,
  maxPending: 0,
}

const stats = {
  queue: EXAMPLE_QUEUE,
  counts: { pending: 1, active: 0, scheduled: 1, dead: 0 },
  paused: false,
  completed: 0,
  failed: 0,
  ghosts: 0,
  settings,
  oldestPendingAt: '2026-11-30T09:30:00.000Z',
  nextDueAt: '2026-11-30T09:35:00.000Z',
}

const deadJob = {
  id: EXAMPLE_ID,
  queue: EXAMPLE_QUEUE,
  state: 'dead',
  attempts: 1,
  enqueuedAt: '2026-11-30T09:30:00.000Z',
  lastError: ERROR,
}

const exchange = (summary: string, request: unknown, response: unknown): Example => ({
  summary,
  request,
  response,
})

/** By operation and name. */
export const EXAMPLES: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  enqueue: {
    one: {
      summary: 'One job',
      request: { payload: PAYLOAD },
      status: 201,
      response: { id: EXAMPLE_ID, status: 'enqueued' },
    },
    later: {
      summary: 'A job that is due in five minutes, with an idempotency key',
      headers: { 'Idempotency-Key': 'welcome-42' },
      request: { payload: PAYLOAD, delayMs: 300_000, maxAttempts: 8 },
      status: 201,
      response: { id: EXAMPLE_ID, status: 'scheduled' },
    },
    again: {
      summary: 'A job with a known key: nothing is enqueued',
      request: { payload: PAYLOAD, idempotencyKey: 'welcome-42' },
      status: 200,
      response: { id: EXAMPLE_ID, status: 'duplicate' },
    },
    many: {
      summary: 'Many jobs, one of them rejected',
      request: {
        jobs: [
          { payload: PAYLOAD },
          { text: 'kept verbatim', maxAttempts: 1 },
          { payload: PAYLOAD, runAt: '9999-12-31T23:59:59Z' },
        ],
      },
      status: 200,
      response: {
        results: [
          { id: EXAMPLE_ID, status: 'enqueued' },
          { id: OTHER_ID, status: 'enqueued' },
          {
            error: {
              code: 'invalid',
              detail: 'The time is too far ahead: use one within 366 days.',
              errors: [{ path: 'runAt', message: 'is more than 366 days ahead' }],
            },
          },
        ],
      },
    },
  },
  claim: {
    many: exchange(
      'Up to ten jobs; waits if there is none',
      { limit: 10, leaseMs: 30_000, claimId: 'mailer-7.1042', waitMs: 20_000 },
      { jobs: [inBatch, otherClaimed] },
    ),
    one: exchange('One job, by the script of the wire contract', {}, { jobs: [claimed] }),
    early: exchange('It removed many ghosts: claim again at once', { limit: 10 }, { jobs: [], more: true }),
    empty: exchange('No job', { limit: 10 }, { jobs: [], retryAfterMs: 50 }),
  },
  complete: {
    done: exchange('Done', { token: 1 }, { id: EXAMPLE_ID, status: 'completed' }),
  },
  retry: {
    backoff: exchange(
      "After the queue's backoff",
      { token: 1, error: ERROR },
      { id: EXAMPLE_ID, status: 'scheduled', delayMs: 417 },
    ),
    delay: exchange(
      'In a minute',
      { token: 1, error: ERROR, delayMs: 60_000 },
      { id: EXAMPLE_ID, status: 'scheduled', delayMs: 60_000 },
    ),
    spent: exchange(
      'The budget is used up',
      { token: 1, error: ERROR, maxAttempts: 1 },
      { id: EXAMPLE_ID, status: 'dead' },
    ),
  },
  fail: {
    hopeless: exchange(
      'No attempt can succeed',
      { token: 1, error: 'SMTP 550: no such mailbox' },
      { id: EXAMPLE_ID, status: 'dead' },
    ),
  },
  release: {
    now: exchange('For the next claim', { token: 1 }, { id: EXAMPLE_ID, status: 'pending' }),
    later: exchange('In five seconds', { token: 1, delayMs: 5000 }, { id: EXAMPLE_ID, status: 'scheduled' }),
  },
  extend: {
    minute: exchange(
      'A minute from now',
      { token: 1, leaseMs: 60_000 },
      { id: EXAMPLE_ID, status: 'extended', leaseMs: 60_000 },
    ),
  },
  settle: {
    batch: exchange(
      'One completed, one retried, one owned by another consumer; and the next job',
      {
        items: [
          { action: 'complete', id: EXAMPLE_ID, token: 1 },
          { action: 'retry', id: OTHER_ID, token: 1, error: ERROR, delayMs: 60_000 },
          { action: 'complete', id: THIRD_ID, token: 1 },
        ],
        claim: { limit: 1 },
      },
      {
        results: [
          { id: EXAMPLE_ID, status: 'completed' },
          { id: OTHER_ID, status: 'scheduled', delayMs: 60_000 },
          {
            id: THIRD_ID,
            error: refusalProblem({ refused: 'stale', reason: 'superseded' }),
          },
        ],
        jobs: [inBatch],
      },
    ),
  },
  listQueues: {
    page: {
      summary: 'The first of several pages',
      query: { limit: 1 },
      response: { queues: [stats], cursor: EXAMPLE_QUEUE },
    },
  },
  stats: { queue: { summary: 'A queue', response: stats } },
  listJobs: {
    dead: {
      summary: 'The newest dead job, with its payload',
      query: { state: 'dead', limit: 1, payload: 'true' },
      response: { jobs: [{ ...deadJob, payload: PAYLOAD }], cursor: `0:1:${EXAMPLE_ID}` },
    },
    scheduled: {
      summary: 'The scheduled jobs that are due soonest',
      query: { state: 'scheduled', order: 'oldest' },
      response: {
        jobs: [
          {
            id: EXAMPLE_ID,
            queue: EXAMPLE_QUEUE,
            state: 'scheduled',
            attempts: 0,
            enqueuedAt: '2026-11-30T09:30:00.000Z',
            runAt: '2026-11-30T09:35:00.000Z',
          },
        ],
      },
    },
  },
  job: {
    retried: {
      summary: 'A job that failed twice and was claimed again',
      response: {
        id: EXAMPLE_ID,
        queue: EXAMPLE_QUEUE,
        state: 'active',
        attempts: 3,
        enqueuedAt: '2026-11-30T09:30:00.000Z',
        leaseUntil: '2026-11-30T09:36:30.000Z',
        lastError: ERROR,
        history: [
          { attempt: 1, at: '2026-11-30T09:31:00.000Z', error: 'SMTP 421: closing' },
          { attempt: 2, at: '2026-11-30T09:33:10.000Z', error: ERROR },
        ],
        payload: PAYLOAD,
      },
    },
  },
  metrics: {
    one: {
      summary: 'One queue',
      response: `# HELP echomq_jobs Jobs by state.
# TYPE echomq_jobs gauge
echomq_jobs{queue="emails",state="pending"} 1
echomq_jobs{queue="emails",state="active"} 0
echomq_jobs{queue="emails",state="scheduled"} 1
echomq_jobs{queue="emails",state="dead"} 0
# HELP echomq_oldest_pending_age_seconds Age of the oldest pending job.
# TYPE echomq_oldest_pending_age_seconds gauge
echomq_oldest_pending_age_seconds{queue="emails"} 12.481
# HELP echomq_sweep_lag_seconds Time since the earliest due job or lapsed lease, which waits for a sweep.
# TYPE echomq_sweep_lag_seconds gauge
echomq_sweep_lag_seconds{queue="emails"} 0
# HELP echomq_completed_total Jobs completed.
# TYPE echomq_completed_total counter
echomq_completed_total{queue="emails"} 0
# HELP echomq_failed_total Jobs moved to dead.
# TYPE echomq_failed_total counter
echomq_failed_total{queue="emails"} 0
# HELP echomq_ghosts_total Ghosts removed.
# TYPE echomq_ghosts_total counter
echomq_ghosts_total{queue="emails"} 0
# HELP echomq_paused 1 if the queue is paused.
# TYPE echomq_paused gauge
echomq_paused{queue="emails"} 0
`,
    },
  },
  promote: {
    due: exchange('At most a hundred', { limit: 100 }, { promoted: 1, more: false }),
  },
  reap: {
    lapsed: exchange('At most a hundred', { limit: 100 }, { reaped: 2, dead: 1, more: false }),
  },
  maintain: {
    all: exchange(
      'All queues that are due',
      {},
      { queues: 1, promoted: 1, reaped: 0, dead: 0, ghosts: 0, remaining: [] },
    ),
  },
  redrive: {
    dead: exchange('A dead job', {}, { id: EXAMPLE_ID, status: 'pending' }),
  },
  redriveMany: {
    dryRun: exchange(
      'How many jobs died of this error?',
      { errorContains: 'SMTP 451', dryRun: true },
      { redriven: 2, more: false },
    ),
    some: exchange(
      'The first job; continue with the cursor',
      { limit: 1, errorContains: 'SMTP 451' },
      { redriven: 1, more: true, cursor: EXAMPLE_ID },
    ),
  },
  reschedule: {
    now: exchange('Run it now', { delayMs: 0 }, { id: EXAMPLE_ID, status: 'pending' }),
    later: exchange('In an hour', { delayMs: 3_600_000 }, { id: EXAMPLE_ID, status: 'scheduled' }),
  },
  purge: {
    dead: exchange('Dead jobs', { state: 'dead', limit: 100 }, { removed: 2, more: false }),
  },
  pause: { paused: exchange('Paused', {}, { paused: true }) },
  resume: { resumed: exchange('Not paused', {}, { paused: false }) },
  changeSettings: {
    some: exchange(
      'A larger budget, a slower backoff, no cap',
      { maxAttempts: 8, backoff: { baseMs: 2000 }, maxActive: null },
      { ...settings, maxAttempts: 8, backoff: { baseMs: 2000, maxMs: 600_000 } },
    ),
  },
  audit: {
    first: exchange(
      'The first step of an audit',
      {},
      {
        checked: 2,
        findings: [
          { id: EXAMPLE_ID, kind: 'ghost', sets: ['pending'] },
          { id: OTHER_ID, kind: 'doubled', sets: ['pending', 'schedule'] },
        ],
        repaired: 0,
        cursor: 'active:0',
      },
    ),
    repair: exchange(
      'The next step, with repairs',
      { cursor: 'active:0', repair: true },
      { checked: 0, findings: [], repaired: 0, cursor: 'schedule:0' },
    ),
  },
  health: { alive: { summary: 'The deployment runs', response: { status: 'ok' } } },
  readiness: {
    ready: {
      summary: 'Ready',
      status: 200,
      response: {
        status: 'ready',
        checks: {
          redis: 'ok',
          tokens: 'ok',
          settings: 'ok',
          wireVersion: 'ok',
          maintenance: { ageMs: 21_377 },
        },
      },
    },
    unready: {
      summary: 'Redis does not reply',
      status: 503,
      response: {
        status: 'unready',
        checks: {
          redis: 'failed',
          tokens: 'ok',
          settings: 'ok',
          wireVersion: 'unknown',
          maintenance: { ageMs: null },
        },
      },
    },
  },
}

/** An example of each problem. */
export const PROBLEM_EXAMPLES: Readonly<Record<ErrorCode, Omit<Problem, 'code'>>> = {
  invalid: {
    detail: 'The body is malformed.',
    errors: [{ path: 'leaseMs', message: 'Too small: expected number to be >=10' }],
  },
  unauthorized: { detail: 'A valid bearer token is required.' },
  forbidden: { detail: 'The token does not allow this queue.' },
  not_found: { detail: 'This job does not exist.' },
  method_not_allowed: { detail: 'This route allows POST.' },
  stale: refusalProblem({ refused: 'stale', reason: 'superseded' }),
  wrong_state: refusalProblem({ refused: 'wrong_state', state: 'active' }),
  locked: refusalProblem({ refused: 'locked' }),
  gone: refusalProblem({ refused: 'gone' }),
  internal: { detail: 'Internal error: the log of the deployment has the request id.' },
  too_large: { detail: 'The payload is larger than the limit of 262144 bytes.' },
  unsupported_media_type: { detail: 'The body must be application/json.' },
  wrong_kind: refusalProblem({ refused: 'wrong_kind' }),
  overloaded: refusalProblem({ refused: 'overloaded' }),
  upstream: { detail: 'Redis did not answer.' },
  misconfigured: { detail: 'UPSTASH_REDIS_REST_URL is missing.' },
  wire_version: { detail: 'The database uses a wire version that this deployment does not accept.' },
}
