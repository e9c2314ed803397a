/** The deployment around the routes: health, readiness, missing settings, the version check, CORS, mounting. */
import { Hono } from 'hono'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createApp } from '../../src/app.ts'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { type Api, apiOn, EMQ_TOKENS, freshQueue, TOKENS } from '../support/api.ts'
import { keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { REST_TOKEN, sharedRedis, withoutRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('/healthz', () => {
  test('/healthz returns 200 without Redis, settings or a token', async () => {
    await withoutRedis(shared, async () => {
      for (const env of [{}, { EMQ_TOKENS: '', UPSTASH_REDIS_REST_URL: 'nonsense' }]) {
        const answer = await open(apiOn(shared, env), '/healthz')
        expect([answer.status, answer.json]).toEqual([200, { status: 'ok' }])
      }
    })
  })
})

describe('/readyz', () => {
  const BAD_VARIABLES = [
    ...[{ EMQ_MAX_PAYLOAD_BYTES: 'abc' }, { EMQ_REDIS_TIMEOUT_MS: '0' }, { EMQ_MAX_BODY_BYTES: '-1' }],
    ...[{ EMQ_QUEUES: 'a}b' }, { EMQ_ALLOWED_ORIGINS: 'example.com' }, { EMQ_WIRE_CLAIM: 'x' }],
  ] as Record<string, string>[]
  const checks = async (env: Record<string, string> = {}) => {
    const answer = await open(apiOn(shared, env), '/readyz')
    expect(answer.headers.get('Content-Type')).toBe('application/json')
    return [answer.status, answer.json]
  }
  afterEach(async () => {
    await raw.run('DEL', GLOBAL_KEYS.version, GLOBAL_KEYS.maintenance)
    await raw.run('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await shared.bridge.reset()
  })

  test('/readyz takes one subrequest and reports how long ago maintenance ran', async () => {
    const ready = { redis: 'ok', tokens: 'ok', settings: 'ok', wireVersion: 'ok' }
    await shared.bridge.reset()
    expect(await checks()).toEqual([
      200,
      { status: 'ready', checks: { ...ready, maintenance: { ageMs: null } } },
    ])
    expect((await shared.bridge.counts()).requests).toBe(1)
    await raw.run('SET', GLOBAL_KEYS.maintenance, Date.now() - 600_000)
    const [status, { checks: found }] = await checks()
    expect(status).toBe(200)
    expect(Math.abs(found.maintenance.ageMs - 600_000)).toBeLessThan(5_000)
    await apiOn(shared).call('POST', '/v1/maintenance', {})
    expect((await checks())[1].checks.maintenance.ageMs).toBeLessThan(5_000)
  })

  test('/readyz reports the part that failed: tokens, settings, version, eviction or Redis', async () => {
    expect(await checks({ EMQ_TOKENS: '' })).toMatchObject([
      503,
      { status: 'unready', checks: { tokens: 'failed', redis: 'ok' } },
    ])
    expect(await checks({ UPSTASH_REDIS_REST_URL: '' })).toMatchObject([
      503,
      { checks: { redis: 'misconfigured' } },
    ])
    for (const env of BAD_VARIABLES)
      expect(await checks(env)).toMatchObject([
        503,
        { status: 'unready', checks: { redis: 'ok', tokens: 'ok', settings: 'failed', wireVersion: 'ok' } },
      ])
    expect(await checks({ UPSTASH_REDIS_REST_TOKEN: 'wrong' })).toMatchObject([
      503,
      { checks: { redis: 'unauthorized', settings: 'ok' } },
    ])
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:9.0.0')
    expect(await checks()).toMatchObject([503, { checks: { redis: 'ok', wireVersion: 'failed' } }])
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:3.1.0')
    expect(await checks()).toMatchObject([200, { checks: { wireVersion: 'ok' } }])
    for (const policy of ['allkeys-lru', 'volatile-ttl']) {
      await raw.run('CONFIG', 'SET', 'maxmemory-policy', policy)
      expect(await checks(), policy).toMatchObject([
        503,
        { status: 'unready', checks: { redis: 'evicting' } },
      ])
    }
  })

  test('166: a broken EMQ_TOKENS fails only the check of tokens', async () => {
    const [, report] = await checks({ EMQ_TOKENS: '[]' })
    expect(report.checks).toMatchObject({ tokens: 'failed', redis: 'ok', settings: 'ok', wireVersion: 'ok' })
  })

  test('184: a hundred requests for /readyz take one subrequest in five seconds', async () => {
    let now = Date.now()
    const api = apiOn(shared, {}, { now: () => now })
    await shared.bridge.reset()
    const ask = () => open(api, '/readyz')
    const answers = await Promise.all(Array.from({ length: 100 }, ask))
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
    now += 4_999
    await ask()
    expect((await shared.bridge.counts()).requests).toBe(1)
    now += 1
    await ask()
    expect((await shared.bridge.counts()).requests).toBe(2)
  })

  test('/readyz returns 503 within the timeout when Redis does not answer', async () => {
    for (const fault of [
      () => shared.bridge.hangUp(),
      () => shared.bridge.answer({ status: 500, body: 'x' }),
      () =>
        shared.bridge.answer({
          status: 200,
          body: '[{"error":"ERR a"},{"error":"ERR b"},{"error":"ERR c"},{"error":"ERR d"}]',
        }),
      () => shared.bridge.delay(1_000),
    ]) {
      fault()
      const startedAt = Date.now()
      expect(await checks({ EMQ_REDIS_TIMEOUT_MS: '200' })).toMatchObject([
        503,
        { checks: { redis: 'failed', wireVersion: 'unknown' } },
      ])
      expect(Date.now() - startedAt).toBeLessThan(900)
      await shared.bridge.reset()
    }
  })

  test.each([
    [{ EMQ_MAX_PAYLOAD_BYTES: 'abc' }, 'EMQ_MAX_PAYLOAD_BYTES must be an integer from 1 to '],
    [{ UPSTASH_REDIS_REST_TOKEN: 'wrong' }, 'Redis refused the token of this deployment'],
    [{ UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:9' }, 'Redis did not answer'],
    [
      { EMQ_WIRE_ACCEPT: 'echomq:9.' },
      'The database uses a wire version that this deployment does not accept',
    ],
  ])('/readyz logs what is wrong without a secret: %j', async (env, reason) => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:3.1.0')
    expect((await checks(env as Record<string, string>))[0]).toBe(503)
    const lines = log.mock.calls.map((values) => values.join(' '))
    log.mockRestore()
    expect(lines).toEqual([expect.stringContaining(`not ready: ${reason}`)])
    expect(lines.join()).not.toMatch(/wrong|abc|127\.0\.0\.1/)
  })

  test('/readyz returns no secret, URL, queue or token name', async () => {
    const answer = await open(
      apiOn(shared, { EMQ_QUEUES: 'secret-queue', EMQ_WIRE_CLAIM: 'bad version!' }),
      '/readyz',
    )
    expect(answer.text).not.toMatch(/secret-queue|127\.0\.0\.1|test-token|producer|bad version/)
  })
})

describe('misconfigured (fault 63)', () => {
  const BAD = [
    ...[{ UPSTASH_REDIS_REST_URL: '' }, { UPSTASH_REDIS_REST_URL: ' https://x.upstash.io' }],
    ...[
      { UPSTASH_REDIS_REST_URL: 'https://user:SECRET-1@x.upstash.io' },
      { UPSTASH_REDIS_REST_URL: 'redis://SECRET-1' },
    ],
    ...[{ UPSTASH_REDIS_REST_TOKEN: '' }, { UPSTASH_REDIS_REST_TOKEN: 'SECRET-1 x' }],
    ...[{ EMQ_TOKENS: '' }, { EMQ_TOKENS: '   ' }, { EMQ_TOKENS: '[]' }, { EMQ_TOKENS: '{"SECRET-1":1}' }],
    ...[{ EMQ_QUEUES: 'a, SECRET-1' }, { EMQ_REDIS_TIMEOUT_MS: '0' }, { EMQ_WIRE_CLAIM: 'other:1' }],
  ]

  test.each(BAD)('198: %j rejects every caller without details, which are in the log', async (env) => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    await withoutRedis(shared, async () => {
      for (const token of [TOKENS.operator, null]) {
        const answer = await apiOn(shared, env as Record<string, string>).call(
          'GET',
          '/v1/queues',
          undefined,
          { token },
        )
        expect([answer.status, answer.json.code]).toEqual([503, 'misconfigured'])
        expect(answer.text).not.toMatch(/SECRET-1|EMQ_|UPSTASH_/)
        expect(log.mock.lastCall?.join(' ')).toContain(Object.keys(env)[0])
      }
      expect((await open(apiOn(shared, env as Record<string, string>), '/nonsense')).status).toBe(404)
    })
    expect(log.mock.calls.join(' ')).not.toContain('SECRET-1')
    log.mockRestore()
  })

  test('a Worker without bindings is misconfigured', async () => {
    const answer = await createApp().request('/v1/queues')
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ code: 'misconfigured' })
    expect((await createApp().request('/readyz')).status).toBe(503)
  })

  test('the URL of Redis may end in a slash', async () => {
    const api = apiOn(shared, { UPSTASH_REDIS_REST_URL: `${shared.bridge.url}/` })
    expect((await enqueue(api, freshQueue())).status).toBe(201)
  })

  test('new bindings repair a misconfigured Worker without a restart', async () => {
    const app = createApp()
    const good = {
      UPSTASH_REDIS_REST_URL: shared.bridge.url,
      UPSTASH_REDIS_REST_TOKEN: REST_TOKEN,
      EMQ_TOKENS,
    }
    const ask = (env: object) =>
      app.request('/v1/queues', { headers: { Authorization: `Bearer ${TOKENS.operator}` } }, env)
    expect((await ask({ ...good, EMQ_TOKENS: '' })).status).toBe(503)
    expect((await ask(good)).status).toBe(200)
    expect((await ask({ ...good, EMQ_TOKENS: '' })).status).toBe(503)
  })
})

describe('the version check', () => {
  afterEach(() => raw.run('DEL', GLOBAL_KEYS.version))
  const version = () => raw.run('GET', GLOBAL_KEYS.version)

  test('an isolate reads the version once, before its first command', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await shared.bridge.reset()
    await enqueue(api, queue)
    expect((await shared.bridge.counts()).requests).toBe(2)
    await enqueue(api, queue)
    await enqueue(api, queue)
    expect((await shared.bridge.counts()).requests).toBe(4)
    expect(await version()).toBeNull()
  })

  test('every route rejects another version without a write and works again when the version is corrected', async () => {
    await raw.run('SET', GLOBAL_KEYS.version, 'other:1.0.0')
    const api = apiOn(shared, { EMQ_WIRE_CLAIM: 'echomq:3.0.0' })
    const queue = freshQueue()
    const registered = await raw.run('ZCARD', GLOBAL_KEYS.queues)
    for (const [method, path, body] of [
      ['POST', `/v1/queues/${queue}/jobs`, { payload: 1 }],
      ['POST', `/v1/queues/${queue}/jobs`, { jobs: [{ payload: 1 }] }],
      ['POST', `/v1/queues/${queue}/claim`, {}],
      ['POST', `/v1/queues/${queue}/claim`, { limit: 1 }],
      ['POST', `/v1/queues/${queue}/pause`, {}],
      ['PUT', `/v1/queues/${queue}/settings`, { leaseMs: 50 }],
      ['GET', `/v1/queues/${queue}`, undefined],
      ['GET', '/v1/queues', undefined],
      ['GET', '/metrics', undefined],
      ['POST', '/v1/maintenance', {}],
    ] as const) {
      const answer = await api.call(method, path, body)
      expect([answer.status, answer.json.code], path).toEqual([503, 'wire_version'])
      expect(answer.text).not.toContain('other:1.0.0')
    }
    expect(await keysOf(raw.port, queue)).toEqual([])
    expect(await raw.run('ZCARD', GLOBAL_KEYS.queues)).toBe(registered)
    expect(await version()).toBe('other:1.0.0')

    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:2.7.1')
    expect((await enqueue(api, queue)).status).toBe(201)
    expect(await version()).toBe('echomq:2.7.1')
  })

  test.each([
    ['echomq:2.0.0', undefined, 201],
    ['echomq:3.99.1', undefined, 201],
    ['echomq:4.0.0', undefined, 503],
    ['echomq:30.0.0', undefined, 503],
    ['echomq:4.0.0', 'echomq:4.', 201],
    ['echomq:3.0.0', 'echomq:4.', 503],
    ['echomq:3.0.0', 'echomq:3.0.0', 201],
    ['echomq:3.0.01', 'echomq:3.0.0', 503],
    ['other:1', 'echomq:3.,other:*', 201],
    ['', undefined, 503],
  ])('an enqueue with the version %j under EMQ_WIRE_ACCEPT %j returns %i', async (found, accepts, status) => {
    await raw.run('SET', GLOBAL_KEYS.version, found)
    const api = apiOn(shared, accepts === undefined ? {} : { EMQ_WIRE_ACCEPT: accepts })
    expect((await enqueue(api, freshQueue())).status).toBe(status)
  })

  test('EMQ_WIRE_CLAIM writes the version only where there is none', async () => {
    await enqueue(apiOn(shared), freshQueue())
    expect(await version()).toBeNull()
    const claiming = apiOn(shared, { EMQ_WIRE_CLAIM: 'echomq:3.0.0' })
    expect((await enqueue(claiming, freshQueue())).status).toBe(201)
    expect(await version()).toBe('echomq:3.0.0')
    const later = apiOn(shared, { EMQ_WIRE_CLAIM: 'echomq:3.5.0' })
    expect((await enqueue(later, freshQueue())).status).toBe(201)
    expect(await version()).toBe('echomq:3.0.0')
  })

  test.each(['/readyz', '/v1/maintenance'])(
    'EMQ_WIRE_CLAIM writes the version even if %s came first',
    async (first) => {
      const api = apiOn(shared, { EMQ_WIRE_CLAIM: 'echomq:3.0.0' })
      await api.call(first === '/readyz' ? 'GET' : 'POST', first)
      expect((await enqueue(api, freshQueue())).status).toBe(201)
      expect(await version()).toBe('echomq:3.0.0')
    },
  )

  test('each maintenance run reads the version again', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    expect((await enqueue(api, queue)).status).toBe(201)
    await raw.run('SET', GLOBAL_KEYS.version, 'other:1.0.0')
    const refused = await api.call('POST', '/v1/maintenance', {})
    expect([refused.status, refused.json.code]).toEqual([503, 'wire_version'])
    expect((await enqueue(api, queue)).json.code).toBe('wire_version')
    await raw.run('DEL', GLOBAL_KEYS.version)
    expect((await enqueue(api, queue)).status).toBe(201)
  })
})

