/**
 * Mints job ids and claim ids. A job has its id before the first attempt, so that a repeated enqueue creates no second
 * job.
 *
 * The client imports nothing, so this file repeats the few minting lines of `src/protocol/ids.ts`; a test compares the
 * two. Each id is above all earlier ones, whatever the clock does, and minting never waits. No random number is drawn
 * before the first mint.
 */

import type { Clock } from './clock.ts'

/** 2024-01-01T00:00:00Z, the epoch of snowflakes. */
const EPOCH_MS = 1_704_067_200_000
const NODES = 1024
const MAX_SEQUENCE = 4095

/** The base62 digit of a value: 0-9, A-Z, a-z. Derived from base36, which is shorter than a list. */
function digitOf(value: number): string {
  return value < 36 ? value.toString(36).toUpperCase() : (value - 26).toString(36)
}

/**
 * Returns a new job id, above all that it returned before.
 *
 * @param isTaken The last id was already taken, so another program mints on the same node: change the node.
 */
export type Mint = (isTaken?: boolean) => string

/** A source of job ids. An isolate has one: two of them could mint the same ids. */
export function createMint(clock: Clock): Mint {
  let node: number | undefined
  let ms = 0
  let sequence = -1
  return (isTaken) => {
    node ??= Math.floor(clock.random() * NODES)
    if (isTaken) {
      node = (node + 1 + Math.floor(clock.random() * (NODES - 1))) % NODES
      // The new node may be below the old one, so the rest of this millisecond is skipped.
      sequence = MAX_SEQUENCE
    }
    const clockMs = clock.epochMs() - EPOCH_MS
    if (clockMs > ms) {
      ms = clockMs
      sequence = 0
    } else if (sequence++ === MAX_SEQUENCE) {
      // Borrowed from the next millisecond: the clock may stand still, so waiting for it could take for ever.
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
 * A unique id for a claim. It does not use the clock's `random`: machines that were restored from one snapshot may
 * continue with the same numbers, and would share their jobs.
 */
export function mintClaimId(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}
