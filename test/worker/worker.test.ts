/** The built Worker in the real workerd: what only this runtime can show of the API and of the cron. */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { Log, LogLevel, Miniflare } from 'miniflare'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type RedisServer, startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { buildWorker } from '../../src/stack/wrangler.ts'
import { secretsOf, workerOf } from '../service/support/workers.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { until } from '../support/until.ts'
import { startFailingUpstream } from './support/failing-upstream.ts'

// The first start in a process builds the Worker.
const START_TIMEOUT_MS = 120_000
const KIB = 1024
const REDIS_TIMEOUT_MS = 1_000

let redis: RedisServer
let stack: TestStack
let raw: RespPort

beforeAll(async () => {
  redis = await startRedis()
  stack = await startStack({
    port: 0,
    restPort: 0,
    redisUrl: redis.url,
    testMode: true,
    cron: false,
    quiet: true,
    env: { EMQ_REDIS_TIMEOUT_MS: String(REDIS_TIMEOUT_MS) },
  })
  raw = await createRespPort(redis.url)
}, START_TIMEOUT_MS)
afterAll(async () => {
  raw?.close()
  await stack?.stop()
  await redis?.stop()
})

/** What miniflare gives is typed by the types of Workers, which this project does without. */
type ScheduledWorker = { scheduled(event: { cron: string }): Promise<{ outcome: string }> }

// biome-ignore lint/suspicious/noExplicitAny: an answer is looked at field by field, and a wrong one fails the test
type Answer = { status: number; text: string; headers: Headers; json: any }

