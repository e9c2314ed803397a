/**
 * Strict readers of replies. A reply of the wrong shape comes from a service between us and Redis, so it is thrown as an
 * `UpstreamError` without its content. A stored value is different: other clients write rows too, so a stored value that
 * should be a number and is not counts as absent.
 */
import { RedisError, type Reply, UpstreamError } from './redis.ts'

// A byte order mark at the start of an error text is part of the text.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const unexpected = (): never => {
  throw new UpstreamError('Redis returned a reply of the wrong type')
}

/** A field that HINCRBY cannot count up: another client wrote it. */
const isUncountable = ({ text }: RedisError): boolean =>
  text.includes('hash value is not an integer') || text.includes('increment or decrement would overflow')

/** An error where none is expected: Redis is out of memory, a key has the wrong type, or a plan is used up. */
const failed = (error: RedisError): never => {
  throw new UpstreamError('Redis returned an error', {
    overloaded: /^ERR max .*limit exceeded/.test(error.text),
    ofAnotherType: isOfAnotherType(error) || isUncountable(error),
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

/** An integer, as a number or as text. */
export function integer(reply: Reply | undefined): number {
  if (typeof reply === 'number') return reply
  const parsed = Number(text(reply))
  return Number.isFinite(parsed) ? parsed : unexpected()
}

/** A stored number, such as a score; undefined when it is absent or malformed. */
export function optionalNumber(reply: Reply | undefined): number | undefined {
  if (typeof reply === 'number') return reply
  const written = optionalText(reply)?.trim() ?? ''
  const parsed = written === '' ? Number.NaN : Number(written)
  return Number.isFinite(parsed) ? parsed : undefined
}

/** A stored integer: a counter, a setting or a field of a row; undefined when it is absent or malformed. */
export function optionalInteger(reply: Reply | undefined): number | undefined {
  const found = optionalNumber(reply)
  return Number.isSafeInteger(found) ? found : undefined
}

/** Whether the key has the wrong type for the command: another client wrote it, and Redis itself is well. */
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

/** A stored map from text to text, as JSON; undefined when it is absent or malformed. */
export function textMap(reply: Reply | undefined): Readonly<Record<string, string>> | undefined {
  const written = optionalText(reply) ?? ''
  if (!written.startsWith('{')) return undefined
  try {
    const map = JSON.parse(written) as Record<string, string>
    return Object.values(map).every((value) => typeof value === 'string') ? map : undefined
  } catch {
    return undefined
  }
}

/** A flat array of fields and values, as HGETALL returns it. */
export const pairs = (reply: Reply | undefined): Map<string, Reply> =>
  new Map(groups(list(reply), 2).map(([field, value]) => [text(field), value ?? null]))
