/** The built Worker in the real workerd: behaviour of the API and the cron that only this runtime can show. */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { Log, LogLevel, Miniflare } from 'miniflare'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type RedisServer, startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { buildWorker } from '../../src/stack/wrangler.ts'
import { secretsOf, workerOf } from '../service/support/workers.ts'
import { type Api, apiAt, freshQueue } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { startFailingUpstream } from './support/failing-upstream.ts'

// The first start in a process builds the Worker.
const START_TIMEOUT_MS = 120_000
const KIB = 1024
const REDIS_TIMEOUT_MS = 1_000

let redis: RedisServer
let stack: TestStack
let raw: RespPort
let api: Api

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
  api = apiAt(stack.url, stack.tokens.operator)
}, START_TIMEOUT_MS)
afterAll(async () => {
  raw?.close()
  await stack?.stop()
  await redis?.stop()
})

/** Miniflare returns the types of Workers, which this project does not use. */
type ScheduledWorker = { scheduled(event: { cron: string }): Promise<{ outcome: string }> }

describe('the API', () => {
  test('197: assets and responses forbid sniffing and referrers', async () => {
    for (const path of ['/docs', '/docs/viewer.js', '/docs/nonsense', '/healthz', '/v1/queues']) {
      const { headers } = await api.call('GET', path)
      expect(headers.get('X-Content-Type-Options'), path).toBe('nosniff')
      expect(headers.get('Referrer-Policy'), path).toBe('no-referrer')
    }
  })

  test('the Worker enqueues, claims and completes a job', async () => {
    const queue = queueOn(api)
    const { id } = (await queue.post('jobs', { payload: { n: 1 } })).json
    for (const body of [{}, { limit: 1 }]) {
      const { jobs } = (await queue.post('claim', body)).json
      expect(jobs).toMatchObject([{ id, payload: { n: 1 } }])
      await queue.post(`jobs/${id}/release`, { token: jobs[0].token })
    }
    const [{ token }] = (await queue.post('claim', { limit: 1 })).json.jobs
    expect((await queue.post(`jobs/${id}/complete`, { token })).json).toEqual({ id, status: 'completed' })
    expect((await queue.post(`jobs/${id}/complete`, { token })).status).toBe(410)
    await expectConsistent(raw, queue.name)
  })

  test.each([
    '9007199254740993',
    '1.0',
    '1e400',
    '{"a":[],"o":{},"n":null}',
    '"\\u0000"',
    '"\\ud83e\\udef6"',
    '"\u2028"',
  ])('the Worker returns the payload %s as the same text', async (text) => {
    const queue = queueOn(api)
    await queue.post('jobs', `{"payload": ${text} }`)
    expect((await queue.post('claim', { limit: 1 })).text).toContain(`"payload":${text}}`)
  })

  test('the Worker returns a payload that is not UTF-8 as base64', async () => {
    const queue = queueOn(api)
    const { id } = (await queue.post('jobs', { text: 'x' })).json
    await raw.send([
      ['EVAL', "return redis.call('HSET', KEYS[1], 'payload', '\\255\\0a')", 1, queue.keys.job(id)],
    ])
    expect((await queue.post('claim', {})).json.jobs[0].base64).toBe('/wBh')
  })

  test('1: an enqueue under a key whose reply from Redis is lost stores one job and succeeds', async () => {
    const queue = queueOn(api)
    await api.call('GET', '/v1/queues')
    stack.bridge.dropReply()
    const { status, json } = await queue.post('jobs', { payload: 'a', idempotencyKey: 'k' })
    expect([status, json.status]).toEqual([201, 'enqueued'])
    const [ids] = await raw.send([['ZRANGE', queue.keys.pending, 0, -1]])
    expect(ids).toEqual([new TextEncoder().encode(json.id)])
    stack.bridge.dropReply()
    expect((await queue.post('claim', { limit: 1 })).status).toBe(503)
    await expectConsistent(raw, queue.name)
  })

  test('the Worker rejects malformed requests without a request to Redis', async () => {
    await api.call('GET', '/v1/queues')
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
      expect((await api.call('POST', path, body)).status, path).toBe(status)
    expect((await api.call('GET', '/v1/queues/q/claim')).status).toBe(405)
    expect((await api.call('GET', '/v1/queues', undefined, { token: null })).status).toBe(401)
    expect((await stack.bridge.counts()).requests).toBe(0)
  })

  test('the Worker returns 413 for received bytes above the limit, with and without a length', async () => {
    const queue = queueOn(api)
    await api.call('GET', '/v1/queues')
    await stack.bridge.reset()
    const limit = 5 * KIB * KIB
    const chunked = (bytes: number): ReadableStream =>
      new ReadableStream({
        start(controller) {
          for (let sent = 0; sent < bytes; sent += KIB * KIB)
            controller.enqueue(new Uint8Array(Math.min(KIB * KIB, bytes - sent)).fill(0x20))
          controller.close()
        },
      })
    expect((await queue.post('jobs', ' '.repeat(limit + 1))).status).toBe(413)
    expect((await queue.post('jobs', chunked(limit + 1))).status).toBe(413)
    expect((await queue.post('jobs', { text: 'x'.repeat(256 * KIB + 1) })).status).toBe(413)
    expect((await stack.bridge.counts()).requests).toBe(0)
    expect((await queue.post('jobs', { text: '"'.repeat(256 * KIB) })).status).toBe(201)
  })

  test('the Worker sends its headers with every response, and no CORS headers by default', async () => {
    for (const answer of [
      await api.call('GET', '/healthz'),
      await api.call('GET', '/nonsense'),
      await api.call('GET', '/metrics'),
    ]) {
      expect(answer.headers.get('Cache-Control')).toBe('no-store')
      expect(answer.headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
      expect(answer.headers.has('Access-Control-Allow-Origin')).toBe(false)
    }
  })
})

describe('a waiting claim', () => {
  const asked = async () => (await stack.bridge.counts()).requests

  test('a waiting claim returns as soon as a job is enqueued', async () => {
    const queue = queueOn(api)
    await stack.bridge.reset()
    const waiting = queue.post('claim', { limit: 1, waitMs: 20_000 })
    await until(async () => (await asked()) > 0)
    const startedAt = Date.now()
    const { id } = (await queue.post('jobs', { payload: 1 })).json
    expect((await waiting).json.jobs).toMatchObject([{ id }])
    expect(Date.now() - startedAt).toBeLessThan(3_000)
  })

  test.each([
    ['with a FIN', (socket: Socket) => void socket.end()],
    ['with a reset', (socket: Socket) => void socket.resetAndDestroy()],
  ])('a waiting claim ends when its caller hangs up %s, and then takes no job', async (_how, hangUp) => {
    const queue = queueOn(api)
    await stack.bridge.reset()
    const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
    const body = JSON.stringify({ limit: 1, waitMs: 25_000 })
    socket.write(
      `POST ${queue.path}/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${stack.tokens.consumer}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await until(async () => (await asked()) > 0)
    hangUp(socket)
    await expectNothingTaken(queue)
  })

  test('a waiting claim ends when its caller aborts the request, and then takes no job', async () => {
    const queue = queueOn(api)
    await stack.bridge.reset()
    const controller = new AbortController()
    const waiting = queue.post('claim', { limit: 1, waitMs: 25_000 }, { signal: controller.signal })
    await until(async () => (await asked()) > 0)
    controller.abort()
    await expect(waiting).rejects.toThrow()
    await expectNothingTaken(queue)
  })

  /** The next claim gets a job that is enqueued now. A waiting claim would ask every second. */
  async function expectNothingTaken(queue: TestQueue): Promise<void> {
    // The end of a connection takes up to half a second to reach the Worker.
    await setTimeout(1_000)
    const { id } = (await queue.post('jobs', { payload: 1 })).json
    const endsAt = Date.now() + 1_500
    while (Date.now() < endsAt) expect((await queue.get(`jobs/${id}`)).json.state).toBe('pending')
    expect((await queue.post('claim', { limit: 1 })).json.jobs).toMatchObject([{ id, token: 1 }])
    await expectConsistent(raw, queue.name)
  }
})

describe('the cron', () => {
  test('the cron promotes a delayed job and reaps a lapsed one', async () => {
    const queue = queueOn(api)
    await queue.post('jobs', { payload: 1 })
    await queue.post('claim', { limit: 1, leaseMs: 10 })
    await queue.post('jobs', { payload: 2, delayMs: 1_000 })
    await until(async () => {
      await stack.runCron()
      return (await queue.counts()).pending === 2
    })
    expect(await queue.counts()).toEqual({ pending: 2, active: 0, scheduled: 0, dead: 0 })
    await expectConsistent(raw, queue.name)
  })

  test('56: a queue that fails does not stop the others, and the cron event then rejects', async () => {
    const broken = queueOn(api)
    const others = [queueOn(api), queueOn(api)]
    for (const queue of [broken, ...others]) await queue.enqueue({ delayMs: 1 })
    await raw.send([
      ['RENAME', broken.keys.schedule, 'aside'],
      ['SET', broken.keys.schedule, 'x'],
    ])
    await until(async () => {
      await expect(stack.runCron()).rejects.toThrow('exception')
      const counts = await Promise.all(others.map((queue) => queue.counts()))
      return counts.every(({ pending }) => pending === 1)
    })
    await raw.send([['RENAME', 'aside', broken.keys.schedule]])
    await stack.runCron()
    expect((await broken.counts()).pending).toBe(1)
    await expectConsistent(raw, broken.name, ...others.map(({ name }) => name))
  })
})

describe('36: bodies of upstream responses', () => {
  const CONNECTIONS_OF_A_WORKER = 6

  test('maintenance of 20 queues reads every response body even if half of the responses are errors', {
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

    const queues = Array.from({ length: 20 }, () => freshQueue())
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
    await expectConsistent(raw, ...queues)
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

  test('the Worker sends the bytes of the script files, so that Redis knows each under its pinned SHA-1', async () => {
    const queue = queueOn(api)
    await raw.send([['SCRIPT', 'FLUSH']])
    const id = 'JOB0KHTOWnGLuC'
    await queue.post('jobs', { payload: 1 })
    await queue.post('claim', {})
    await queue.post('claim', { limit: 1 })
    await queue.post('settle', { items: [{ id, token: 1, action: 'complete' }] })
    for (const action of ['complete', 'retry']) await queue.post(`jobs/${id}/${action}`, { token: 1 })
    for (const path of [`jobs/${id}/redrive`, 'redrive', 'promote', 'reap']) await queue.post(path)
    let step = (await queue.post('audit')).json
    while (step.cursor !== undefined) step = (await queue.post('audit', { cursor: step.cursor })).json
    await queue.post('purge', { state: 'dead' })
    await queue.put(`jobs/${id}/schedule`, { delayMs: 1 })
    await queue.remove(id)
    await queue.get(`jobs`)
    await stack.runCron()
    const [known] = await raw.send([['SCRIPT', 'EXISTS', ...pinned]])
    const missing = files.filter((_, nth) => Array.isArray(known) && known[nth] !== 1)
    // `enqueue` is for other clients: this service enqueues with the batch script.
    expect(missing).toEqual(['enqueue.lua'])
  })

  test('the Worker does not run a script whose SHA-1 is not the pinned one', async () => {
    const queue = queueOn(api)
    await queue.post('jobs', { payload: 1 })
    await raw.send([['SCRIPT', 'FLUSH']])
    const sha1 = createHash('sha1').update('x').digest('base64')
    stack.bridge.answer({ status: 200, body: JSON.stringify([{ result: sha1 }]) }, { match: 'LOAD' })
    const answer = await queue.post('claim', { limit: 1 })
    await stack.bridge.reset()
    expect([answer.status, answer.json.code]).toEqual([503, 'upstream'])
    expect((await queue.counts()).pending).toBe(1)
  })
})

describe('the module', () => {
  test('the built Worker is one file of at most 120 KB gzipped', async () => {
    const built = await buildWorker()
    expect(Object.keys(built.modules)).toHaveLength(1)
    expect(built.gzippedBytes).toBeLessThanOrEqual(120 * KIB)
  })

  test('the module loads without I/O, timers or random numbers', async () => {
    // workerd itself rejects I/O and random numbers at load. This test shows the rest.
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

describe('Redis is unavailable', () => {
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
    const queue = queueOn(api)
    const answers = await Promise.all(
      ROUTES.map(async ([method, path, body]) => {
        const startedAt = Date.now()
        const answer = await api.call(method, path.replace('{q}', queue.name), body)
        return { path, took: Date.now() - startedAt, ...answer }
      }),
    )
    for (const { path, took, status, json, headers } of answers) {
      expect(`${status} ${json?.code}`, path).toBe('503 upstream')
      expect(headers.get('Retry-After'), path).toMatch(/^[1-9]\d*$/)
      expect(took, path).toBeLessThan(withinMs)
    }
    expect((await api.call('GET', '/readyz')).status).toBe(503)
    expect((await api.call('GET', '/healthz')).status).toBe(200)
  }

  test('every route returns 503 within its timeout when Redis does not answer', async () => {
    stack.bridge.delay(REDIS_TIMEOUT_MS * 3, { times: Number.POSITIVE_INFINITY })
    onTestFinished(() => stack.bridge.reset())
    await everyRouteIs503(REDIS_TIMEOUT_MS * 2.5)
  })

  test('every route returns 503 while Redis is stopped and works again afterwards without a restart', async () => {
    const { port } = redis
    const { password } = new URL(redis.url)
    await redis.stop()
    await everyRouteIs503(REDIS_TIMEOUT_MS * 2.5)
    redis = await startRedis({ port, password })
    const queue = queueOn(api)
    await until(async () => (await queue.post('jobs', { payload: 1 })).status === 201, 10_000)
    expect((await queue.post('claim', { limit: 1 })).json.jobs).toHaveLength(1)
    // A report is repeated for five seconds.
    await until(async () => (await api.call('GET', '/readyz')).status === 200, 10_000)
    await stack.runCron()
  })
})
