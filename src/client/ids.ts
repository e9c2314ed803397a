/**
 * Minting: job ids, made before the first send so that a repeated enqueue does not make a second job, and claim ids.
 *
 * The client must stand alone, so the few lines of `src/protocol/ids.ts` that mint are said again here instead of
 * being imported; a test holds the two against each other. An id is always above those minted before it, whatever
 * the clock does, and minting never waits. Nothing random is drawn before the first mint.
 */

import type { Clock } from './clock.ts'

/** 2024-01-01T00:00:00Z, which snowflakes count from. */
const EPOCH_MS = 1_704_067_200_000
const NODES = 1024
const MAX_SEQUENCE = 4095

/** The base62 digit of a value: 0-9, A-Z, a-z. Made of base36, which is shorter than to list them. */
const digitOf = (value: number): string =>
  value < 36 ? value.toString(36).toUpperCase() : (value - 26).toString(36)

/**
 * Answers a new job id, above every one it answered before.
 *
 * @param isTaken The last one was somebody else's, who mints on the same node: from now on it is another node.
 */
export type Mint = (isTaken?: boolean) => string

/** A source of job ids: one for each isolate, or two of them would mint the same ids. */
export const createMint = (clock: Clock): Mint => {
  let node: number | undefined
  let ms = 0
  let sequence = -1
  return (isTaken) => {
    node ??= Math.floor(clock.random() * NODES)
    if (isTaken) {
      node = (node + 1 + Math.floor(clock.random() * (NODES - 1))) % NODES
      // The new node may be below the old one, so the rest of this millisecond is given up.
      sequence = MAX_SEQUENCE
    }
    const clockMs = clock.epochMs() - EPOCH_MS
    if (clockMs > ms) {
      ms = clockMs
      sequence = 0
    } else if (sequence++ === MAX_SEQUENCE) {
      // Borrowed from the next millisecond: a clock that stands still would be waited for in vain.
      ms++
      sequence = 0
    }
    let rest = (BigInt(ms) << 22n) | BigInt((node << 12) | sequence)
    let text = ''
    for (; text.length < 11; rest /= 62n) text = digitOf(Number(rest % 62n)) + text
    return `JOB${text}`
  }
}

/**
 * A name for a claim that no other claim bears. Not of the clock's `random`: machines that are restored from one
 * snapshot may go on with the same numbers, and would share their jobs.
 */
export const mintClaimId = (): string => crypto.getRandomValues(new Uint32Array(4)).join('-')