describe('CORS (faults 42 and 43)', () => {
  const ORIGIN = 'https://app.example.com'
  const env = { EMQ_ALLOWED_ORIGINS: `${ORIGIN},http://localhost:3000` }
  const corsOf = (headers: Headers): string[] =>
    [...headers.keys()].filter((name) => name.startsWith('access-control-')).sort()

  test('a preflight needs no token on any path, and only an allowed origin receives CORS headers', async () => {
    await withoutRedis(shared, async () => {
      for (const path of ['/v1/queues/q/jobs', '/v1/queues/a}b/jobs', '/nonsense', '/healthz']) {
        const preflight = (origin: string) =>
          apiOn(shared, env).call('OPTIONS', path, undefined, {
            token: null,
            headers: {
              Origin: origin,
              'Access-Control-Request-Method': 'POST',
              'Access-Control-Request-Headers': 'authorization,content-type,idempotency-key,x-request-id',
            },
          })
        const answer = await preflight(ORIGIN)
        expect([answer.status, answer.text], path).toEqual([204, ''])
        expect(answer.headers.get('Access-Control-Allow-Origin')).toBe(ORIGIN)
        expect(answer.headers.get('Access-Control-Allow-Methods')?.split(',').sort()).toEqual([
          ...['DELETE', 'GET', 'HEAD', 'POST', 'PUT'],
        ])
        expect(answer.headers.get('Access-Control-Allow-Headers')?.toLowerCase().split(',')).toEqual([
          'authorization',
          'content-type',
          'idempotency-key',
          'x-request-id',
        ])
        expect(answer.headers.get('Vary')).toMatch(/origin/i)
        for (const origin of [
          'https://evil.example.com',
          'null',
          `${ORIGIN}.evil.com`,
          'http://app.example.com',
        ]) {
          const other = await preflight(origin)
          expect(other.status, origin).toBe(204)
          expect(corsOf(other.headers), origin).toEqual([])
        }
      }
    })
  })

  test('every response to an allowed origin has CORS headers, and no other response has', async () => {
    const api = apiOn(shared, env)
    const queue = freshQueue()
    const boom = vi.spyOn(console, 'error').mockImplementation(() => {})
    const endings = [
      [200, 'GET', '/v1/queues', undefined, TOKENS.operator],
      [201, 'POST', `/v1/queues/${queue}/jobs`, { payload: 1 }, TOKENS.operator],
      [204, 'DELETE', `/v1/queues/${queue}/jobs/JOB0KHTOWnGLuC`, undefined, TOKENS.operator],
      [400, 'POST', `/v1/queues/${queue}/jobs`, {}, TOKENS.operator],
      [401, 'GET', '/v1/queues', undefined, 'bad'],
      [403, 'GET', '/v1/queues', undefined, TOKENS.producer],
      [404, 'GET', '/nonsense', undefined, TOKENS.operator],
      [405, 'DELETE', '/v1/queues', undefined, TOKENS.operator],
      [503, 'GET', `/v1/queues/${queue}`, undefined, TOKENS.operator],
    ] as const
    for (const [status, method, path, body, token] of endings) {
      for (const origin of [ORIGIN, 'https://evil.example.com', undefined]) {
        if (status === 204)
          await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1, id: 'JOB0KHTOWnGLuC' })
        if (status === 503) shared.bridge.hangUp()
        const headers = { 'If-None-Match': '"x"', ...(origin === undefined ? {} : { Origin: origin }) }
        const answer = await api.call(method, path, body, { token, headers })
        expect(answer.status, `${method} ${path}`).toBe(status)
        expect(answer.headers.get('Cache-Control')).toBe('no-store')
        const isAllowed = origin === ORIGIN
        expect(answer.headers.get('Access-Control-Allow-Origin')).toBe(isAllowed ? ORIGIN : null)
        expect(corsOf(answer.headers).length > 0, String(origin)).toBe(isAllowed)
        if (isAllowed)
          expect(answer.headers.get('Access-Control-Expose-Headers')?.split(',')).toEqual([
            'X-Request-Id',
            'Retry-After',
          ])
      }
    }
    boom.mockRestore()
  })

  test('CORS is off by default, and * allows every origin', async () => {
    const ask = (settings: Record<string, string>) =>
      apiOn(shared, settings).call('GET', '/healthz', undefined, { token: null, headers: { Origin: ORIGIN } })
    expect(corsOf((await ask({})).headers)).toEqual([])
    expect((await ask({ EMQ_ALLOWED_ORIGINS: '*' })).headers.get('Access-Control-Allow-Origin')).toMatch(
      /^(\*|https:\/\/app\.example\.com)$/,
    )
    expect((await ask({ EMQ_ALLOWED_ORIGINS: '*' })).headers.has('Access-Control-Allow-Credentials')).toBe(
      false,
    )
  })
})

