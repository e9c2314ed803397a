/** The HTTP API in this process, on the real bridge and the real Redis of a test file. */
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

export const EMQ_TOKENS = JSON.stringify([
  { name: 'producer', sha256: sha256(TOKENS.producer), scopes: ['produce'], queues: ['*'] },
  { name: 'consumer', sha256: sha256(TOKENS.consumer), scopes: ['consume'], queues: ['*'] },
  {
    name: 'observer',
    sha256: sha256(TOKENS.observer),
    scopes: ['observe', 'observe:payload'],
    queues: ['*'],
  },
  { name: 'counter', sha256: sha256(TOKENS.counter), scopes: ['observe'], queues: ['*'] },
  { name: 'operator', sha256: sha256(TOKENS.operator), scopes: ['operate'], queues: ['*'] },
])

export type ApiAnswer = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Looked at field by field: a wrong one fails the test. */
  readonly json: ReturnType<typeof JSON.parse>
}

export type Api = {
  readonly env: Record<string, string>
  /** Sends a request; a body that is no string is sent as JSON. The operator's token unless told otherwise. */
  call(
    method: string,
    path: string,
    body?: unknown,
    options?: { token?: string | null; headers?: Record<string, string> },
  ): Promise<ApiAnswer>
}

/** An API of its own, with its own memory, over the bridge of the test file. */
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
  return {
    env: bindings,
    async call(method, path, body, { token = TOKENS.operator, headers = {} } = {}) {
      const response = await app.request(path, {
        method,
        headers: {
          ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const text = await response.text()
      const isJson = /json/.test(response.headers.get('Content-Type') ?? '')
      return {
        status: response.status,
        headers: response.headers,
        text,
        json: isJson && text !== '' ? JSON.parse(text) : undefined,
      }
    },
  }
}

let queues = 0

/** A queue name that no other test has. */
export const freshQueue = (): string => `q${process.pid}-${Date.now()}-${queues++}`
