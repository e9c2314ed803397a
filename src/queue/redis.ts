/**
 * The Redis port: the interface between the queue and Redis.
 *
 * One call is one round trip with one or more commands. The replies are in the order of the commands; a rejected command
 * has a `RedisError` in its place and stops no other. Strings are returned as the stored bytes, so nothing is lost.
 */

/** A command and its arguments. Numbers are sent as their decimal text. */
export type Command = readonly (string | number)[]

/** The reply to one command. */
export type Reply = Uint8Array | number | null | RedisError | readonly Reply[]

/** An error that Redis returned. Its text is never shown: it may quote keys or arguments. */
export class RedisError {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export interface RedisPort {
  /**
   * Sends the commands in one round trip and returns their replies in order. Never retries.
   *
   * @throws {UpstreamError} when there was no usable answer: the commands may or may not have run.
   */
  send(commands: readonly Command[]): Promise<readonly Reply[]>
}

/** Redis did not answer, or the answer was malformed. The error has no command, no payload and no part of the answer. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** Whether a quota or a rate limit of the Redis service was reached. */
  readonly overloaded: boolean
  /** Whether the connection broke: the commands may have run, and the answer was lost. */
  readonly answerLost: boolean
  /** Whether a key had the wrong type for the command, or a field was not a number. */
  readonly ofAnotherType: boolean
  constructor(
    message: string,
    options: {
      overloaded?: boolean
      answerLost?: boolean
      ofAnotherType?: boolean
      cause?: unknown
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.overloaded = options.overloaded ?? false
    this.answerLost = options.answerLost ?? false
    this.ofAnotherType = options.ofAnotherType ?? false
  }
}

/** Does work that is safe to repeat, once more when its answer was lost; `repeated` reports that. */
export async function repeatIfLost<T>(work: () => Promise<T>): Promise<{ result: T; repeated: boolean }> {
  try {
    return { result: await work(), repeated: false }
  } catch (error) {
    if (error instanceof UpstreamError && error.answerLost) return { result: await work(), repeated: true }
    throw error
  }
}
