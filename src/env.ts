/**
 * The bindings of a deployment -> its settings, by schemas.
 *
 * A variable that cannot be used is a problem that names the variable and never repeats its value. Unknown variables
 * are ignored, and a blank optional variable counts as unset. Nothing is trimmed, and no entry of a list is skipped.
 *
 * If there is a problem, the settings still contain everything that is usable, so that the open routes can report
 * what is missing. They fail closed: without a usable `EMQ_TOKENS` there is no token, without a usable Redis none.
 */
import * as z from 'zod'
import { isQueueName, isWirePattern, isWireVersion, wireMatches } from './protocol/keys.ts'
import { DEFAULT_LIMITS, LARGEST_PAYLOAD_BYTES, type Limits } from './protocol/limits.ts'
import { isBlank, MISSING, type Reading, read, text } from './protocol/reading.ts'
import { PUBLIC_DIGESTS, readTokens, type TokenEntry } from './protocol/tokens.ts'

export type RedisSettings = {
  /** Base URL of the REST endpoint, without a slash at the end. */
  readonly url: string
  readonly token: string
}

export type Settings = {
  /** Undefined if `UPSTASH_REDIS_REST_URL` or `UPSTASH_REDIS_REST_TOKEN` cannot be used. */
  readonly redis: RedisSettings | undefined
  /** Empty if `EMQ_TOKENS` cannot be used: every caller is rejected. */
  readonly tokens: readonly TokenEntry[]
  /** Queues that maintenance always visits, even if they are not registered. */
  readonly queues: readonly string[]
  /** The wire version to write to a database that has none; undefined: none is written. */
  readonly wireClaim: string | undefined
  /** Patterns of the accepted wire versions; see `wireMatches`. */
  readonly wireAccept: readonly string[]
  /** Origins whose pages may call the API: exact origins, or only `*` for all. */
  readonly allowedOrigins: readonly string[]
  readonly limits: Limits
}

/** Settings that are complete. */
export type UsableSettings = Settings & { readonly redis: RedisSettings }

export type EnvReading =
  | { readonly ok: true; readonly settings: UsableSettings }
  | {
      readonly ok: false
      /** Sentences that begin with the name of a variable. For the log, and for callers of a broken deployment. */
      readonly problems: readonly string[]
      readonly settings: Settings
    }

const DEFAULT_WIRE_ACCEPT: readonly string[] = ['echomq:2.', 'echomq:3.']

const MAX_REDIS_TIMEOUT_MS = 60_000
const MAX_MAX_WAITING = 10_000
/** An isolate has 128 MB, and holds a body as bytes, as text and as values. */
const MAX_MAX_BODY_BYTES = 10 * 1024 * 1024

/** A list with commas and no spaces. */
const listOf = (isEntry: (text: string) => boolean, what: string) =>
  z
    .string('must be text: a list with commas and no spaces')
    .transform((list) => list.split(','))
    .pipe(z.array(text(isEntry, `is not ${what} (separate entries with commas, without spaces)`)))
    .transform((entries): readonly string[] => [...new Set(entries)])

/** A number, which a Worker's variables can be, or its decimal digits. */
const integer = (max: number, min = 1) => {
  const rule = `must be an integer from ${min} to ${max}`
  const digits = (value: unknown) =>
    typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  return z.preprocess(digits, z.int(rule).min(min, rule).max(max, rule))
}

// `z.url` and the URL parser ignore spaces and line breaks.
const restUrl = text((url) => /^\S+$/.test(url), 'must be a URL without spaces')
  .pipe(
    z.url({
      protocol: /^https?$/,
      error: 'must be an https:// or http:// URL (the REST URL, not the redis:// one)',
    }),
  )
  .transform((url) => new URL(url))
  .refine(({ username, password }) => username + password === '', 'must not contain credentials')
  .refine(({ search, hash }) => search + hash === '', 'must not contain a query or a fragment')
  .transform(({ href }) => href.replace(/\/+$/, ''))

const restToken = text((token) => /^[\x21-\x7e]+$/.test(token), 'must be printable ASCII without spaces')

const isOrigin = (origin: string): boolean =>
  // A star is a valid character of a host, but a caller who writes one means a wildcard.
  !origin.includes('*') &&
  /^https?:/.test(origin) &&
  URL.canParse(origin) &&
  new URL(origin).origin === origin

const queues = listOf(isQueueName, 'a queue name')
const origins = listOf(isOrigin, 'an exact origin such as https://app.example.com')
const wireClaim = text(isWireVersion, 'must be a wire version such as echomq:3.0.0')
const wireAccept = listOf(isWirePattern, 'a wire version or a prefix ending in a dot or *')

