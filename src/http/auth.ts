/**
 * Authenticates callers and checks their permissions.
 *
 * Only the SHA-256 digests of tokens are known. The digest of a caller is compared with every listed digest in constant
 * time. An empty list rejects every caller. A token is never logged, stored or repeated. Needs only WebCrypto.
 *
 * The isolate remembers a few accepted headers in memory, so that most requests need no digest. A rejected header is never
 * remembered: guesses always take the constant time.
 */
import { queueMatches } from '../protocol/keys.ts'
import { type Scope, sha256Hex, type TokenEntry } from '../protocol/tokens.ts'

/** The permissions of a caller, from the entry of its token. */
export type Grant = Pick<TokenEntry, 'name' | 'scopes' | 'queues'>

/** Longer headers are rejected before anything is computed from them. */
const MAX_HEADER_CHARS = 1024

/** RFC 6750 and RFC 9110: the scheme in any case, then spaces (no tab), then one token68. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i

const bearerToken = (header: string): string | undefined =>
  header.length <= MAX_HEADER_CHARS ? BEARER.exec(header)?.[1] : undefined

/** Accepted headers that are remembered for each list of tokens. */
const REMEMBERED_HEADERS = 100

const accepted = new WeakMap<readonly TokenEntry[], Map<string, Grant>>()

/** Compares two hex digests, always every digit of them. */
const isSameDigest = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let at = 0; at < a.length; at += 1) difference |= a.charCodeAt(at) ^ b.charCodeAt(at)
  return difference === 0
}

/**
 * The permissions of the token in an `Authorization` header; undefined if the header has no valid token.
 *
 * @param header The value of the header; null or undefined if there is none.
 *
 * @example
 * const grant = await authenticate(request.headers.get('Authorization'), settings.tokens)
 */
export const authenticate = async (
  header: string | null | undefined,
  tokens: readonly TokenEntry[],
): Promise<Grant | undefined> => {
  if (!header) return undefined
  const remembered = accepted.get(tokens) ?? new Map<string, Grant>()
  const known = remembered.get(header)
  if (known !== undefined) return known
  const token = bearerToken(header)
  if (token === undefined) return undefined
  const digest = await sha256Hex(token)
  let grant: Grant | undefined
  // Continues after a match: the time must not reveal which entry matched.
  for (const entry of tokens) {
    if (isSameDigest(digest, entry.sha256)) grant = entry
  }
  if (grant === undefined) return undefined
  const { name, scopes, queues } = grant
  if (remembered.size === REMEMBERED_HEADERS) remembered.clear()
  accepted.set(tokens, remembered.set(header, { name, scopes, queues }))
  return { name, scopes, queues }
}

const grantsScope = (granted: Scope, wanted: Scope): boolean =>
  granted === wanted || granted === 'operate' || (granted === 'observe:payload' && wanted === 'observe')

/** Whether a grant has a scope (for a queue). `operate` includes all scopes, `observe:payload` includes `observe`. */
export const allows = (grant: Grant, scope: Scope, queue?: string): boolean =>
  grant.scopes.some((granted) => grantsScope(granted, scope)) &&
  (queue === undefined || grant.queues.some((pattern) => queueMatches(pattern, queue)))
