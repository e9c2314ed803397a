/** Faults 46 to 48: names, bearer tokens, and error texts that carry what they should not. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { type Api, apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'
const post = (api: Api, queue: string, path: string, body: object | string = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)

describe('46: braces, colons and globs in names', () => {
  const NAMES = [
    'a}b',
    '{a}',
    'a:pending',
    '*',
    'q?',
    '[q]',
    'x'.repeat(300),
    'x'.repeat(129),
    'q1 ',
    ' q1',
    'emq',
    '-a',
    '.a',
    '_a',
    'a/b',
    'a\\b',
    'ä',
    'a\n',
    'a,b',
  ]

  test.each(NAMES)('%j: 400 in a path, unusable in every setting, and Redis hears nothing', async (name) => {
    const before = (await shared.bridge.counts()).requests
    const path = encodeURIComponent(name)
    for (const [method, end, body] of [
      ['POST', '/jobs', { payload: 1 }],
      ['POST', '/claim', { limit: 1 }],
      ['GET', '', undefined],
      ['GET', '/jobs', undefined],
      ['GET', `/jobs/${ID}`, undefined],
      ['DELETE', `/jobs/${ID}`, undefined],
      ['PUT', '/settings', {}],
      ['POST', '/purge', { state: 'dead' }],
      ['POST', '/audit', { repair: true }],
    ] as const) {
      const answer = await apiOn(shared).call(method, `/v1/queues/${path}${end}`, body)
      expect([answer.status, answer.json.code, answer.json.errors[0].path], end).toEqual([
        400,
        'invalid',
        'queue',
      ])
      expect(answer.headers.get('X-Request-Id')).not.toBeNull()
    }
    const listed = await apiOn(shared, { EMQ_QUEUES: `good,${name}` }).call('GET', '/v1/queues')
    // A comma parts two names.
    if (name !== 'a,b') expect([listed.status, listed.json.code]).toEqual([503, 'misconfigured'])
    const cursor = await apiOn(shared).call('GET', `/v1/queues?cursor=${path}`)
    expect(cursor.status).toBe(400)
    expect((await shared.bridge.counts()).requests - before).toBe(name === 'a,b' ? 3 : 0)
  })

  test('the empty name is no path, and no name', async () => {
    expect((await apiOn(shared).call('POST', '/v1/queues//jobs', { payload: 1 })).status).toBe(404)
  })

  test.each(['a', 'A0', 'a.b-c_d', '0', 'emq2', 'EMQ', 'x'.repeat(128)])('%s is a name', async (name) => {
    const api = apiOn(shared)
    const { id } = (await post(api, name, 'jobs', { payload: 1 })).json
    expect(await raw.run('ZSCORE', `emq:{${name}}:pending`, id)).not.toBeNull()
    await post(api, name, 'purge', { state: 'pending' })
  })

  test('what the registry holds besides names is no queue to anybody', async () => {
    await raw.run('ZADD', '{emq}:queues', 1, 'good', 1, 'a}b', 1, 'emq', 1, '')
    const api = apiOn(shared)
    const { queues } = (await api.call('GET', '/v1/queues?limit=200')).json
    expect(queues.map(({ queue }: { queue: string }) => queue)).toContain('good')
    expect((await api.call('GET', '/metrics')).status).toBe(200)
    await raw.run('ZREM', '{emq}:queues', 'a}b', 'emq', '')
  })
})

describe('47: the bearer token', () => {
  const T = TOKENS.operator
  const app = () => createApp({ env: apiOn(shared).env })
  const ask = (...values: string[]): Promise<Response> | Response => {
    const headers = new Headers()
    for (const value of values) headers.append('Authorization', value)
    return app().request('/v1/queues', { headers })
  }

  test.each([`bearer ${T}`, `BEARER  ${T}`, `Bearer ${T}`])('%j is accepted', async (header) => {
    expect((await ask(header)).status).toBe(200)
  })

  test.each([
    ...[
      `Bearer\t${T}`,
      `xBearer ${T}`,
      `Bearer ${T} extra`,
      'Bearer',
      'Bearer ',
      '',
      T,
      `Basic ${T}`,
      `Bearer, ${T}`,
    ],
    ...[
      `Bearer ${T}x`,
      `Bearer ${T.slice(1)}`,
      `Bearer "${T}"`,
      `Bearer ${'x'.repeat(100_000)}`,
      `Bearer ${T}\u00a0`,
    ],
    ...[
      `Token ${T}`,
      `Bearer ${createHash('sha256').update(T).digest('hex')}`,
      'Bearer =',
      'Bearer undefined',
    ],
  ])('%.40j is 401, and never 500', async (header) => {
    const before = (await shared.bridge.counts()).requests
    const answer = await ask(header)
    expect(answer.status).toBe(401)
    expect(answer.headers.get('WWW-Authenticate')).toBe('Bearer')
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test('two headers are none; a token in the query or in a cookie is none', async () => {
    expect((await ask(`Bearer ${T}`, `Bearer ${T}`)).status).toBe(401)
    expect((await app().request(`/v1/queues?token=${T}&_token=${T}&access_token=${T}`)).status).toBe(401)
    expect((await app().request('/v1/queues', { headers: { Cookie: `token=${T}` } })).status).toBe(401)
  })

  test('rotation: two tokens of one name both hold, until one is taken out', async () => {
    const entry = (token: string) => ({
      name: 'web',
      sha256: createHash('sha256').update(token).digest('hex').toUpperCase(),
      scopes: ['observe'],
      queues: ['*'],
    })
    const app = createApp()
    const status = async (token: string, entries: object[]) => {
      const env = { ...apiOn(shared).env, EMQ_TOKENS: JSON.stringify(entries) }
      return (await app.request('/v1/queues', { headers: { Authorization: `Bearer ${token}` } }, env)).status
    }
    for (const token of ['old', 'new']) expect(await status(token, [entry('old'), entry('new')])).toBe(200)
    expect(await status('old', [entry('new')])).toBe(401)
    expect(await status('new', [entry('new')])).toBe(200)
  })
})

describe('48: error texts as a carrier', () => {
  test('of 200 kB are cut, other things are refused, and a zero is a character', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const fail = async (error: string) => {
      const { id } = (await post(api, queue, 'jobs', { payload: 1 })).json
      await post(api, queue, 'claim', { limit: 1 })
      const answer = await post(api, queue, `jobs/${id}/fail`, `{"token":1,"error":${error}}`)
      const { lastError } = (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
      if (answer.status !== 200) await post(api, queue, `jobs/${id}/complete`, { token: 1 })
      return [answer.status, lastError]
    }
    expect(await fail(JSON.stringify('é'.repeat(100_000)))).toEqual([200, 'é'.repeat(2048)])
    expect(await fail(JSON.stringify('😀'.repeat(50_000)))).toEqual([200, '😀'.repeat(1024)])
    expect(await fail('"\\u0000"')).toEqual([200, '\u0000'])
    for (const error of ['{"a":1}', '5', '[]', 'true', 'null'])
      expect(await fail(error)).toEqual([400, undefined])
  })

  test('are seen by no token without observe:payload, wherever a job is told of', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id } = (await post(api, queue, 'jobs', { payload: 'SECRET-1', maxAttempts: 0 })).json
    for (const token of [1, 2, 3]) {
      await post(api, queue, 'claim', { limit: 1 })
      await post(api, queue, `jobs/${id}/retry`, { token, delayMs: 0, error: 'SECRET-2' })
      await post(api, queue, 'promote')
    }
    await post(api, queue, 'claim', { limit: 1 })
    await post(api, queue, `jobs/${id}/fail`, { token: 4, error: 'SECRET-2' })
    for (const path of ['', '/jobs?state=dead', `/jobs/${id}`, `/jobs/${id}?payload=false`]) {
      const answer = await api.call('GET', `/v1/queues/${queue}${path}`, undefined, { token: TOKENS.counter })
      expect(answer.status, path).toBe(200)
      expect(answer.text, path).not.toMatch(/SECRET/)
    }
    // Whoever consumes sees payloads, that is its work; error texts of others it does not.
    await post(api, queue, `jobs/${id}/redrive`)
    const claimed = await api.call(
      'POST',
      `/v1/queues/${queue}/claim`,
      { limit: 1 },
      { token: TOKENS.consumer },
    )
    expect(claimed.text).toContain('SECRET-1')
    expect(claimed.text).not.toContain('SECRET-2')
    // A dry run tells how many, not what.
    await post(api, queue, `jobs/${id}/fail`, { token: 5, error: 'SECRET-2' })
    const dry = await post(api, queue, 'redrive', { dryRun: true, errorContains: 'SECRET' })
    expect(dry.json).toMatchObject({ redriven: 1 })
    expect(dry.text).not.toContain('SECRET-2')
  })
})
