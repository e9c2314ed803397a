/**
 * The Redis port: the only thing the queue knows of Redis.
 *
 * One call is one round trip that carries one or more commands. Each command gets its own reply, in order; a
 * command that Redis refuses is a `RedisError` value in its place and stops no other. Strings come back as the
 * bytes that are stored: nothing is decoded on the way, so nothing can be lost on the way.
 */

/** A command and its arguments. Numbers are sent as their decimal text. */
export type Command = readonly (string | number)[]

/** What Redis answers to one command. */
export type Reply = Uint8Array | number | null | RedisError | readonly Reply[]

/** An error that Redis itself answered. Its text stays inside: it may quote keys or arguments. */
export class RedisError {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export interface RedisPort {
  /**
   * Sends the commands in one round trip and answers their replies in order. Never sends anything twice.
   *
   * @throws {UpstreamError} when no usable answer came: the commands may or may not have run.
   */
  send(commands: readonly Command[]): Promise<readonly Reply[]>
}

/**
 * Redis did not answer, or answered something that is not an answer. Carries no command, no payload and nothing
 * of what was received.
 */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** Whether the same call may succeed later. */
  readonly retryable: boolean
  /** Whether it was refused because a plan or a rate of the Redis service is used up. */
  readonly overloaded: boolean
  /** Whether the connection broke: what was sent may have run, and its answer was lost on the way. */
  readonly answerLost: boolean
  /** Whether a key held another type than the command is for. */
  readonly ofAnotherType: boolean
  constructor(
    message: string,
    options: {
      retryable?: boolean
      overloaded?: boolean
      answerLost?: boolean
      ofAnotherType?: boolean
      cause?: unknown
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.retryable = options.retryable ?? true
    this.overloaded = options.overloaded ?? false
    this.answerLost = options.answerLost ?? false
    this.ofAnotherType = options.ofAnotherType ?? false
  }
}

/** Does what is safe to repeat, and does it once more when its answer was lost; says whether it did. */
export async function repeatIfLost<T>(work: () => Promise<T>): Promise<{ result: T; repeated: boolean }> {
  try {
    return { result: await work(), repeated: false }
  } catch (error) {
    if (error instanceof UpstreamError && error.answerLost) return { result: await work(), repeated: true }
    throw error
  }
}