/**
 * The settings of a deployment.
 *
 * @param bindings The Worker's `env`, or `process.env`.
 *
 * @example
 * const env = parseEnv({ UPSTASH_REDIS_REST_URL: 'https://x.upstash.io' })
 * // env.ok is false, env.problems are ['UPSTASH_REDIS_REST_TOKEN is missing', 'EMQ_TOKENS is missing']
 */
export const parseEnv = (bindings: Readonly<Record<string, unknown>>): EnvReading => {
  const problems: string[] = []

  /** The value of a variable; `unusable` if it has a problem. */
  const take = <T>(variable: string, reading: Reading<T>, unusable: T): T => {
    if ('value' in reading) return reading.value
    problems.push(`${variable} ${reading.problem}`)
    return unusable
  }
  const required = <T>(variable: string, schema: z.ZodType<T>): T | undefined => {
    const value = bindings[variable]
    return take<T | undefined>(variable, isBlank(value) ? MISSING : read(schema, value), undefined)
  }
  const optional = <T>(variable: string, schema: z.ZodType<T>, blank: T, unusable: T = blank): T => {
    const value = bindings[variable]
    return isBlank(value) ? blank : take(variable, read(schema, value), unusable)
  }

  /** The entries of `EMQ_TOKENS`, `EMQ_TOKENS_2`, ...: all of them, or none if one variable has a problem. */
  const takeTokens = (): readonly TokenEntry[] => {
    const before = problems.length
    const seen = new Set<string>()
    const variables = Object.keys(bindings).filter(
      (name) => /^EMQ_TOKENS_\d+$/.test(name) && !isBlank(bindings[name]),
    )
    const tokens = ['EMQ_TOKENS', ...variables].flatMap((variable) => {
      const entries = take(variable, readTokens(bindings[variable]), [])
      if (!isLocalStack && entries.some(({ sha256 }) => PUBLIC_DIGESTS.has(sha256)))
        problems.push(`${variable} lists a public development token, which only the local stack accepts`)
      if (entries.some(({ sha256 }) => seen.has(sha256)))
        problems.push(`${variable} lists a token of another variable again`)
      for (const { sha256 } of entries) seen.add(sha256)
      return entries
    })
    return problems.length === before ? tokens : []
  }

  const isLocalStack = bindings['EMQ_LOCAL_STACK'] === '1'
  const url = required('UPSTASH_REDIS_REST_URL', restUrl)
  const token = required('UPSTASH_REDIS_REST_TOKEN', restToken)
  const isOpenToAll = bindings['EMQ_ALLOWED_ORIGINS'] === '*'
  const { maxPayloadBytes, maxBodyBytes, redisTimeoutMs, maxWaiting, relookMs } = DEFAULT_LIMITS
  const settings: Settings = {
    redis: url === undefined || token === undefined ? undefined : { url, token },
    tokens: takeTokens(),
    wireClaim: optional<string | undefined>('EMQ_WIRE_CLAIM', wireClaim, undefined),
    wireAccept: optional('EMQ_WIRE_ACCEPT', wireAccept, DEFAULT_WIRE_ACCEPT, []),
    queues: optional('EMQ_QUEUES', queues, []),
    allowedOrigins: isOpenToAll ? ['*'] : optional('EMQ_ALLOWED_ORIGINS', origins, []),
    limits: {
      maxPayloadBytes: optional('EMQ_MAX_PAYLOAD_BYTES', integer(LARGEST_PAYLOAD_BYTES), maxPayloadBytes),
      maxBodyBytes: optional('EMQ_MAX_BODY_BYTES', integer(MAX_MAX_BODY_BYTES), maxBodyBytes),
      redisTimeoutMs: optional('EMQ_REDIS_TIMEOUT_MS', integer(MAX_REDIS_TIMEOUT_MS), redisTimeoutMs),
      maxWaiting: optional('EMQ_MAX_WAITING', integer(MAX_MAX_WAITING), maxWaiting),
      relookMs: optional('EMQ_RELOOK_MS', integer(60_000, 1_000), relookMs),
    },
  }

  const { redis, wireClaim: claim, wireAccept: accept } = settings
  if (claim !== undefined && accept.length > 0 && !accept.some((pattern) => wireMatches(pattern, claim)))
    problems.push('EMQ_WIRE_CLAIM must be a version that EMQ_WIRE_ACCEPT accepts')

  // Without Redis there is a problem already: the compiler needs the second condition.
  return problems.length === 0 && redis
    ? { ok: true, settings: { ...settings, redis } }
    : { ok: false, problems, settings }
}
