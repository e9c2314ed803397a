/**
 * The loop behind `consume` and `drain`: claims jobs, runs handlers and reports their results, until it is stopped.
 *
 * It never holds more jobs than fit, and the heartbeat covers every held job until its end is reported or its lease is
 * lost. The result of a handler is reported with the job's own token and repeated until the API responds; a `complete`
 * never becomes a retry. A claim is repeated under its `claimId` until the API responds. The loop ends only when it is
 * stopped or a claim fails permanently, and it releases the jobs that it did not start. Nothing here rejects.
 */
import { backoffMs, sleep } from './clock.ts'
import { EchoMQError, isLost, mustBeWithin } from './errors.ts'
import { createHeartbeat, type Hold, leaseFrom } from './heartbeat.ts'
import { randomName } from './ids.ts'
import type { Job } from './jobs.ts'
import {
  DEFAULT_LEASE_MS,
  GRACE_MS,
  IDLE_MS,
  MAX_ITEMS_PER_SETTLE,
  MAX_JOBS_PER_CLAIM,
  MAX_LEASE_MS,
  MAX_WAIT_MS,
  MIN_LEASE_MS,
} from './limits.ts'
import type { ClaimBody, Claimed, Moves } from './moves.ts'
import { deadLetter, type Outcome, outcomeOf } from './outcomes.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import type { Transport } from './transport.ts'

/**
 * Works one job. If it returns, the job is complete. If it throws, the job is retried; `retryIn` and `deadLetter` say
 * more. `signal` is aborted when the job's lease is lost; then nothing is reported.
 */
export type Handler<Payload> = (job: Job<Payload>, context: { readonly signal: AbortSignal }) => unknown

/** The events of a consumer. */
export type ConsumerEvents<Payload> = {
  /** A job is complete. `gone`: it no longer existed, perhaps because an earlier response was lost. */
  readonly completed: { readonly job: Job<Payload>; readonly status: 'completed' | 'gone' }
  /** A job will be retried. `error` is what its handler threw; `delayMs` is undefined when the response was lost. */
  readonly retried: {
    readonly job: Job<Payload>
    readonly error: unknown
    readonly delayMs: number | undefined
  }
  /** A job is a dead letter: its handler said so, or its budget is used up. */
  readonly dead: { readonly job: Job<Payload>; readonly error: unknown }
  /** The lease of a job is lost, so another consumer owns the job or will own it. Nothing was reported. */
  readonly leaseLost: { readonly job: Job<Payload> }
  /**
   * A request of the consumer failed, or a listener did; with a job when its end could not be reported. After a permanent
   * error (a wrong token, an option that the server rejects), `stopped` follows.
   */
  readonly error: { readonly error: unknown; readonly job?: Job<Payload> | undefined }
  /** A claim returned nothing, and no handler runs. */
  readonly idle: Record<never, never>
  /** The last event, until the consumer is started again. */
  readonly stopped: Record<never, never>
}

export type Emit<Payload> = <Name extends keyof ConsumerEvents<Payload>>(
  name: Name,
  event: ConsumerEvents<Payload>[Name],
) => void

/** How a consumer works. Every option is optional. */
export type ConsumeOptions = {
  /** How many handlers run at the same time: 1 .. 1000, default 1. */
  readonly concurrency?: number | undefined
  /** How many jobs one claim may return: 1 .. 100, default `concurrency`. Jobs without a free handler are buffered. */
  readonly batch?: number | undefined
  /** The length of a lease, in milliseconds: 10 .. 86,400,000; default the queue's. It is renewed while a job runs. */
  readonly leaseMs?: number | undefined
  /** How long a claim of an empty queue waits, in milliseconds: 0 .. 60,000, default 20,000; at most two thirds of a lease. */
  readonly waitMs?: number | undefined
}

/** Starts a loop that reports its events to `tell`. */
export type StartLoop<Payload> = (tell: Emit<Payload>) => Loop

export type Loop = {
  /** Ends claiming. Running handlers get this long, in milliseconds. Of two calls, the shorter time counts. */
  stop(timeoutMs: number): void
  /** Aborted as soon as the loop claims no more. */
  readonly stopping: AbortSignal
  /** Resolves when the loop has ended: how many jobs it claimed and released, and the error of its last claim. */
  readonly ended: Promise<{
    readonly taken: number
    readonly released: number
    readonly failure: EchoMQError | undefined
  }>
}

