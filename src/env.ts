/**
 * The bindings of a deployment -> its settings: parsed once, strictly.
 *
 * Every known variable with a value that cannot be used is a problem that names the variable; no problem repeats
 * the value of a secret. Unknown variables are let be. A blank optional variable is one that is not set; nothing
 * else is guessed: no spaces are trimmed, no entry of a list is skipped.
 *
 * When something is wrong the settings still hold what could be read, so that the open routes can tell what is
 * missing. They fail closed: no usable `EMQ_TOKENS` means no token at all, no usable Redis means none.
 */
import { isQueueName, isWirePattern, isWireVersion, wireMatches } from './protocol/keys.ts'
import { DEFAULT_LIMITS, type Limits, MAX_CLAIM_BYTES } from './protocol/limits.ts'
import { readTokens, type TokenEntry } from './protocol/tokens.ts'

export type RedisSettings = {
  /** Base URL of the REST endpoint, without a slash at its end. */
  readonly url: string
  readonly token: string
}

export type Settings = {
  /** Undefined when `UPSTASH_REDIS_REST_URL` or `UPSTASH_REDIS_REST_TOKEN` cannot be used. */
  readonly redis: RedisSettings | undefined
  /** Empty when `EMQ_TOKENS` cannot be used: everybody is refused. */
  readonly tokens: readonly TokenEntry[]
  /** Queues that maintenance visits whether or not they are registered. */
  readonly queues: readonly string[]
  /** The wire version to claim on a database that bears none; undefined claims nothing. */
  readonly wireClaim: string | undefined
  /** Patterns of the wire versions to work with; see `wireMatches`. */
  readonly wireAccept: readonly string[]
  /** Origins whose pages may call: exact ones, or `*` alone for all. */
  readonly allowedOrigins: readonly string[]
  readonly limits: Limits
}

/** Settings that can serve. */
export type UsableSettings = Settings & { readonly redis: RedisSettings }

export type EnvReading =
  | { readonly ok: true; readonly settings: UsableSettings }
  | {
      readonly ok: false
      /** One sentence each, beginning with the name of a variable. For logs and the readiness of a deployment. */
      readonly problems: readonly string[]
      readonly settings: Settings
    }

/** A value that can be used, or a sentence that says why not, without the value. */
type Reading<T> = { readonly value: T } | { readonly problem: string }

const DEFAULT_WIRE_ACCEPT: readonly string[] = ['echomq:2.', 'echomq:3.']

const MAX_REDIS_TIMEOUT_MS = 60_000
/** An isolate has 128 MB, and a body is held as bytes, as text and as values. */
const MAX_MAX_BODY_BYTES = 32 * 1024 * 1024

const isBlank = (value: unknown): boolean => value === undefined || value === null || value === ''

/** `URL.parse`, which Node 20 lacks. */
const urlOf = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined)

const readUrl = (value: unknown): Reading<string> => {
  if (isBlank(value)) return { problem: 'is missing' }
  // The URL parser drops spaces and line breaks silently.
  if (typeof value !== 'string' || /\s/.test(value)) return { problem: 'must be a URL without spaces' }
  const url = urlOf(value)
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    return { problem: 'must be an https:// or http:// URL (the REST URL, not the redis:// one)' }
  }
  if (url.username || url.password) return { problem: 'must not carry credentials' }
  if (url.search || url.hash) return { problem: 'must not carry a query or a fragment' }
  return { value: url.href.replace(/\/+$/, '') }
}

const readRedisToken = (value: unknown): Reading<string> => {
  if (isBlank(value)) return { problem: 'is missing' }
  return typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)
    ? { value }
    : { problem: 'must be printable ASCII without spaces' }
}

/** A comma-separated list of entries; a blank one is empty. */
const readList = (
  value: unknown,
  isEntry: (text: string) => boolean,
  what: string,
): Reading<readonly string[]> => {
  if (isBlank(value)) return { value: [] }
  if (typeof value !== 'string') return { problem: 'must be text: a list with commas and no spaces' }
  const entries = value.split(',')
  const wrong = entries.findIndex((entry) => !isEntry(entry))
  return wrong < 0
    ? { value: [...new Set(entries)] }
    : { problem: `entry ${wrong + 1} is not ${what} (a list has commas and no spaces)` }
}