async function call(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(`${stack.url}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${stack.tokens.operator}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...init,
  })
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('Content-Type') ?? '') && text !== ''
  return {
    status: response.status,
    text,
    headers: response.headers,
    json: isJson ? JSON.parse(text) : undefined,
  }
}
const post = (queue: string, path: string, body: unknown = {}, init: RequestInit = {}) =>
  call('POST', `/v1/queues/${queue}/${path}`, body, init)
const counts = async (queue: string) => (await call('GET', `/v1/queues/${queue}`)).json.counts
const clean = async (queue: string) => expect(await census(raw, queue)).toEqual([])

describe('the API', () => {
  test('enqueues, claims, completes', async () => {
    const queue = freshQueue()
    const { id } = (await post(queue, 'jobs', { payload: { n: 1 } })).json
    for (const body of [{}, { limit: 1 }]) {
      const { jobs } = (await post(queue, 'claim', body)).json
      expect(jobs).toMatchObject([{ id, payload: { n: 1 } }])
      await post(queue, `jobs/${id}/release`, { token: jobs[0].token })
    }
    const [{ token }] = (await post(queue, 'claim', { limit: 1 })).json.jobs
    expect((await post(queue, `jobs/${id}/complete`, { token })).json).toEqual({ id, status: 'completed' })
    expect((await post(queue, `jobs/${id}/complete`, { token })).status).toBe(410)
    await clean(queue)
  })

  test.each([
    '9007199254740993',
    '1.0',
    '1e400',
    '{"a":[],"o":{},"n":null}',
    '"\\u0000"',
    '"\\ud83e\\udef6"',
    '"\u2028"',
  ])('keeps the payload %s as the text it is', async (text) => {
    const queue = freshQueue()
    await post(queue, 'jobs', `{"payload": ${text} }`)
    expect((await post(queue, 'claim', { limit: 1 })).text).toContain(`"payload":${text}}`)
  })

  test('keeps bytes that are no text', async () => {
    const queue = freshQueue()
    const { id } = (await post(queue, 'jobs', { text: 'x' })).json
    await raw.send([
      ['EVAL', "return redis.call('HSET', KEYS[1], 'payload', '\\255\\0a')", 1, keyspace(queue).job(id)],
    ])
    expect((await post(queue, 'claim', {})).json.jobs[0].base64).toBe('/wBh')
  })

  test('1: a reply that is lost on the way from Redis makes no second job, and is no error', async () => {
    const queue = freshQueue()
    await call('GET', '/v1/queues')
    stack.bridge.dropReply()
    const { status, json } = await post(queue, 'jobs', { payload: 'a' })
    expect([status, json.status]).toEqual([201, 'enqueued'])
    const [ids] = await raw.send([['ZRANGE', keyspace(queue).pending, 0, -1]])
    expect(ids).toEqual([new TextEncoder().encode(json.id)])
    stack.bridge.dropReply()
    expect((await post(queue, 'claim', { limit: 1 })).status).toBe(503)
    await clean(queue)
  })

  test('refuses what is malformed, without Redis', async () => {
    await call('GET', '/v1/queues')
    await stack.bridge.reset()
    for (const [status, path, body] of [
      [400, '/v1/queues/a%7Db/jobs', { payload: 1 }],
      [400, '/v1/queues/q/jobs', '{"payload":1}garbage'],
      [400, '/v1/queues/q/jobs', '{"payload":"\\ud800"}'],
      [400, '/v1/queues/q/claim', { limit: 0 }],
      [400, '/v1/queues/q/jobs/JOBzzzzzzzzzzz/complete', { token: 1 }],
      [404, '/v1/queues/q/jobs/', { payload: 1 }],
      [422, '/v1/queues/q/jobs/ABC0KHTOWnGLuC/complete', { token: 1 }],
    ] as const)
      expect((await call('POST', path, body)).status, path).toBe(status)
    expect((await call('GET', '/v1/queues/q/claim')).status).toBe(405)
    expect((await call('GET', '/v1/queues', undefined, { headers: {} })).status).toBe(401)
    expect((await stack.bridge.counts()).requests).toBe(0)
  })

  test('answers 413 by itself, counted on the bytes that come, with a length or without', async () => {
    const queue = freshQueue()
    await call('GET', '/v1/queues')
    await stack.bridge.reset()
    const limit = 5 * KIB * KIB
    const chunked = (bytes: number): RequestInit & { duplex: 'half' } => ({
      body: new ReadableStream({
        start(controller) {
          for (let sent = 0; sent < bytes; sent += KIB * KIB)
            controller.enqueue(new Uint8Array(Math.min(KIB * KIB, bytes - sent)).fill(0x20))
          controller.close()
        },
      }),
      duplex: 'half',
    })
    expect((await post(queue, 'jobs', ' '.repeat(limit + 1))).status).toBe(413)
    expect((await post(queue, 'jobs', ' ', chunked(limit + 1))).status).toBe(413)
    expect((await post(queue, 'jobs', { text: 'x'.repeat(256 * KIB + 1) })).status).toBe(413)
    expect((await stack.bridge.counts()).requests).toBe(0)
    expect((await post(queue, 'jobs', { text: '"'.repeat(256 * KIB) })).status).toBe(201)
  })

  test('has its headers on every answer, and CORS for nobody by default', async () => {
    for (const answer of [
      await call('GET', '/healthz'),
      await call('GET', '/nonsense'),
      await call('GET', '/metrics'),
    ]) {
      expect(answer.headers.get('Cache-Control')).toBe('no-store')
      expect(answer.headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
      expect(answer.headers.has('Access-Control-Allow-Origin')).toBe(false)
    }
  })
})

describe('a held claim', () => {
  const asked = async () => (await stack.bridge.counts()).requests

  test('is answered as soon as a job is there', async () => {
    const queue = freshQueue()
    await stack.bridge.reset()
    const waiting = post(queue, 'claim', { limit: 1, waitMs: 20_000 })
    await until(async () => (await asked()) > 1)
    const startedAt = Date.now()
    const { id } = (await post(queue, 'jobs', { payload: 1 })).json
    expect((await waiting).json.jobs).toMatchObject([{ id }])
    expect(Date.now() - startedAt).toBeLessThan(3_000)
  })

  test.each([
    ['with a FIN', (socket: Socket) => void socket.end()],
    ['with a reset', (socket: Socket) => void socket.resetAndDestroy()],
  ])('ends when its caller hangs up %s, and takes no job then', async (_how, hangUp) => {
    const queue = freshQueue()
    await stack.bridge.reset()
    const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
    const body = JSON.stringify({ limit: 1, waitMs: 25_000 })
    socket.write(
      `POST /v1/queues/${queue}/claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${stack.tokens.consumer}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await until(async () => (await asked()) > 2)
    hangUp(socket)
    await expectNothingTaken(queue)
  })

  test('ends when the program that waits is aborted, and takes no job then', async () => {
    const queue = freshQueue()
    await stack.bridge.reset()
    const controller = new AbortController()
    const waiting = post(queue, 'claim', { limit: 1, waitMs: 25_000 }, { signal: controller.signal })
    await until(async () => (await asked()) > 2)
    controller.abort()
    await expect(waiting).rejects.toThrow()
    await expectNothingTaken(queue)
  })

  /** A job that comes right afterwards is there for the next who asks. While a claim waits, it asks each second. */
  async function expectNothingTaken(queue: string): Promise<void> {
    const { id } = (await post(queue, 'jobs', { payload: 1 })).json
    const endsAt = Date.now() + 1_500
    while (Date.now() < endsAt)
      expect((await call('GET', `/v1/queues/${queue}/jobs/${id}`)).json.state).toBe('pending')
    expect((await post(queue, 'claim', { limit: 1 })).json.jobs).toMatchObject([{ id, token: 1 }])
    await clean(queue)
  }
})