type Held<Payload> = Hold & {
  job: Job<Payload>
  /** Aborted when the job is no longer ours: then the result of its handler is not reported. */
  readonly abort: AbortController
}

/** A payload that does not match never will. An error of the schema itself is like an error of the handler. */
function bury(error: unknown): never {
  throw error instanceof EchoMQError ? deadLetter(error) : error
}

/**
 * Starts a loop.
 *
 * @param untilEmpty End when the queue is empty, instead of waiting for more jobs.
 * @throws {EchoMQError} `invalid` for an option that is out of range.
 */
export function startLoop<Payload>(
  transport: Transport,
  moves: Moves,
  schema: StandardSchema<unknown, Payload> | undefined,
  handler: Handler<Payload>,
  options: ConsumeOptions,
  tell: Emit<Payload>,
  untilEmpty?: boolean,
): Loop {
  const {
    concurrency = 1,
    batch = Math.min(concurrency, MAX_JOBS_PER_CLAIM),
    leaseMs,
    waitMs = 20_000,
  } = options
  const { clock } = transport
  mustBeWithin('concurrency', concurrency, 1, MAX_ITEMS_PER_SETTLE)
  mustBeWithin('batch', batch, 1, MAX_JOBS_PER_CLAIM)
  mustBeWithin('leaseMs', leaseMs ?? MIN_LEASE_MS, MIN_LEASE_MS, MAX_LEASE_MS)
  mustBeWithin('waitMs', waitMs, 0, MAX_WAIT_MS)
  /** Aborted: no new claims. */
  const stopping = new AbortController()
  /** Aborted: the time for stopping is over. */
  const over = new AbortController()
  const buffer: Held<Payload>[] = []
  const running = new Set<Held<Payload>>()
  /** The claim that has no response yet. */
  let claim: ClaimBody | undefined
  /** Failed claims in a row. */
  let failures = 0
  let failure: EchoMQError | undefined
  let knownLeaseMs = leaseMs ?? 0
  let taken = 0
  let released = 0
  const releases: Promise<unknown>[] = []
  let wake = (): void => {}

  /** Resolves at the next end of a handler, or when the loop is stopped. */
  function change(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve
    })
  }

  const emit: Emit<Payload> = (name, event) => {
    if (!over.signal.aborted) tell(name, event)
  }

  function stop(timeoutMs: number): void {
    stopping.abort()
    wake()
    // Kept for releasing jobs, so that everything ends in time.
    const spareMs = Math.min(1000, timeoutMs / 5)
    void sleep(clock, timeoutMs - spareMs, over.signal).then(() => release(running))
    void sleep(clock, timeoutMs, over.signal).then(() => over.abort())
  }

  function trouble(error: unknown, job?: Job<Payload>): void {
    emit('error', { error, job })
  }

  function lose(held: Held<Payload>): void {
    held.abort.abort(new EchoMQError('stale', 'lease lost'))
    emit('leaseLost', { job: held.job })
  }

  const heartbeat = createHeartbeat<Held<Payload>>(transport, moves, () => knownLeaseMs, lose, trouble)

  /** Whether the job is still ours. A machine that was busy or asleep has missed the timers of the heartbeat. */
  function isOurs({ abort, leaseEndsAt }: Held<Payload>): boolean {
    return !abort.signal.aborted && clock.now() < leaseEndsAt
  }

  async function report(held: Held<Payload>, { move, ...body }: Outcome, error: unknown): Promise<void> {
    const { job } = held
    held.isReported = true
    const untilMs = held.leaseEndsAt + GRACE_MS
    // The job's own signal instead of a shared one: platforms warn about many listeners on one signal.
    const { signal } = held.abort
    try {
      const { status, delayMs } = await moves.move(
        move,
        job,
        body,
        signal,
        () => !signal.aborted && clock.now() < untilMs,
      )
      if (move === 'complete') emit('completed', { job, status: status as 'completed' | 'gone' })
      else if (move === 'fail' || status === 'dead') emit('dead', { job, error })
      else emit('retried', { job, error, delayMs })
    } catch (refusal) {
      if (isLost(refusal as EchoMQError)) lose(held)
      else trouble(refusal, job)
    }
  }

  async function run(held: Held<Payload>): Promise<void> {
    running.add(held)
    let outcome: Outcome = { move: 'complete' }
    let thrown: unknown
    try {
      if (schema)
        held.job = { ...held.job, payload: await parsePayload(schema, held.job.payload).catch(bury) }
      // The lease may have been lost while the job was buffered or the schema was at work.
      if (isOurs(held)) await handler(held.job, { signal: held.abort.signal })
    } catch (error) {
      thrown = error
      outcome = outcomeOf(error)
    }
    if (isOurs(held)) await report(held, outcome, thrown)
    heartbeat.letGo(held)
    running.delete(held)
    fill()
    wake()
  }

  function fill(): void {
    while (!stopping.signal.aborted && running.size < concurrency) {
      const held = buffer.shift()
      if (!held) return
      void run(held)
    }
  }

  function take({ jobs, sentAt }: Claimed): void {
    const holds = jobs.map((job) => ({
      job: job as Job<Payload>,
      ...leaseFrom(sentAt, job.leaseMs),
      abort: new AbortController(),
    }))
    // The response to a repeated claim reports the rest of each lease, so the longest one counts.
    knownLeaseMs = leaseMs ?? Math.max(knownLeaseMs, ...jobs.map((job) => job.leaseMs))
    taken += holds.length
    buffer.push(...holds)
    heartbeat.hold(holds)
    fill()
  }

  /** Sends one claim and takes its jobs. After an empty one, waits as long as the queue should be left alone. */
  async function claimOnce(): Promise<void> {
    const busy = running.size
    if (busy >= concurrency) return change()
    claim ??= {
      claimId: randomName(),
      limit: Math.min(batch, Math.max(concurrency, batch) - busy),
      leaseMs,
    }
    // A lease is counted from before the wait, so the wait must leave some of it.
    const mostMs = Math.floor(((knownLeaseMs || DEFAULT_LEASE_MS) * 2) / 3)
    // On stop, abort a waiting claim. Let a short one finish: its jobs must be released.
    const { signal } = waitMs > 0 ? stopping : over
    const claimed = await moves.claim({ ...claim, waitMs: Math.min(waitMs, mostMs) }, signal)
    claim = failure = undefined
    failures = 0
    if (claimed.jobs.length > 0) return take(claimed)
    if (claimed.more) return
    if (untilEmpty) {
      // A running handler may enqueue more, so only a claim beside no handler proves that the queue is empty.
      if (busy === 0) stop(Infinity)
      while (running.size > 0 && !stopping.signal.aborted) await change()
    } else {
      if (running.size === 0) emit('idle', {})
      // The wait of the claim itself counts.
      await sleep(clock, claimed.sentAt + (claimed.retryAfterMs || IDLE_MS) - clock.now(), stopping.signal)
    }
  }

  async function claimAll(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await claimOnce()
      } catch (error) {
        if (stopping.signal.aborted) return
        failure = error as EchoMQError
        // A wrong request or token stays wrong. A deployment may be repaired, but a drain does not wait for that.
        if (!failure.retryable && (untilEmpty || Number(failure.status) < 500)) {
          claim = undefined
          stop(Infinity)
        }
        trouble(failure)
        await sleep(clock, backoffMs(clock, ++failures, failure), stopping.signal)
      }
    }
  }

  /** Releases the jobs that are still ours, except those that are being reported. */
  function release(holds: Iterable<Held<Payload>>): void {
    const ours = [...holds].filter((held) => isOurs(held) && !held.isReported)
    if (ours.length === 0) return
    released += ours.length
    for (const held of ours) {
      heartbeat.letGo(held)
      held.abort.abort()
    }
    const items = ours.map(({ job: { id, token } }) => ({ action: 'release', id, token }) as const)
    releases.push(transport.repeat(() => moves.settle(items), over.signal).catch(trouble))
  }

  async function handBack(): Promise<void> {
    release(buffer)
    // The aborted claim may have taken jobs: a repeat under its `claimId` returns them.
    if (claim && !over.signal.aborted) await moves.claim(claim).then(take, trouble)
    release(buffer)
    while (running.size > 0) await change()
    await Promise.all(releases)
  }

  async function live(): ReturnType<() => Loop['ended']> {
    await claimAll()
    await Promise.race([handBack(), sleep(clock, Infinity, over.signal)])
    over.abort()
    for (const { abort } of running) abort.abort()
    heartbeat.close()
    return { taken, released, failure }
  }

  return { stop, stopping: stopping.signal, ended: live() }
}
