/**
 * API tokens: what a token may do, how a new one is made, and how the secret `EMQ_TOKENS` is read.
 *
 * A deployment knows a token by its SHA-256 digest only. No problem text repeats a value of the secret.
 */
import { readJson } from './json-text.ts'
import { isQueuePattern } from './keys.ts'

export const SCOPES = ['produce', 'consume', 'observe', 'observe:payload', 'operate'] as const

/** What a token may do; see `allows` in `http/auth.ts` for the scopes that imply others. */
export type Scope = (typeof SCOPES)[number]

/** A live token, as `EMQ_TOKENS` lists it: its digest and its permissions, never the token itself. */
export type TokenEntry = {
  readonly name: string
  /** SHA-256 of the token, 64 lower-case hex digits. */
  readonly sha256: string
  readonly scopes: readonly Scope[]
  /** Queue names, or prefixes ending in `*`. */
  readonly queues: readonly string[]
}

/** The entries, or a sentence that says why the secret cannot be used. */
type Reading<T> = { readonly value: T } | { readonly problem: string }

const TOKEN_PREFIX = 'emq_'
const TOKEN_BYTES = 32
const MAX_TOKEN_NAME_CHARS = 128
const TOKEN_FIELDS = ['name', 'sha256', 'scopes', 'queues']

/** SHA-256 of a text, as 64 lower-case hex digits. */
export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** A new token: `emq_` and 256 random bits in base64url. */
export function newToken(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))
  const base64 = btoa(String.fromCharCode(...bytes))
  return TOKEN_PREFIX + base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** The entry of a token for `EMQ_TOKENS`. */
export async function tokenEntry(
  token: string,
  { name, scopes, queues }: Omit<TokenEntry, 'sha256'>,
): Promise<TokenEntry> {
  return { name, sha256: await sha256Hex(token), scopes, queues }
}

/**
 * The entries of the secret `EMQ_TOKENS`, or a sentence that says why it cannot be used. One bad entry makes the whole
 * secret unusable: a typo then shows at once, and not as a rejected caller.
 */
export function readTokens(secret: unknown): Reading<readonly TokenEntry[]> {
  if (secret === undefined || secret === null || secret === '') return { problem: 'is missing' }
  // Read as strictly as a request body: a key that is given twice is an error.
  const json = typeof secret === 'string' ? readJson(new TextEncoder().encode(secret)) : undefined
  const listed = json?.ok ? json.value : undefined
  if (!Array.isArray(listed)) return { problem: 'must be a JSON array of token entries, each key given once' }
  if (listed.length === 0) return { problem: 'lists no token' }

  const tokens: TokenEntry[] = []
  for (const [index, entry] of listed.entries()) {
    const read = readTokenEntry(entry)
    if ('problem' in read) return { problem: `entry ${index + 1} ${read.problem}` }
    if (tokens.some(({ sha256 }) => sha256 === read.value.sha256)) {
      return { problem: `entry ${index + 1} lists the token of an earlier entry again` }
    }
    tokens.push(read.value)
  }
  return { value: tokens }
}

function readTokenEntry(value: unknown): Reading<TokenEntry> {
  if (!isRecord(value)) return { problem: 'must be an object' }
  if (Object.keys(value).some((key) => !TOKEN_FIELDS.includes(key))) {
    return { problem: `must have the fields ${TOKEN_FIELDS.join(', ')} and no others` }
  }
  const { name, sha256, scopes, queues } = value
  if (!isTokenName(name)) {
    return { problem: `needs a "name" of 1 to ${MAX_TOKEN_NAME_CHARS} printable characters` }
  }
  if (typeof sha256 !== 'string' || !/^[0-9A-Fa-f]{64}$/.test(sha256)) {
    return { problem: 'needs a "sha256" of 64 hex digits' }
  }
  if (!isListOf(scopes, isScope)) {
    return { problem: `needs "scopes", a list of at least one of ${SCOPES.join(', ')}` }
  }
  if (!isListOf(queues, isQueueText)) {
    return { problem: 'needs "queues", a list of at least one queue name or prefix ending in *' }
  }
  return { value: { name, sha256: sha256.toLowerCase(), scopes, queues } }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTokenName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_TOKEN_NAME_CHARS && /^\P{C}+$/u.test(value)
}

function isScope(value: unknown): value is Scope {
  return SCOPES.some((scope) => scope === value)
}

function isQueueText(value: unknown): value is string {
  return typeof value === 'string' && isQueuePattern(value)
}

function isListOf<T>(value: unknown, isEntry: (entry: unknown) => entry is T): value is readonly T[] {
  return Array.isArray(value) && value.length > 0 && value.every(isEntry)
}
