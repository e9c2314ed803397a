/** Refusals of the queue as problems of the API: one mapping, for single moves and for items of a batch. */
import type { Refusal, Result } from '../protocol/refusals.ts'
import { type Problem, ProblemError } from './problem.ts'

const STALE_DETAIL = {
  superseded: 'The token is not the live token: the job was claimed again.',
  released: 'The token is not the live token: its holder gave the job back, or the job was redriven.',
  lapsed: 'The lease ran out, and the job was taken back.',
}

/** A refusal as a problem; in a batch it is the `error` of the item. */
export function refusalProblem(refusal: Refusal): Problem {
  switch (refusal.refused) {
    case 'stale':
      return { code: 'stale', detail: STALE_DETAIL[refusal.reason], reason: refusal.reason }
    case 'gone':
      return { code: 'gone', detail: 'The job does not exist: it was completed, removed, or never enqueued.' }
    case 'wrong_kind':
      return {
        code: 'wrong_kind',
        detail: 'This id names another kind of entity: a job id starts with JOB.',
      }
    case 'wrong_state': {
      const { state } = refusal
      return state === undefined
        ? { code: 'wrong_state', detail: 'The state of the job is unknown.' }
        : { code: 'wrong_state', detail: `The job is ${state}.`, state }
    }
    case 'locked':
      return { code: 'locked', detail: 'A consumer owns the job under a live lease.' }
    case 'key_reused':
      return { code: 'invalid', detail: 'The idempotency key belongs to a batch of another size.' }
    case 'overloaded':
      return { code: 'overloaded', detail: 'The queue contains as many pending jobs as it may.' }
  }
}

/** A refusal as an error. */
export function refused(refusal: Refusal): ProblemError {
  const { code, detail, ...extras } = refusalProblem(refusal)
  return new ProblemError(code, detail, extras)
}

/** The value of a result, or its refusal thrown as a problem. */
export function accepted<T>(result: Result<T>): T {
  if (!result.ok) throw refused(result.refusal)
  return result.value
}
