/** Refusals of the queue as problems of the API: one mapping, for single moves and for items of a batch. */
import type { ErrorCode } from '../errors.ts'
import type { Refusal, Result } from '../protocol/refusals.ts'
import { ProblemError, type ProblemExtras } from './problem.ts'

type Description = { code: ErrorCode; detail: string; extras: ProblemExtras }

const STALE_DETAIL = {
  superseded: 'The token is not the live one: another claim holds the job, or has held it since.',
  released: 'The token is spent: its holder gave the job back before, or the job was redriven.',
  lapsed: 'The lease ran out and the job was taken back.',
}

function describe(refusal: Refusal): Description {
  switch (refusal.refused) {
    case 'stale':
      return { code: 'stale', detail: STALE_DETAIL[refusal.reason], extras: { reason: refusal.reason } }
    case 'gone':
      return { code: 'gone', detail: 'There is no such job any more.', extras: {} }
    case 'wrong_kind':
      return { code: 'wrong_kind', detail: 'The id is well-formed, but not of a job.', extras: {} }
    case 'wrong_state': {
      const { state } = refusal
      return state === undefined
        ? { code: 'wrong_state', detail: 'The job is in no state that is known.', extras: {} }
        : { code: 'wrong_state', detail: `The job is ${state}.`, extras: { state } }
    }
    case 'locked':
      return { code: 'locked', detail: 'A live lease holds the job.', extras: {} }
    case 'overloaded':
      return { code: 'overloaded', detail: 'The queue holds as many pending jobs as it may.', extras: {} }
  }
}

/** A refusal as a problem. */
export function refused(refusal: Refusal): ProblemError {
  const { code, detail, extras } = describe(refusal)
  return new ProblemError(code, detail, extras)
}

/** The value of a result; throws a refusal as a problem. */
export function accepted<T>(result: Result<T>): T {
  if (!result.ok) throw refused(result.refusal)
  return result.value
}

/** A refusal as the `error` of an item. */
export function itemError(refusal: Refusal): { code: ErrorCode; detail: string } & ProblemExtras {
  const { code, detail, extras } = describe(refusal)
  return { code, detail, ...extras }
}