describe('the cron', () => {
  test('delivers a delayed job, and takes back a lapsed one', async () => {
    const queue = freshQueue()
    await post(queue, 'jobs', { payload: 1 })
    await post(queue, 'claim', { limit: 1, leaseMs: 10 })
    await post(queue, 'jobs', { payload: 2, delayMs: 1_000 })
    await until(async () => {
      await stack.runCron()
      return (await counts(queue)).pending === 2
    })
    expect(await counts(queue)).toEqual({ pending: 2, active: 0, scheduled: 0, dead: 0 })
    await clean(queue)
  })

  test('56: a queue that fails stops no other, and the event rejects afterwards', async () => {
    const queues = [freshQueue(), freshQueue(), freshQueue()]
    for (const queue of queues) await post(queue, 'jobs', { payload: 1, delayMs: 1 })
    const broken = keyspace(queues[0] ?? '').schedule
    await raw.send([
      ['RENAME', broken, 'aside'],
      ['SET', broken, 'x'],
    ])
    await until(async () => {
      await expect(stack.runCron()).rejects.toThrow('exception')
      const others = await Promise.all(queues.slice(1).map(counts))
      return others.every(({ pending }) => pending === 1)
    })
    await raw.send([['RENAME', 'aside', broken]])
    await stack.runCron()
    expect((await counts(queues[0] ?? '')).pending).toBe(1)
    for (const queue of queues) await clean(queue)
  })
})

describe('36: bodies of upstream answers', () => {
  const CONNECTIONS_OF_A_WORKER = 6

  test('are all read, in the maintenance of 20 queues with half of the answers errors, and stall nothing', {
    timeout: START_TIMEOUT_MS,
  }, async () => {
    const upstream = await startFailingUpstream(() => stack.bridge.url)
    onTestFinished(() => upstream.stop())
    const logged: string[] = []
    const miniflare = new Miniflare({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      enableDevRegistry: false,
      telemetry: { enabled: false },
      log: new Log(LogLevel.NONE),
      handleStructuredLogs: ({ message }: { message: string }) => void logged.push(message),
      workers: [
        workerOf(
          'echomq-edge',
          await buildWorker(),
          secretsOf({ url: upstream.url, token: stack.bridge.token }),
        ),
      ],
    })
    onTestFinished(() => miniflare.dispose())
    const worker = (await miniflare.getWorker()) as unknown as ScheduledWorker

    const queues = Array.from({ length: 20 }, freshQueue)
    const id = 'JOB0KHTOWnGLuC'
    await raw.send(
      queues.flatMap((queue) => [
        ['HSET', keyspace(queue).job(id), 'state', 'scheduled', 'attempts', '0', 'payload', '1'],
        ['ZADD', keyspace(queue).schedule, 1, id],
        ['ZADD', GLOBAL_KEYS.queues, 1, queue],
      ]),
    )
    const moved = async (): Promise<number> =>
      (await raw.send(queues.map((queue) => ['ZCARD', keyspace(queue).pending]))).filter((size) => size === 1)
        .length
    for (let runs = 0; (await moved()) < queues.length && runs < 20; runs++)
      await worker.scheduled({ cron: '* * * * *' })
    expect(await moved()).toBe(20)
    expect(upstream.errors).toBeGreaterThan(2)
    expect({ open: upstream.open, cutOff: upstream.cutOff }).toEqual({ open: 0, cutOff: 0 })
    expect(upstream.mostOpen).toBeLessThanOrEqual(CONNECTIONS_OF_A_WORKER)
    expect(logged.join('\n')).not.toMatch(/stalled|deadlock|never generate a response|unread/i)

    upstream.failing = false
    expect((await worker.scheduled({ cron: '* * * * *' })).outcome).toBe('ok')
    for (const queue of queues) await clean(queue)
  })
})

