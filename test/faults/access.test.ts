/** Faults 46 to 48: names, bearer tokens, and error texts that carry what they should not. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { apiOn, TOKENS } from '../support/api.ts'
import { queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'
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

  test.each(NAMES)(
    'the name %j is rejected in every path and setting without a request to Redis',
    async (name) => {
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
      // A comma separates two names.
      if (name !== 'a,b') expect([listed.status, listed.json.code]).toEqual([503, 'misconfigured'])
      const cursor = await apiOn(shared).call('GET', `/v1/queues?cursor=${path}`)
      expect(cursor.status).toBe(400)
      expect((await shared.bridge.counts()).requests - before).toBe(name === 'a,b' ? 3 : 0)
    },
  )

  test('a path with an empty queue name returns 404', async () => {
    expect((await apiOn(shared).call('POST', '/v1/queues//jobs', { payload: 1 })).status).toBe(404)
  })

  test.each(['a', 'A0', 'a.b-c_d', '0', 'emq2', 'EMQ', 'x'.repeat(128)])(
    'the name %s is valid',
    async (name) => {
      const api = apiOn(shared)
      const queue = queueOn(api, name)
      const id = await queue.enqueue()
      expect(await raw.run('ZSCORE', `emq:{${name}}:pending`, id)).not.toBeNull()
      await queue.post('purge', { state: 'pending' })
    },
  )

  test('the list of queues omits names in the registry that are not queue names', async () => {
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

  test.each([`bearer ${T}`, `BEARER  ${T}`, `Bearer ${T}`])('the header %j is accepted', async (header) => {
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
  ])('the header %.40j returns 401 without a request to Redis', async (header) => {
    const before = (await shared.bridge.counts()).requests
    const answer = await ask(header)
    expect(answer.status).toBe(401)
    expect(answer.headers.get('WWW-Authenticate')).toBe('Bearer')
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test('two headers, a token in the query and a token in a cookie return 401', async () => {
    expect((await ask(`Bearer ${T}`, `Bearer ${T}`)).status).toBe(401)
    expect((await app().request(`/v1/queues?token=${T}&_token=${T}&access_token=${T}`)).status).toBe(401)
    expect((await app().request('/v1/queues', { headers: { Cookie: `token=${T}` } })).status).toBe(401)
  })

  test('two tokens of one name are both valid until one is removed', async () => {
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
  test('an error text of 200 kB is cut, a zero byte is kept, and other types are rejected', async () => {
    const queue = queueOn(apiOn(shared))
    const fail = async (error: string) => {
      const { id } = (await queue.post('jobs', { payload: 1 })).json
      await queue.post('claim', { limit: 1 })
      const answer = await queue.post(`jobs/${id}/fail`, `{"token":1,"error":${error}}`)
      const { lastError } = (await queue.get(`jobs/${id}`)).json
      if (answer.status !== 200) await queue.post(`jobs/${id}/complete`, { token: 1 })
      return [answer.status, lastError]
    }
    expect(await fail(JSON.stringify('é'.repeat(100_000)))).toEqual([200, 'é'.repeat(2048)])
    expect(await fail(JSON.stringify('😀'.repeat(50_000)))).toEqual([200, '😀'.repeat(1024)])
    expect(await fail('"\\u0000"')).toEqual([200, '\u0000'])
    for (const error of ['{"a":1}', '5', '[]', 'true', 'null'])
      expect(await fail(error)).toEqual([400, undefined])
  })

  test('payloads and error texts are returned only to tokens with observe:payload, and payloads to consumers', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const { id } = (await queue.post('jobs', { payload: 'SECRET-1', maxAttempts: 0 })).json
    for (const token of [1, 2, 3]) {
      await queue.post('claim', { limit: 1 })
      await queue.post(`jobs/${id}/retry`, { token, delayMs: 0, error: 'SECRET-2' })
      await queue.post('promote')
    }
    await queue.post('claim', { limit: 1 })
    await queue.post(`jobs/${id}/fail`, { token: 4, error: 'SECRET-2' })
    for (const path of ['', '/jobs?state=dead', `/jobs/${id}`, `/jobs/${id}?payload=false`]) {
      const answer = await api.call('GET', `${queue.path}${path}`, undefined, { token: TOKENS.counter })
      expect(answer.status, path).toBe(200)
      expect(answer.text, path).not.toMatch(/SECRET/)
    }
    // A consumer receives payloads, which it needs, but no error texts.
    await queue.post(`jobs/${id}/redrive`)
    const claimed = await queue.post('claim', { limit: 1 }, { token: TOKENS.consumer })
    expect(claimed.text).toContain('SECRET-1')
    expect(claimed.text).not.toContain('SECRET-2')
    // A dry run returns a number and no texts.
    await queue.post(`jobs/${id}/fail`, { token: 5, error: 'SECRET-2' })
    const dry = await queue.post('redrive', { dryRun: true, errorContains: 'SECRET' })
    expect(dry.json).toMatchObject({ redriven: 1 })
    expect(dry.text).not.toContain('SECRET-2')
  })
})