const isOrigin = (text: string): boolean => {
  const url = urlOf(text)
  // A star is a valid character of a host, but whoever writes one means a wildcard, and there is none.
  return (
    !text.includes('*') && (url?.protocol === 'https:' || url?.protocol === 'http:') && url.origin === text
  )
}

const readOrigins = (value: unknown): Reading<readonly string[]> =>
  value === '*'
    ? { value: ['*'] }
    : readList(value, isOrigin, 'an exact origin such as https://app.example.com')

const readWireClaim = (value: unknown): Reading<string | undefined> => {
  if (isBlank(value)) return { value: undefined }
  return typeof value === 'string' && isWireVersion(value)
    ? { value }
    : { problem: 'must be a wire version such as echomq:3.0.0' }
}

const readWireAccept = (value: unknown): Reading<readonly string[]> =>
  isBlank(value)
    ? { value: DEFAULT_WIRE_ACCEPT }
    : readList(value, isWirePattern, 'a wire version or a prefix ending in a dot or *')

/** A number, which a Worker's variables can be, or its decimal digits. */
const readInteger = (
  value: unknown,
  range: { min: number; max: number; fallback: number },
): Reading<number> => {
  if (isBlank(value)) return { value: range.fallback }
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isInteger(number) && number >= range.min && number <= range.max
    ? { value: number }
    : { problem: `must be an integer from ${range.min} to ${range.max}` }
}

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

  /** The value of a variable; when it cannot be used that is noted, and the fallback stands in. */
  const take = <T>(variable: string, read: (value: unknown) => Reading<T>, fallback: T): T => {
    const reading = read(bindings[variable])
    if ('value' in reading) return reading.value
    problems.push(`${variable} ${reading.problem}`)
    return fallback
  }

  const takeLimit = (variable: string, fallback: number, min: number, max: number): number =>
    take(variable, (value) => readInteger(value, { min, max, fallback }), fallback)

  const url = take('UPSTASH_REDIS_REST_URL', readUrl, undefined)
  const token = take('UPSTASH_REDIS_REST_TOKEN', readRedisToken, undefined)
  const redis = url === undefined || token === undefined ? undefined : { url, token }
  const tokens = take('EMQ_TOKENS', readTokens, [])
  const wireClaim = take('EMQ_WIRE_CLAIM', readWireClaim, undefined)
  const wireAccept = take('EMQ_WIRE_ACCEPT', readWireAccept, [])
  const settings: Settings = {
    redis,
    tokens,
    queues: take('EMQ_QUEUES', (value) => readList(value, isQueueName, 'a queue name'), []),
    wireClaim,
    wireAccept,
    allowedOrigins: take('EMQ_ALLOWED_ORIGINS', readOrigins, []),
    limits: {
      maxPayloadBytes: takeLimit('EMQ_MAX_PAYLOAD_BYTES', DEFAULT_LIMITS.maxPayloadBytes, 1, MAX_CLAIM_BYTES),
      maxBodyBytes: takeLimit('EMQ_MAX_BODY_BYTES', DEFAULT_LIMITS.maxBodyBytes, 1, MAX_MAX_BODY_BYTES),
      redisTimeoutMs: takeLimit(
        'EMQ_REDIS_TIMEOUT_MS',
        DEFAULT_LIMITS.redisTimeoutMs,
        1,
        MAX_REDIS_TIMEOUT_MS,
      ),
    },
  }

  if (
    wireClaim !== undefined &&
    wireAccept.length > 0 &&
    !wireAccept.some((pattern) => wireMatches(pattern, wireClaim))
  ) {
    problems.push('EMQ_WIRE_CLAIM must be a version that EMQ_WIRE_ACCEPT accepts')
  }

  // Without Redis there is a problem already; the second condition is for the compiler to see it, too.
  return problems.length === 0 && redis
    ? { ok: true, settings: { ...settings, redis } }
    : { ok: false, problems, settings }
}
