/**
 * Job ids: `JOB` and a 63-bit snowflake as eleven base62 digits in ASCII order, so that byte order is mint order.
 *
 * A minter never answers an id that is not above all ids it answered before, whatever its clock does, and never
 * waits. Two minters may draw the same node and so the same ids: whoever stores an id must be ready to meet it
 * taken (see `Minter.collided`). Nothing here reads a clock or draws a random number before the first mint.
 */

/** A well-formed id of the kind JOB, as `classifyJobId` tells. */
export type JobId = `JOB${string}`

/** 2024-01-01T00:00:00Z: the instant that snowflakes count from, in Unix ms. */
export const SNOWFLAKE_EPOCH_MS = 1_704_067_200_000

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const DIGIT_COUNT = 11
const MAX_SNOWFLAKE = 2n ** 63n - 1n
/** The text of `MAX_SNOWFLAKE`: with digits in ASCII order, comparing texts compares numbers. */
const MAX_DIGITS = 'AzL8n0Y58m7'

const NODES = 1024
const MAX_SEQUENCE = 4095
const MAX_MINT_MS = 2 ** 41 - 1

// Without the flag `m`, `$` is the very end in JavaScript: a trailing newline does not match.
const SNOWFLAKE_TEXT = /^[0-9A-Za-z]{11}$/
const ID_TEXT = /^[A-Z]{3}[0-9A-Za-z]{11}$/

/**
 * The eleven base62 digits of a snowflake.
 *
 * @throws {RangeError} outside of 0 .. 2^63-1.
 */
export const encodeSnowflake = (snowflake: bigint): string => {
  if (snowflake < 0n || snowflake > MAX_SNOWFLAKE) throw new RangeError('a snowflake has 63 bits')
  let text = ''
  for (let rest = snowflake; text.length < DIGIT_COUNT; rest /= 62n) {
    text = DIGITS.charAt(Number(rest % 62n)) + text
  }
  return text
}

/** The snowflake of eleven base62 digits, or undefined when the text is none or is out of range. */
export const decodeSnowflake = (text: string): bigint | undefined => {
  if (!SNOWFLAKE_TEXT.test(text) || text > MAX_DIGITS) return undefined
  let snowflake = 0n
  for (const digit of text) snowflake = snowflake * 62n + BigInt(DIGITS.indexOf(digit))
  return snowflake
}

/** Whether a text is a job's id, a well-formed id of another kind, or no id at all. */
export const classifyJobId = (text: string): 'job' | 'other-kind' | 'ill-formed' => {
  if (!ID_TEXT.test(text) || text.slice(3) > MAX_DIGITS) return 'ill-formed'
  return text.startsWith('JOB') ? 'job' : 'other-kind'
}

/** Whether a text is a job's id. */
export const isJobId = (text: string): text is JobId => classifyJobId(text) === 'job'

/**
 * When an id was minted, in Unix ms.
 *
 * @throws {RangeError} when the id is ill-formed.
 */
export const mintedAt = (id: string): number => {
  const snowflake = classifyJobId(id) === 'ill-formed' ? undefined : decodeSnowflake(id.slice(3))
  if (snowflake === undefined) throw new RangeError('not an id')
  return SNOWFLAKE_EPOCH_MS + Number(snowflake >> 22n)
}

/**
 * The bound in byte order that parts the ids minted before an instant from those minted at it or later: the
 * lowest id of that millisecond. Before the epoch it is the lowest id of all. Past the last instant that an id
 * can carry it stands above every id and is none itself.
 *
 * @param ms Unix ms; a fraction counts as the next whole millisecond.
 */
export const lowestIdAt = (ms: number): string => {
  const sinceEpoch = Math.ceil(ms) - SNOWFLAKE_EPOCH_MS
  if (sinceEpoch > MAX_MINT_MS) return `JOB${'z'.repeat(DIGIT_COUNT)}`
  return `JOB${encodeSnowflake(BigInt(Math.max(sinceEpoch, 0)) << 22n)}`
}

export type Minter = {
  /** A new id, above every id this minter answered before. */
  mint(): JobId
  /**
   * Tells that the last id was taken already, which means that somebody else mints on the same node at the same
   * time: the following ids come from another node, so that one collision does not lead to the next.
   */
  collided(): void
}

/** A number from 0 up to and without 1, of the platform's own randomness. */
const platformRandom = (): number => (crypto.getRandomValues(new Uint16Array(1))[0] ?? 0) / 2 ** 16

/**
 * A source of job ids: one for each isolate or process.
 *
 * @param options.now The clock, Unix ms; default `Date.now`.
 * @param options.random 0 <= n < 1, for the node; default the platform's `crypto`, first used by the first mint.
 *
 * @example
 * const minter = createMinter()
 * minter.mint() < minter.mint() // true
 */
export const createMinter = (options: { now?: () => number; random?: () => number } = {}): Minter => {
  const { now = Date.now, random = platformRandom } = options
  let node: number | undefined
  /** The millisecond of the last id, and that id's number in it. */
  let ms = -1
  let sequence = 0

  return {
    mint() {
      node ??= Math.floor(random() * NODES)
      const clockMs = Math.max(Math.floor(now()) - SNOWFLAKE_EPOCH_MS, 0)
      if (clockMs > ms) {
        ms = clockMs
        sequence = 0
      } else if (sequence < MAX_SEQUENCE) {
        sequence += 1
      } else {
        // Borrowed from the next millisecond: a clock that stands still would be waited for in vain.
        ms += 1
        sequence = 0
      }
      return `JOB${encodeSnowflake((BigInt(ms) << 22n) | (BigInt(node) << 12n) | BigInt(sequence))}`
    },

    collided() {
      // A distance of 1 .. 1023: any node but the present one.
      const distance = 1 + Math.floor(random() * (NODES - 1))
      node = ((node ?? 0) + distance) % NODES
      // The new node may be below the old one, so the rest of this millisecond is given up.
      sequence = MAX_SEQUENCE
    },
  }
}
