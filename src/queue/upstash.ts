/**
 * The Upstash transport: the Redis port over Upstash's REST API, on the HTTP client of `@upstash/redis`.
 *
 * Never retries: only the caller knows whether a move is safe to repeat. Every call ends within its timeout. Replies are
 * the stored bytes. An error has no command, no payload and no part of the answer.
 *
 * These options of the client matter, and tests prove each against the pinned version: `retries: 0` sends once
 * (`retry: false` sends twice); the signal is a function (an aborted plain signal resolves as an answer);
 * `responseEncoding` is off and we send the encoding header (the client's decoding of base64 loses bytes that are not
 * UTF-8). Requests always go to `/pipeline`: there, an error of Redis is a text in its place; elsewhere it is an exception
 * that quotes the command.
 */
import { Redis } from '@upstash/redis/cloudflare'
import { type Command, RedisError, type RedisPort, type Reply, UpstreamError } from './redis.ts'

export type UpstashOptions = {
  readonly url: string
  readonly token: string
  /** How long one call may take, in milliseconds. */
  readonly timeoutMs: number
}

/** Redis rejected the token of the deployment. Only its operator can fix that. */
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

type Native = { readonly fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }

const fromBase64 = (Uint8Array as Native).fromBase64?.bind(Uint8Array) ?? decodeBase64

function decodeBase64(text: string): Uint8Array {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

const OK = new TextEncoder().encode('OK')

/** Decodes a reply in Upstash's base64 encoding. The status `OK` is the only string that is not encoded. */
function decode(result: unknown): Reply {
  if (result === null || typeof result === 'number') return result
  if (typeof result === 'string') return result === 'OK' ? OK : fromBase64(result)
  if (Array.isArray(result)) return result.map(decode)
  throw new TypeError('Not a reply')
}

function readAnswer(answer: unknown, count: number): Reply[] {
  if (!Array.isArray(answer) || answer.length !== count) throw new TypeError('Not an answer to the pipeline')
  return answer.map((element: { result?: unknown; error?: unknown }) => {
    if (typeof element.error === 'string') return new RedisError(element.error)
    return decode(element.result)
  })
}

/**
 * A Redis port to an Upstash database or another service with its REST protocol.
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
        // The client's error text contains the whole command: keep only the kind of failure.
        const { name, message } = cause instanceof Error ? cause : { name: '', message: '' }
        if (/^(WRONGPASS|NOAUTH|Unauthorized)\b/.test(message))
          throw new RefusedTokenError('Redis refused the token of this deployment')
        const timedOut = name === 'TimeoutError'
        throw new UpstreamError(
          timedOut ? `Redis did not answer within ${timeoutMs} ms` : 'Redis did not answer',
          {
            overloaded: /^ERR max .*limit exceeded/.test(message),
            // The client's own errors are answers that arrived.
            answerLost: !timedOut && !name.startsWith('Upstash'),
          },
        )
      }
      try {
        return readAnswer(answer, commands.length)
      } catch {
        throw new UpstreamError('Redis returned a malformed answer')
      }
    },
  }
}
