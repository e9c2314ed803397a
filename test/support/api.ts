/** The HTTP API, in this process or at a URL, on a real Redis. */
import { createHash } from 'node:crypto'
import { createApp } from '../../src/app.ts'
import type { DeploymentOptions } from '../../src/deployment.ts'
import { REST_TOKEN, type SharedRedis } from './redis.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** The tokens of the tests, each for all queues. */
export const TOKENS = {
  producer: 'test-producer',
  consumer: 'test-consumer',
  observer: 'test-observer',
  counter: 'test-counter',
  operator: 'test-operator',
} as const

/** One element of `EMQ_TOKENS`; its name is the token. */
export const tokenEntry = (token: string, scopes: readonly string[], queues: readonly string[] = ['*']) => ({
  name: token,
  sha256: sha256(token),
  scopes,
  queues,
})

export const EMQ_TOKENS = JSON.stringify([
  tokenEntry(TOKENS.producer, ['produce']),
  tokenEntry(TOKENS.consumer, ['consume']),
  tokenEntry(TOKENS.observer, ['observe', 'observe:payload']),
  tokenEntry(TOKENS.counter, ['observe']),
  tokenEntry(TOKENS.operator, ['operate']),
])

export type ApiAnswer = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Any type, because tests read it field by field: a wrong field fails the test. */
  readonly json: ReturnType<typeof JSON.parse>
}

export type CallOptions = {
  /** The operator's token by default; null sends none. */
  readonly token?: string | null
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

export type Api = {
  readonly env: Record<string, string>
  /** Sends a request. A body that is neither a string nor a stream is sent as JSON. */
  call(method: string, path: string, body?: unknown, options?: CallOptions): Promise<ApiAnswer>
}

/** An isolate of its own, with its own memory, on the Redis of the test file. */
export function apiOn(
  shared: SharedRedis,
  env: Record<string, string> = {},
  options: DeploymentOptions = {},
): Api {
  const bindings = {
    UPSTASH_REDIS_REST_URL: shared.bridge.url,
    UPSTASH_REDIS_REST_TOKEN: REST_TOKEN,
    EMQ_TOKENS,
    ...env,
  }
  const app = createApp({ ...options, env: bindings })
  return { env: bindings, call: callerOf(TOKENS.operator, async (path, init) => app.request(path, init)) }
}

/** The API of a server. */
export const apiAt = (url: string, token: string): Api => ({
  env: {},
  call: callerOf(token, (path, init) => fetch(url + path, init)),
})

function callerOf(
  operator: string,
  send: (path: string, init: RequestInit) => Promise<Response>,
): Api['call'] {
  return async (method, path, body, { token = operator, headers = {}, ...more } = {}) => {
    const isRaw = typeof body === 'string' || body instanceof ReadableStream
    const response = await send(path, {
      method,
      headers: {
        ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body), duplex: 'half' }),
      ...more,
    } as RequestInit)
    const text = await response.text()
    const isJson = /json/.test(response.headers.get('Content-Type') ?? '') && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : undefined,
    }
  }
}

let queues = 0

/** A queue name that no other test uses. */
export const freshQueue = (): string => `q${process.pid}-${Date.now()}-${queues++}`
