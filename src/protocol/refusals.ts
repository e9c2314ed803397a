/**
 * Refusals: a script that will not make a move says so in a text that leads with its class word. Here that text
 * becomes a value; what is not a refusal is `undefined` and somebody else's concern.
 */

/** Why a token is not the live one. */
export type StaleReason =
  /** Somebody else holds the job, or has held it since; or the token never was. */
  | 'superseded'
  /** The holder gave the job back before, or it was redriven. */
  | 'released'
  /** The lease ran out and the reaper took the job away. */
  | 'lapsed'

export const JOB_STATES = ['pending', 'active', 'scheduled', 'dead'] as const
export type JobState = (typeof JOB_STATES)[number]

/** Whether a word is a state. What a row says need not be one: other clients write rows, too. */
export const isJobState = (word: string | undefined): word is JobState =>
  JOB_STATES.some((state) => state === word)

/** A move that was refused, and why. */
export type Refusal =
  | { readonly refused: 'stale'; readonly reason: StaleReason }
  | { readonly refused: 'gone' }
  | { readonly refused: 'wrong_kind' }
  /** Without a state where the row names none. */
  | { readonly refused: 'wrong_state'; readonly state?: JobState }
  | { readonly refused: 'locked' }
  | { readonly refused: 'overloaded' }

/** The refusal in an error text of a script; `undefined` when the text is none. */
export function parseRefusal(text: string): Refusal | undefined {
  switch (text.split(' ', 1)[0]) {
    case 'EMQKIND':
      return { refused: 'wrong_kind' }
    case 'EMQSTALE': {
      if (text.startsWith('EMQSTALE job gone')) return { refused: 'gone' }
      const reason = text.endsWith('(lapsed)')
        ? 'lapsed'
        : text.endsWith('(released)')
          ? 'released'
          : 'superseded'
      return { refused: 'stale', reason }
    }
    case 'EMQSTATE': {
      const word = text.split(' ').at(-1)
      return isJobState(word) ? { refused: 'wrong_state', state: word } : { refused: 'wrong_state' }
    }
    case 'EMQLOCK':
      return { refused: 'locked' }
    case 'EMQFULL':
      return { refused: 'overloaded' }
    default:
      return undefined
  }
}