describe('60: the scripts', () => {
  const lua = new URL('../../lua/', import.meta.url)
  const files = readdirSync(lua).filter((name) => name.endsWith('.lua'))
  const pinned = files.map((file) =>
    createHash('sha1')
      .update(readFileSync(new URL(file, lua)))
      .digest('hex'),
  )

  test('that the Worker sends are the bytes of the files: Redis knows each under its pinned SHA-1', async () => {
    const queue = freshQueue()
    await raw.send([['SCRIPT', 'FLUSH']])
    const id = 'JOB0KHTOWnGLuC'
    await post(queue, 'jobs', { payload: 1 })
    await post(queue, 'claim', {})
    await post(queue, 'claim', { limit: 1 })
    await post(queue, 'settle', { items: [{ id, token: 1, action: 'complete' }] })
    for (const action of ['complete', 'retry']) await post(queue, `jobs/${id}/${action}`, { token: 1 })
    for (const path of [`jobs/${id}/redrive`, 'redrive', 'promote', 'reap']) await post(queue, path)
    let step = (await post(queue, 'audit')).json
    while (step.cursor !== undefined) step = (await post(queue, 'audit', { cursor: step.cursor })).json
    await post(queue, 'purge', { state: 'dead' })
    await call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { delayMs: 1 })
    await call('DELETE', `/v1/queues/${queue}/jobs/${id}`)
    await call('GET', `/v1/queues/${queue}/jobs`)
    await stack.runCron()
    const [known] = await raw.send([['SCRIPT', 'EXISTS', ...pinned]])
    const missing = files.filter((_, nth) => Array.isArray(known) && known[nth] !== 1)
    // The contract's enqueue is for other clients: this service enqueues in batches of one or more.
    expect(missing).toEqual(['enqueue.lua'])
  })

  test('that are not the pinned ones are not run', async () => {
    const queue = freshQueue()
    await post(queue, 'jobs', { payload: 1 })
    await raw.send([['SCRIPT', 'FLUSH']])
    const sha1 = createHash('sha1').update('x').digest('base64')
    stack.bridge.answer({ status: 200, body: JSON.stringify([{ result: sha1 }]) }, { match: 'LOAD' })
    const answer = await post(queue, 'claim', { limit: 1 })
    await stack.bridge.reset()
    expect([answer.status, answer.json.code]).toEqual([503, 'upstream'])
    expect((await counts(queue)).pending).toBe(1)
  })
})

describe('the module', () => {
  test('is at most 120 KB gzipped, and one file', async () => {
    const built = await buildWorker()
    expect(Object.keys(built.modules)).toHaveLength(1)
    expect(built.gzippedBytes).toBeLessThanOrEqual(120 * KIB)
  })

  test('does nothing while it loads: no I/O, no timer, no clock, nothing random', async () => {
    // workerd itself refuses I/O and randomness at load; that it started shows their absence. This shows the rest.
    vi.resetModules()
    const spies = [
      vi.spyOn(globalThis, 'fetch'),
      vi.spyOn(globalThis, 'setTimeout'),
      vi.spyOn(globalThis, 'setInterval'),
      vi.spyOn(crypto, 'getRandomValues'),
      vi.spyOn(crypto, 'randomUUID'),
      vi.spyOn(Math, 'random'),
    ]
    const { createApp } = await import('../../src/app.ts')
    createApp()
    for (const spy of spies) expect(spy).not.toHaveBeenCalled()
    vi.restoreAllMocks()
  })
})

