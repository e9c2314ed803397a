/**
 * What a handler may throw to say more than "it failed": when to try again, or that trying is of no use.
 */
import { errorText } from './errors.ts'
import { MAX_DELAY_MS } from './limits.ts'
import { must } from './rules.ts'

/** What becomes of a job whose handler has ended: the move, and what is sent with it. */
export type Outcome =
  | { readonly move: 'complete' }
  | { readonly move: 'retry'; readonly error: string; readonly delayMs?: number }
  | { readonly move: 'fail'; readonly error: string }

// A registered symbol, not a class: it is understood also when two copies of this package are in one bundle.
const OUTCOME: unique symbol = Symbol.for('echomq-edge.outcome')
type WithOutcome = Error & { [OUTCOME]?: Outcome }

const throwable = (cause: unknown, outcome: Outcome & { readonly error: string }): Error =>
  Object.assign(new Error(outcome.error, { cause }), { [OUTCOME]: outcome })

/**
 * An error to throw from a handler: try this job again after exactly so long.
 *
 * @param ms Milliseconds, rounded and held within 0 and 366 days.
 * @param cause What went wrong; its text is kept with the job.
 * @throws {EchoMQError} `invalid` when `ms` is not a number.
 *
 * @example
 * emails.consume(async (job) => {
 *   const answer = await send(job.payload)
 *   if (answer.status === 429) throw retryIn(60_000)
 * })
 */
export const retryIn = (ms: number, cause: unknown = `retryIn ${ms}`): Error => {
  const delayMs = Math.min(Math.max(Math.round(ms), 0), MAX_DELAY_MS)
  must(delayMs >= 0, 'ms', 'be a number')
  return throwable(cause, { move: 'retry', error: errorText(cause), delayMs })
}

/**
 * An error to throw from a handler: never try this job again, put it among the dead letters.
 *
 * @param reason Text or error; its text is kept with the job.
 *
 * @example
 * emails.consume(async (job) => {
 *   if (!job.payload.to.includes('@')) throw deadLetter('not an address')
 * })
 */
export const deadLetter = (reason: unknown): Error =>
  throwable(reason, { move: 'fail', error: errorText(reason) })

/** What becomes of a job whose handler threw this. */
export const outcomeOf = (thrown: unknown): Outcome =>
  (thrown instanceof Error && (thrown as WithOutcome)[OUTCOME]) || { move: 'retry', error: errorText(thrown) }
