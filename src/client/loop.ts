/**
 * The loop behind `consume` and `drain`: claims, runs handlers, reports how they ended, until it is stopped.
 *
 * It holds no more jobs than fit, and every job it holds is under the heartbeat until its end is reported or its
 * lease is lost. What a handler's end means is reported with the job's own token and repeated until it is answered;
 * a `complete` never becomes a retry. A claim is repeated under its name until it is answered. The loop ends only by
 * being stopped, or by a claim that would be refused for ever, and hands back what it did not start. Nothing here ever
 * rejects.
 */
import { backoffMs } from './backoff.ts'
import { sleep } from './clock.ts'
import { EchoMQError, isLost } from './errors.ts'
import { createHeartbeat, type Hold, leaseFrom } from './heartbeat.ts'
import { mintClaimId } from './ids.ts'
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
import { mustBeWithin } from './rules.ts'
import { parsePayload, type StandardSchema } from './schema.ts'
import type { Transport } from './transport.ts'

/**
 * What is done with a job. It returns: the job is complete. It throws: the job is tried again, see `retryIn` and
 * `deadLetter` for more. Its `signal` is aborted when the job is no longer its own; nothing is reported then.
 */
export type Handler<Payload> = (job: Job<Payload>, context: { readonly signal: AbortSignal }) => unknown

/** What happens to a consumer and its jobs. */
export type ConsumerEvents<Payload> = {
  /** A job is done. `gone`: it was not there any more, perhaps because of an attempt whose answer was lost. */
  readonly completed: { readonly job: Job<Payload>; readonly status: 'completed' | 'gone' }
  /** A job will be tried again. `error` is what its handler threw; `delayMs` is undefined when the answer was lost. */
  readonly retried: {
    readonly job: Job<Payload>
    readonly error: unknown
    readonly delayMs: number | undefined
  }
  /** A job is among the dead letters: its handler said so, or it has been tried often enough. */
  readonly dead: { readonly job: Job<Payload>; readonly error: unknown }
  /** A job is somebody else's, or will be: its lease is over. Nothing was reported. */
  readonly leaseLost: { readonly job: Job<Payload> }
  /**
   * The consumer's own trouble, or a listener's; with a job when its end could not be reported. When a claim was refused
   * and would be for ever (a wrong token, an option the server does not take), `stopped` follows.
   */
  readonly error: { readonly error: unknown; readonly job?: Job<Payload> | undefined }
  /** A claim brought nothing, and nothing runs. */
  readonly idle: Record<never, never>
  /** The last event, until it is started again. */
  readonly stopped: Record<never, never>
}

export type Emit<Payload> = <Name extends keyof ConsumerEvents<Payload>>(
  name: Name,
  event: ConsumerEvents<Payload>[Name],
) => void

/** How a consumer works. All of it is optional. */
export type ConsumeOptions = {
  /** How many handlers run at once: 1 .. 1000, default 1. */
  readonly concurrency?: number | undefined
  /** How many jobs one claim may bring: 1 .. 100, default `concurrency`. Those that no handler is free for wait. */
  readonly batch?: number | undefined
  /** How long a lease is, in milliseconds: 10 .. 86,400,000; default the queue's. It is renewed while a job runs. */
  readonly leaseMs?: number | undefined
  /** How long a claim of an empty queue waits, in milliseconds: 0 .. 25,000, default 20,000; half a lease at most. */
  readonly waitMs?: number | undefined
}

/** Starts a loop that tells what happens. */
export type StartLoop<Payload> = (tell: Emit<Payload>) => Loop

export type Loop = {
  /** Claims nothing more; whatever runs has so long, in milliseconds. Called again, the shorter time counts. */
  stop(timeoutMs: number): void
  /** Aborted as soon as it claims nothing more. */
  readonly stopping: AbortSignal
  /** When it has ended: how many jobs it took and gave back, and why its last claim failed, if it did. */
  readonly ended: Promise<{
    readonly taken: number
    readonly released: number
    readonly failure: EchoMQError | undefined
  }>
}

type Held<Payload> = Hold & {
  job: Job<Payload>
  /** Aborted: no longer ours, and whatever its handler does is not reported. */
  readonly abort: AbortController
}

/** A payload that does not fit never will. A schema that fails itself is like a handler that does. */
const bury = (error: unknown): never => {
  throw error instanceof EchoMQError ? deadLetter(error) : error
}

/**
 * The loops of a queue.
 *
 * @param untilEmpty End when there is nothing left instead of waiting for more.
 * @throws {EchoMQError} `invalid` for options out of bounds.
 */
