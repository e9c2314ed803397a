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

export type JobState = 'pending' | 'active' | 'scheduled' | 'dead'

/** A move that was refused, and why. */
export type Refusal =
  | { readonly refused: 'stale'; readonly reason: StaleReason }
  | { readonly refused: 'gone' }
  | { readonly refused: 'wrong_kind' }
  | { readonly refused: 'wrong_state'; readonly state: string }
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
    case 'EMQSTATE':
      return { refused: 'wrong_state', state: text.split(' ').at(-1) ?? 'unknown' }
    case 'EMQLOCK':
      return { refused: 'locked' }
    case 'EMQFULL':
      return { refused: 'overloaded' }
    default:
      return undefined
  }
}