describe('an error of our own', () => {
  test('an internal error returns 500 with the request id, is logged with it, and exposes nothing', async () => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => {})
    const api = apiOn(
      shared,
      { EMQ_ALLOWED_ORIGINS: 'https://app.example.com' },
      {
        now: () => {
          throw new Error('SECRET-1')
        },
      },
    )
    const answer = await api.call(
      'POST',
      `/v1/queues/${freshQueue()}/claim`,
      {},
      {
        headers: { 'X-Request-Id': 'r-1', Origin: 'https://app.example.com' },
      },
    )
    expect(answer.status).toBe(500)
    expect(answer.json).toMatchObject({ code: 'internal', requestId: 'r-1' })
    expect(answer.text).not.toContain('SECRET-1')
    expect(answer.headers.get('Access-Control-Allow-Origin')).toBe('https://app.example.com')
    expect(answer.headers.get('Cache-Control')).toBe('no-store')
    expect(String(log.mock.calls[0]?.[0])).toContain('r-1')
    log.mockRestore()
  })
})

describe('mounted in another app', () => {
  test('a mounted app serves below its path and does not change the rest of its host', async () => {
    const env = apiOn(shared).env
    const host = new Hono()
    host.get('/', (context) => context.text('mine'))
    host.route('/queue', createApp({ env }))
    host.get('/queue-page', (context) => context.text('mine, too'))
    host.notFound((context) => context.text('host 404', 404))
    const queue = freshQueue()
    const call = (path: string, init: RequestInit = {}) =>
      host.request(path, {
        ...init,
        headers: {
          Authorization: `Bearer ${TOKENS.operator}`,
          ...(init.body ? { 'Content-Type': 'application/json' } : {}),
        },
      })
    expect(await (await call('/')).text()).toBe('mine')
    const page = await call('/queue-page')
    expect(await page.text()).toBe('mine, too')
    expect(page.headers.has('X-Request-Id')).toBe(false)
    const answer = await call(`/queue/v1/queues/${queue}/jobs?`, { method: 'POST', body: '{"payload":1}' })
    expect(answer.status).toBe(201)
    expect(answer.headers.get('Cache-Control')).toBe('no-store')
    expect((await call(`/queue/v1/queues/${queue}?x=1`)).status).toBe(400)
    expect((await call(`/queue/v1/queues/a%7Db`)).status).toBe(400)
    expect((await call(`/v1/queues/${queue}`)).status).toBe(404)
  })
})

function open(api: Api, path: string) {
  return api.call('GET', path, undefined, { token: null })
}

function enqueue(api: Api, queue: string) {
  return api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1 })
}
