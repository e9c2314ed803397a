/**
 * What a handler may throw to say more than "it failed": when to retry the job, or that it must not be retried.
 */
import { errorText, must } from './errors.ts'
import { MAX_DELAY_MS } from './limits.ts'

/** The move that ends a job, and the fields that are sent with it. */
export type Outcome =
  | { readonly move: 'complete' }
  | { readonly move: 'retry'; readonly error: string; readonly delayMs?: number }
  | { readonly move: 'fail'; readonly error: string }

// A registered symbol instead of a class: two copies of this package in one bundle then understand each other.
const OUTCOME: unique symbol = Symbol.for('echomq-edge.outcome')
type WithOutcome = Error & { [OUTCOME]?: Outcome }

function throwable(cause: unknown, outcome: Outcome & { readonly error: string }): Error {
  return Object.assign(new Error(outcome.error, { cause }), { [OUTCOME]: outcome })
}

/**
 * An error to throw from a handler: retry this job after exactly this delay.
 *
 * @param ms Milliseconds, rounded and limited to 0 .. 366 days.
 * @param cause What went wrong; its text is stored with the job.
 * @throws {EchoMQError} `invalid` when `ms` is not a number.
 *
 * @example
 * emails.consume(async (job) => {
 *   const answer = await send(job.payload)
 *   if (answer.status === 429) throw retryIn(60_000)
 * })
 */
export function retryIn(ms: number, cause: unknown = `retryIn ${ms}`): Error {
  const delayMs = Math.min(Math.max(Math.round(ms), 0), MAX_DELAY_MS)
  must(delayMs >= 0, 'ms', 'be a number')
  return throwable(cause, { move: 'retry', error: errorText(cause), delayMs })
}

/**
 * An error to throw from a handler: never retry this job, move it to the dead letters.
 *
 * @param reason A text or an error; its text is stored with the job.
 *
 * @example
 * emails.consume(async (job) => {
 *   if (!job.payload.to.includes('@')) throw deadLetter('not an address')
 * })
 */
export function deadLetter(reason: unknown): Error {
  return throwable(reason, { move: 'fail', error: errorText(reason) })
}

/** The outcome of a job whose handler threw this. */
export function outcomeOf(thrown: unknown): Outcome {
  const outcome = thrown instanceof Error && (thrown as WithOutcome)[OUTCOME]
  return outcome || { move: 'retry', error: errorText(thrown) }
}
