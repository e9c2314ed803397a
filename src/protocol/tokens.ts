/**
 * API tokens: their scopes, how a new token is made, and how the secret `EMQ_TOKENS` is read.
 *
 * A deployment knows only the SHA-256 digest of a token. No problem repeats a value of the secret.
 */
import * as z from 'zod'
import { readJson } from './json-text.ts'
import { isQueuePattern } from './keys.ts'
import { isBlank, MISSING, type Reading, read, text } from './reading.ts'

export const SCOPES = ['produce', 'consume', 'observe', 'observe:payload', 'operate'] as const

/** What a token may do; `allows` in `http/auth.ts` knows which scope includes which. */
export type Scope = (typeof SCOPES)[number]

/** A live token in `EMQ_TOKENS`: its digest and its permissions, never the token itself. */
export type TokenEntry = {
  readonly name: string
  /** SHA-256 of the token, 64 lower-case hex digits. */
  readonly sha256: string
  readonly scopes: readonly Scope[]
  /** Queue names, or prefixes ending in `*`. */
  readonly queues: readonly string[]
}

/** The digests of the development tokens. Everybody knows these tokens, so only the local stack accepts them. */
export const PUBLIC_DIGESTS: ReadonlySet<string> = new Set([
  '8f0367a41f5149f7cef602ce8e018c5e518bdb59444819cc388625cb1a1d77a2',
  'e0af69bf900faf8f7ad3e50d54e7fd6296e9f6933c3aa2228420d38467c03ac1',
  '9fd3c5d2c5abf0bba94e73b78d8c401a6f8e74284cff5209e6fb166511bb906d',
  'c15de198d781469a78760f52482bac96c651dec77512c11657dcb336fa480ca0',
])

const TOKEN_PREFIX = 'emq_'
const TOKEN_BYTES = 32
const MAX_TOKEN_NAME_CHARS = 128

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
export async function tokenEntry(token: string, grant: Omit<TokenEntry, 'sha256'>): Promise<TokenEntry> {
  const { name, scopes, queues } = grant
  return { name, sha256: await sha256Hex(token), scopes, queues }
}

const nameRule = `needs a "name" of 1 to ${MAX_TOKEN_NAME_CHARS} printable characters`
const digestRule = 'needs a "sha256" of 64 hex digits'
const scopesRule = `needs "scopes", a list of at least one of ${SCOPES.join(', ')}`
const queuesRule = 'needs "queues", a list of at least one queue name or prefix ending in *'

const entrySchema = z.strictObject(
  {
    name: text((name) => name.length <= MAX_TOKEN_NAME_CHARS && /^\P{C}+$/u.test(name), nameRule),
    sha256: text((digest) => /^[0-9A-Fa-f]{64}$/.test(digest), digestRule).transform((digest) =>
      digest.toLowerCase(),
    ),
    scopes: z.array(z.enum(SCOPES, scopesRule), scopesRule).min(1, scopesRule),
    queues: z.array(text(isQueuePattern, queuesRule), queuesRule).min(1, queuesRule),
  },
  {
    error: ({ code }) =>
      code === 'unrecognized_keys'
        ? 'must have the fields name, sha256, scopes, queues and no others'
        : 'must be an object',
  },
)

const tokensRule = 'must be a JSON array of token entries, each key given once'
const tokenList = z
  .string(tokensRule)
  .transform((secret) => {
    // As strict as for a request: if a key is given twice, it is unclear which value holds.
    const json = readJson(new TextEncoder().encode(secret))
    return json.ok ? json.value : undefined
  })
  .pipe(z.array(entrySchema, tokensRule).min(1, 'lists no token'))
  .superRefine((tokens, context) => {
    const digests = tokens.map(({ sha256 }) => sha256)
    const again = digests.findIndex((digest, index) => digests.indexOf(digest) < index)
    if (again >= 0)
      context.addIssue({
        code: 'custom',
        path: [again],
        message: 'lists the token of an earlier entry again',
      })
  })

/**
 * The entries of the secret `EMQ_TOKENS`. One wrong entry makes all of them unusable, so that a typo is noticed at
 * once and not when a caller is rejected.
 */
export function readTokens(secret: unknown): Reading<readonly TokenEntry[]> {
  return isBlank(secret) ? MISSING : read(tokenList, secret)
}