export const createLooper =
  <Payload>(transport: Transport, moves: Moves, schema: StandardSchema<unknown, Payload> | undefined) =>
  (handler: Handler<Payload>, options: ConsumeOptions, tell: Emit<Payload>, untilEmpty?: boolean): Loop => {
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
    const waiting: Held<Payload>[] = []
    const running = new Set<Held<Payload>>()
    /** The claim that is not answered yet. */
    let claim: ClaimBody | undefined
    let failure: EchoMQError | undefined
    let knownLeaseMs = leaseMs ?? 0
    let taken = 0
    let released = 0
    const releases: Promise<unknown>[] = []
    let wake = (): void => {}

    /** The next end of a handler, or the order to stop. */
    const change = (): Promise<void> =>
      new Promise((resolve) => {
        wake = resolve
      })

    const emit: Emit<Payload> = (name, event) => {
      if (!over.signal.aborted) tell(name, event)
    }

    const stop = (timeoutMs: number): void => {
      stopping.abort()
      wake()
      // What is kept for giving jobs back, so that all of it is over in time.
      const spareMs = Math.min(1000, timeoutMs / 5)
      void sleep(clock, timeoutMs - spareMs, over.signal).then(() => giveBack(running))
      void sleep(clock, timeoutMs, over.signal).then(() => over.abort())
    }

    const trouble = (error: unknown, job?: Job<Payload>): void => emit('error', { error, job })

    const lose = (held: Held<Payload>): void => {
      held.abort.abort(new EchoMQError('stale', 'lease lost'))
      emit('leaseLost', { job: held.job })
    }

    const heartbeat = createHeartbeat<Held<Payload>>(transport, moves, () => knownLeaseMs, lose, trouble)

    /** Whether the job may go on. A machine that was busy or asleep has missed the heartbeat's timers. */
    const isOurs = ({ abort, leaseEndsAt }: Held<Payload>): boolean =>
      !abort.signal.aborted && clock.now() < leaseEndsAt

    const report = async (held: Held<Payload>, { move, ...body }: Outcome, error: unknown): Promise<void> => {
      const { job } = held
      held.isReported = true
      const untilMs = held.leaseEndsAt + GRACE_MS
      // The job's own signal and not one for all: platforms warn of many listeners on one signal.
      const { signal } = held.abort
      const again = (): boolean => !signal.aborted && clock.now() < untilMs
      try {
        const { status, delayMs } = await moves.move(move, job, body, { again, wake: signal })
        if (move === 'complete') emit('completed', { job, status: status as 'completed' | 'gone' })
        else if (move === 'fail' || status === 'dead') emit('dead', { job, error })
        else emit('retried', { job, error, delayMs })
      } catch (refusal) {
        if (isLost(refusal as EchoMQError)) emit('leaseLost', { job })
        else trouble(refusal, job)
      }
    }

    const run = async (held: Held<Payload>): Promise<void> => {
      running.add(held)
      let outcome: Outcome = { move: 'complete' }
      let thrown: unknown
      try {
        if (schema)
          held.job = { ...held.job, payload: await parsePayload(schema, held.job.payload).catch(bury) }
        // The lease may have been lost while the job waited or the schema was at work.
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

    const fill = (): void => {
      while (!stopping.signal.aborted && running.size < concurrency) {
        const held = waiting.shift()
        if (!held) return
        void run(held)
      }
    }

    const take = ({ jobs, sentAt }: Claimed): void => {
      const holds = jobs.map((job) => ({
        job: job as Job<Payload>,
        ...leaseFrom(sentAt, job.leaseMs),
        abort: new AbortController(),
      }))
      // The answer to a repeated claim tells what is left of its leases, so the longest counts.
      knownLeaseMs = leaseMs ?? Math.max(knownLeaseMs, ...jobs.map((job) => job.leaseMs))
      taken += holds.length
      waiting.push(...holds)
      heartbeat.hold(holds)
      fill()
    }

    const claimAll = async (): Promise<void> => {
      let failures = 0
      while (!stopping.signal.aborted) {
        const busy = running.size
        if (busy >= concurrency) {
          await change()
          continue
        }
        claim ??= {
          claimId: mintClaimId(),
          limit: Math.min(batch, Math.max(concurrency, batch) - busy),
          leaseMs,
        }
        // A lease counts from before the wait, so the wait must leave some of it.
        const mostMs = Math.floor((knownLeaseMs || DEFAULT_LEASE_MS) / 2)
        try {
          // One that waits is hung up on; the answer to another is on its way, and says what there is to give back.
          const { signal } = waitMs > 0 ? stopping : over
          const claimed = await moves.claim({ ...claim, waitMs: Math.min(waitMs, mostMs) }, signal)
          claim = failure = undefined
          failures = 0
          if (claimed.jobs.length > 0) {
            take(claimed)
          } else if (claimed.more) {
            // The claim stopped early: claim again at once.
          } else if (untilEmpty) {
            // What still runs may bring more, so the last claim is one that nothing ran beside.
            if (busy === 0) stop(Infinity)
            while (running.size > 0 && !stopping.signal.aborted) await change()
          } else {
            if (running.size === 0) emit('idle', {})
            // The wait of the claim itself counts: a queue that was watched all the time need not be left alone.
            const askAt = claimed.sentAt + (claimed.retryAfterMs || IDLE_MS)
            await sleep(clock, askAt - clock.now(), stopping.signal)
          }
        } catch (error) {
          if (stopping.signal.aborted) return
          failure = error as EchoMQError
          // What is wrong with the request or its token stays wrong. A deployment may be mended, but not for a drain.
          if (!failure.retryable && (untilEmpty || Number(failure.status) < 500)) {
            claim = undefined
            stop(Infinity)
          }
          trouble(failure)
          await sleep(clock, backoffMs(clock, ++failures, failure), stopping.signal)
        }
      }
    }

    /** Gives up jobs that are still ours. What is being reported is left to its report. */
    const giveBack = (holds: Iterable<Held<Payload>>): void => {
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

    const handBack = async (): Promise<void> => {
      giveBack(waiting)
      // A claim that was hung up on may have taken jobs: under its name they are handed out again.
      if (claim && !over.signal.aborted) await moves.claim(claim).then(take, trouble)
      giveBack(waiting)
      while (running.size > 0) await change()
      await Promise.all(releases)
    }

    const live = async (): ReturnType<() => Loop['ended']> => {
      await claimAll()
      await Promise.race([handBack(), sleep(clock, Infinity, over.signal)])
      over.abort()
      for (const { abort } of running) abort.abort()
      heartbeat.close()
      return { taken, released, failure }
    }

    return {
      stop,
      stopping: stopping.signal,
      ended: live(),
    }
  }
