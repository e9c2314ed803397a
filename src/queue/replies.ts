/**
 * Reading replies: every shape a script or a command answers is read here, strictly. A reply of another shape is
 * the fault of what stands between us and Redis, so it is thrown as one; its content is never shown. What is stored
 * is not always ours, though: a value that should be a number and is none is as good as absent.
 */
import { RedisError, type Reply, UpstreamError } from './redis.ts'

// A byte order mark at the beginning of an error text is a part of it.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const unexpected = (): never => {
  throw new UpstreamError('Redis answered in a form that the command does not have', { retryable: false })
}

/** An error in a place where none is expected: Redis is out of memory, a key holds another type, a plan is used up. */
const failed = (error: RedisError): never => {
  throw new UpstreamError('Redis answered an error', {
    overloaded: /^ERR max .*limit exceeded/.test(error.text),
    ofAnotherType: isOfAnotherType(error),
  })
}

/** A string as the bytes that are stored; nil is `undefined`. */
export function bytes(reply: Reply | undefined): Uint8Array | undefined {
  if (reply instanceof RedisError) return failed(reply)
  if (reply === null || reply === undefined) return undefined
  return reply instanceof Uint8Array ? reply : unexpected()
}

/** A string as text; nil is `undefined`. */
export function optionalText(reply: Reply | undefined): string | undefined {
  const found = bytes(reply)
  return found === undefined ? undefined : decoder.decode(found)
}

/** A string as text. */
export function text(reply: Reply | undefined): string {
  return optionalText(reply) ?? unexpected()
}

/** An integer, also one that came as text. */
export function integer(reply: Reply | undefined): number {
  if (typeof reply === 'number') return reply
  const parsed = Number(text(reply))
  return Number.isFinite(parsed) ? parsed : unexpected()
}

/** A number that is stored, as a score is; undefined when there is none, or something else. */
export function optionalNumber(reply: Reply | undefined): number | undefined {
  if (typeof reply === 'number') return reply
  const written = optionalText(reply)?.trim() ?? ''
  const parsed = written === '' ? Number.NaN : Number(written)
  return Number.isFinite(parsed) ? parsed : undefined
}

/** An integer that is stored: a counter, a setting, a field of a row; undefined when there is none, or something else. */
export function optionalInteger(reply: Reply | undefined): number | undefined {
  const found = optionalNumber(reply)
  return Number.isSafeInteger(found) ? found : undefined
}

/** Whether a key holds another type than the command is for: the fault of whoever wrote that key, not of Redis. */
export const isOfAnotherType = (reply: Reply | undefined): boolean =>
  reply instanceof RedisError && reply.text.startsWith('WRONGTYPE')

/** An array. */
export function list(reply: Reply | undefined): readonly Reply[] {
  if (reply instanceof RedisError) return failed(reply)
  return Array.isArray(reply) ? reply : unexpected()
}

/** An array cut into groups of `size`. */
export function groups(replies: readonly Reply[], size: number): Reply[][] {
  return Array.from({ length: Math.floor(replies.length / size) }, (_, i) =>
    replies.slice(i * size, (i + 1) * size),
  )
}
