/**
 * Results of moves. A script that rejects a move returns an error text that starts with a class word; `parseRefusal`
 * turns that text into a value. Any other error is a failure, not a refusal.
 */
import { isJobState, type JobState } from './states.ts'

/** What a move returns, alone or as an element of a batch. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal }

/** Why a move was rejected. */
export type Refusal =
  | { readonly refused: 'stale'; readonly reason: StaleReason }
  | { readonly refused: 'gone' | 'wrong_kind' | 'locked' | 'overloaded' }
  /** The idempotency key of a batch belongs to a batch of another size. */
  | { readonly refused: 'key_reused' }
  /** Without a state when the row names an unknown one. */
  | { readonly refused: 'wrong_state'; readonly state?: JobState }

/** Why a fencing token is stale. */
export type StaleReason =
  /** Another claim has a newer token, or the token was never valid. */
  | 'superseded'
  /** The holder gave the job back before, or the job was redriven. */
  | 'released'
  /** The lease lapsed and the reaper took the job. */
  | 'lapsed'

export const accept = <T>(value: T): Result<T> => ({ ok: true, value })
export const refuse = (refusal: Refusal): Result<never> => ({ ok: false, refusal })

/** The refusal in the error text of a script; undefined when the text is another error. */
export function parseRefusal(text: string): Refusal | undefined {
  const words = text.split(' ')
  switch (words[0]) {
    case 'EMQKIND':
      return { refused: 'wrong_kind' }
    case 'EMQSTALE': {
      if (text.startsWith('EMQSTALE job gone')) return { refused: 'gone' }
      const reason = (['lapsed', 'released'] as const).find((word) => text.endsWith(`(${word})`))
      return { refused: 'stale', reason: reason ?? 'superseded' }
    }
    case 'EMQSTATE': {
      const state = words.at(-1)
      return isJobState(state) ? { refused: 'wrong_state', state } : { refused: 'wrong_state' }
    }
    case 'EMQLOCK':
      return { refused: 'locked' }
    case 'EMQKEY':
      return { refused: 'key_reused' }
    case 'EMQFULL':
      return { refused: 'overloaded' }
    default:
      return undefined
  }
}
