/**
 * One plain connection to Redis (RESP2).
 *
 * Commands are sent in the order of the calls, the commands of one call next to each other, and never twice. While
 * Redis is away every call fails at once; calls work again soon after it is back. Replies are exact: bytes, and the
 * digits of integers.
 */

import { Redis, ReplyError } from 'ioredis'

export type RespCommand = { readonly name: string; readonly args: readonly (string | Buffer)[] }

/** An integer in the digits that Redis sent: it may exceed the safe integers of JavaScript. */
export class RespInteger {
  readonly digits: string
  constructor(digits: string) {
    this.digits = digits
  }
}

/** An error reply. */
export class RespError {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type RespReply = Buffer | RespInteger | RespError | null | readonly RespReply[]

/** Redis is not reachable, or the connection broke before the reply: the commands may or may not have run. */
export class RedisUnreachable extends Error {
  override readonly name = 'RedisUnreachable'
}

export type Resp = {
  /**
   * Sends the commands in one write and returns their replies in order.
   *
   * @throws {RedisUnreachable}
   */
  run(commands: readonly RespCommand[]): Promise<readonly RespReply[]>
  /** The local `host:port`, as MONITOR shows it. It changes with every reconnect. */
  address(): string | undefined
  close(): void
}

const CONNECT_TIMEOUT_MS = 2_000
const RECONNECT_AFTER_MS = 50

/**
 * Connects.
 *
 * @throws {RedisUnreachable} when no Redis answers at the URL now.
 */
export async function connectResp(redisUrl: string): Promise<Resp> {
  const redis = new Redis(redisUrl, {
    protocol: 2,
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: () => RECONNECT_AFTER_MS,
    // Together: fail at once, and never resend a command after the connection broke.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Together: send only the commands of the caller.
    enableReadyCheck: false,
    disableClientInfo: true,
    stringNumbers: true,
  })
  // Every call reports its own failure. Without a listener ioredis prints each reconnect.
  redis.on('error', () => {})

  try {
    await redis.connect()
  } catch (cause) {
    redis.disconnect()
    throw new RedisUnreachable('Redis cannot be reached.', { cause })
  }

  async function runOne({ name, args }: RespCommand): Promise<RespReply> {
    let value: unknown
    try {
      // ioredis reshapes the replies of the commands it knows, and it knows them by their lower-case names.
      value = await redis.callBuffer(name.toUpperCase(), [...args])
    } catch (error) {
      if (error instanceof Error && error instanceof ReplyError) return new RespError(error.message)
      throw new RedisUnreachable('Redis did not answer.', { cause: error })
    }
    return toReply(value)
  }

  return {
    run: (commands) => Promise.all(commands.map(runOne)),
    address() {
      const { stream } = redis
      return stream?.localPort === undefined ? undefined : `${stream.localAddress}:${stream.localPort}`
    },
    close: () => redis.disconnect(),
  }
}

function toReply(value: unknown): RespReply {
  if (value === null || Buffer.isBuffer(value)) return value
  // With `stringNumbers` every string in a reply of buffers is an integer.
  if (typeof value === 'string') return new RespInteger(value)
  if (Array.isArray(value)) return value.map(toReply)
  if (value instanceof Error) return new RespError(value.message)
  throw new TypeError('Redis sent a reply that RESP2 does not have.')
}
