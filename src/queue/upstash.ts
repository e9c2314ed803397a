/**
 * The Upstash transport: the Redis port over Upstash's REST API, on the HTTP client of `@upstash/redis`.
 *
 * Sends each request once and never again: most moves are not safe to repeat, and who knows whether one is stands
 * above. Every call ends within its timeout. Replies stay the bytes that are stored. What is thrown carries neither
 * a command, nor a payload, nor anything of what was received.
 *
 * Of the client's many options these matter (their traps are proved in the tests against the pinned version):
 * `retries: 0` sends once, where `retry: false` sends twice; a signal *function*, because an aborted plain signal
 * resolves as an answer; `responseEncoding: false` with the encoding header sent by us, because the client decodes
 * base64 lossily when the bytes are not UTF-8. Always `/pipeline`: there an error of Redis is its own text in its own
 * place, where a single command's would be an exception that quotes the command.
 */
import { Redis } from '@upstash/redis/cloudflare'
import { type Command, RedisError, type RedisPort, type Reply, UpstreamError } from './redis.ts'

export type UpstashOptions = {
  readonly url: string
  readonly token: string
  /** How long one call may take, in milliseconds. */
  readonly timeoutMs: number
}

/** Redis is there, and does not know the token that it was sent. Mended by whoever runs the deployment, not by a caller. */
export class RefusedTokenError extends UpstreamError {}

class Sender extends Redis {
  pipeline_(commands: readonly Command[]): Promise<unknown> {
    return this.client.request({
      path: ['pipeline'],
      body: commands,
      headers: { 'Upstash-Encoding': 'base64' },
    })
  }
}

const fromBase64 = (text: string): Uint8Array => {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

const OK = new TextEncoder().encode('OK')

/** A reply in Upstash's base64 encoding. The status `OK` is the one string that comes as it is. */
function decode(result: unknown): Reply {
  if (result === null || typeof result === 'number') return result
  if (typeof result === 'string') return result === 'OK' ? OK : fromBase64(result)
  if (Array.isArray(result)) return result.map(decode)
  throw new TypeError('not a reply')
}

function readAnswer(answer: unknown, count: number): Reply[] {
  if (!Array.isArray(answer) || answer.length !== count) throw new TypeError('not an answer to the pipeline')
  return answer.map((element: { result?: unknown; error?: unknown }) => {
    if (typeof element.error === 'string') return new RedisError(element.error)
    return decode(element.result)
  })
}

/**
 * A Redis port to an Upstash database, or anything that speaks its REST protocol.
 *
 * @example
 * const port = createUpstashPort({ url: 'https://eu1-nice-fox-1.upstash.io', token, timeoutMs: 5000 })
 * const [pong] = await port.send([['PING']])
 */
export function createUpstashPort({ url, token, timeoutMs }: UpstashOptions): RedisPort {
  const sender = new Sender({
    url,
    token,
    retry: { retries: 0 },
    signal: () => AbortSignal.timeout(timeoutMs),
    responseEncoding: false,
    automaticDeserialization: false,
    enableAutoPipelining: false,
    enableTelemetry: false,
    keepAlive: false,
  })
  return {
    async send(commands) {
      let answer: unknown
      try {
        answer = await sender.pipeline_(commands)
      } catch (cause) {
        // The client's text holds the whole command: only what kind of failure it was goes on.
        const { name, message } = cause instanceof Error ? cause : { name: '', message: '' }
        if (/^(WRONGPASS|NOAUTH|Unauthorized)\b/.test(message))
          throw new RefusedTokenError('Redis refused the token of this deployment')
        const timedOut = name === 'TimeoutError'
        throw new UpstreamError(
          timedOut ? `Redis did not answer within ${timeoutMs} ms` : 'Redis did not answer',
          {
            overloaded: /^ERR max .*limit exceeded/.test(message),
            // The client's own errors are answers that came.
            answerLost: !timedOut && !name.startsWith('Upstash'),
          },
        )
      }
      try {
        return readAnswer(answer, commands.length)
      } catch {
        throw new UpstreamError('Redis answered something that is not an answer', { retryable: true })
      }
    },
  }
}