describe('Redis goes away', () => {
  const ID = 'JOB0KHTOWnGLuC'
  const ROUTES = [
    ['POST', '/v1/queues/{q}/jobs', { payload: 1 }],
    ['POST', '/v1/queues/{q}/claim', {}],
    ['POST', '/v1/queues/{q}/claim', { limit: 1, waitMs: 20_000 }],
    ['POST', `/v1/queues/{q}/jobs/${ID}/complete`, { token: 1 }],
    ['POST', `/v1/queues/{q}/jobs/${ID}/retry`, { token: 1 }],
    ['POST', `/v1/queues/{q}/jobs/${ID}/fail`, { token: 1 }],
    ['POST', `/v1/queues/{q}/jobs/${ID}/release`, { token: 1 }],
    ['POST', `/v1/queues/{q}/jobs/${ID}/extend`, { token: 1, leaseMs: 1000 }],
    ['POST', '/v1/queues/{q}/settle', { items: [{ id: ID, action: 'complete', token: 1 }] }],
    ['GET', '/v1/queues', undefined],
    ['GET', '/v1/queues/{q}', undefined],
    ['GET', '/v1/queues/{q}/jobs', undefined],
    ['GET', `/v1/queues/{q}/jobs/${ID}`, undefined],
    ['GET', '/metrics', undefined],
    ['POST', '/v1/maintenance', {}],
    ['POST', `/v1/queues/{q}/jobs/${ID}/redrive`, {}],
    ['PUT', `/v1/queues/{q}/jobs/${ID}/schedule`, { delayMs: 0 }],
    ['DELETE', `/v1/queues/{q}/jobs/${ID}`, undefined],
    ['POST', '/v1/queues/{q}/pause', {}],
    ['PUT', '/v1/queues/{q}/settings', { leaseMs: 1000 }],
  ] as const

  async function everyRouteIs503(withinMs: number): Promise<void> {
    const queue = freshQueue()
    const answers = await Promise.all(
      ROUTES.map(async ([method, path, body]) => {
        const startedAt = Date.now()
        const answer = await call(method, path.replace('{q}', queue), body)
        return { path, took: Date.now() - startedAt, ...answer }
      }),
    )
    for (const { path, took, status, json, headers } of answers) {
      expect(`${status} ${json?.code}`, path).toBe('503 upstream')
      expect(headers.get('Retry-After'), path).toMatch(/^[1-9]\d*$/)
      expect(took, path).toBeLessThan(withinMs)
    }
    expect((await call('GET', '/readyz')).status).toBe(503)
    expect((await call('GET', '/healthz')).status).toBe(200)
  }

  test('and does not answer: every route is 503 within its timeout', async () => {
    stack.bridge.delay(REDIS_TIMEOUT_MS * 3, { times: Number.POSITIVE_INFINITY })
    onTestFinished(() => stack.bridge.reset())
    await everyRouteIs503(REDIS_TIMEOUT_MS * 2.5)
  })

  test('and is stopped: every route is 503 at once, and works again when it is back, without a restart', async () => {
    const { port } = redis
    await redis.stop()
    await everyRouteIs503(REDIS_TIMEOUT_MS * 2.5)
    redis = await startRedis({ port })
    const queue = freshQueue()
    await until(async () => (await post(queue, 'jobs', { payload: 1 })).status === 201, 10_000)
    expect((await post(queue, 'claim', { limit: 1 })).json.jobs).toHaveLength(1)
    expect((await call('GET', '/readyz')).status).toBe(200)
    await stack.runCron()
  })
})
