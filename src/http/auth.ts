/**
 * Who is calling, and what it may do.
 *
 * Tokens are known by their SHA-256 digest only. A caller's digest is compared with every listed one in time that
 * depends on neither; an empty list refuses everybody. A token is never logged, stored or repeated. Runs on
 * WebCrypto alone, in Workers and Node alike.
 */
import { queueMatches } from '../protocol/keys.ts'
import { type Scope, sha256Hex, type TokenEntry } from '../protocol/tokens.ts'

/** What a caller may do: the entry of its token. */
export type Grant = Pick<TokenEntry, 'name' | 'scopes' | 'queues'>

/** Longer headers are refused before anything is computed from them. */
const MAX_HEADER_CHARS = 1024

/** RFC 6750 and RFC 9110: the scheme in any case, then spaces (no tab), then one token68 up to the very end. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i

const bearerToken = (header: string): string | undefined =>
  header.length <= MAX_HEADER_CHARS ? BEARER.exec(header)?.[1] : undefined

/** Compares two digests in hex, every digit of them. */
const isSameDigest = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let at = 0; at < a.length; at += 1) difference |= a.charCodeAt(at) ^ b.charCodeAt(at)
  return difference === 0
}

/**
 * The grant of the token in an `Authorization` header, or undefined when there is no valid one.
 *
 * @param header The header's value; null or undefined when it is absent.
 *
 * @example
 * const grant = await authenticate(request.headers.get('Authorization'), settings.tokens)
 */
export const authenticate = async (
  header: string | null | undefined,
  tokens: readonly TokenEntry[],
): Promise<Grant | undefined> => {
  const token = bearerToken(header ?? '')
  if (token === undefined) return undefined
  const digest = await sha256Hex(token)
  let grant: Grant | undefined
  // Through to the end also after a match: how long it takes must not tell which entry it was.
  for (const entry of tokens) {
    if (isSameDigest(digest, entry.sha256)) grant = entry
  }
  return grant && { name: grant.name, scopes: grant.scopes, queues: grant.queues }
}

const grantsScope = (granted: Scope, wanted: Scope): boolean =>
  granted === wanted || granted === 'operate' || (granted === 'observe:payload' && wanted === 'observe')

/**
 * Whether a grant has a scope, and on a queue when one is named. `operate` has all scopes, `observe:payload` has
 * `observe`.
 */
export const allows = (grant: Grant, scope: Scope, queue?: string): boolean =>
  grant.scopes.some((granted) => grantsScope(granted, scope)) &&
  (queue === undefined || grant.queues.some((pattern) => queueMatches(pattern, queue)))
