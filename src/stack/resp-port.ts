/** The Redis port of the queue over plain RESP, for the tests and the measurements. A Worker has no TCP. */

import { RedisError, type RedisPort, type Reply, UpstreamError } from '../queue/redis.ts'
import { connectResp, RespError, RespInteger, type RespReply } from './resp.ts'

export type RespPort = RedisPort & { close(): void }

/**
 * Connects to Redis.
 *
 * @example
 *   const port = await createRespPort('redis://127.0.0.1:6379')
 *   const [reply] = await port.send([['PING']])
 */
export async function createRespPort(redisUrl: string): Promise<RespPort> {
  const resp = await connectResp(redisUrl)
  return {
    async send(commands) {
      const calls = commands.map(([name, ...args]) => ({ name: String(name), args: args.map(String) }))
      const replies = await resp.run(calls).catch((cause: unknown) => {
        throw new UpstreamError('Redis did not answer.', { cause })
      })
      return replies.map(toPortReply)
    },
    close: resp.close,
  }
}

function toPortReply(reply: RespReply): Reply {
  if (reply instanceof RespInteger) return Number(reply.digits)
  if (reply instanceof RespError) return new RedisError(reply.text)
  if (reply === null) return null
  if (Buffer.isBuffer(reply)) return new Uint8Array(reply.buffer, reply.byteOffset, reply.byteLength)
  return reply.map(toPortReply)
}
