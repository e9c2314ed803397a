/** The rules of every route: which ones exist, who may call them, the order of their checks, and their responses. */
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/app.ts'
import { type Api, type ApiAnswer, apiOn, freshQueue, TOKENS, tokenEntry } from '../support/api.ts'
import { sharedRedis, withoutRedis } from '../support/redis.ts'

const shared = sharedRedis()

const ID = 'JOB0KHTOWnGLuC'

/** The routes of the contract: method, path, scope, a valid body, and the status that it returns on an unused queue. */
const TABLE = [
  ['POST', '/v1/queues/{queue}/jobs', 'produce', { payload: 1 }, 201],
  ['POST', '/v1/queues/{queue}/claim', 'consume', { limit: 1 }, 200],
  ['POST', '/v1/queues/{queue}/jobs/{id}/complete', 'consume', { token: 1 }, 410],
  ['POST', '/v1/queues/{queue}/jobs/{id}/retry', 'consume', { token: 1 }, 410],
  ['POST', '/v1/queues/{queue}/jobs/{id}/fail', 'consume', { token: 1 }, 410],
  ['POST', '/v1/queues/{queue}/jobs/{id}/release', 'consume', { token: 1 }, 410],
  ['POST', '/v1/queues/{queue}/jobs/{id}/extend', 'consume', { token: 1, leaseMs: 1000 }, 410],
  [
    'POST',
    '/v1/queues/{queue}/settle',
    'consume',
    { items: [{ id: 'JOB0KHTOWnGLuC', action: 'complete', token: 1 }] },
    200,
  ],
  ['GET', '/v1/queues', 'observe', undefined, 200],
  ['GET', '/v1/queues/{queue}', 'observe', undefined, 404],
  ['GET', '/v1/queues/{queue}/jobs', 'observe', undefined, 200],
  ['GET', '/v1/queues/{queue}/jobs/{id}', 'observe', undefined, 404],
  ['GET', '/metrics', 'observe', undefined, 200],
  ['POST', '/v1/queues/{queue}/promote', 'operate', {}, 200],
  ['POST', '/v1/queues/{queue}/reap', 'operate', {}, 200],
  ['POST', '/v1/maintenance', 'operate', {}, 200],
  ['POST', '/v1/queues/{queue}/jobs/{id}/redrive', 'operate', {}, 410],
  ['POST', '/v1/queues/{queue}/redrive', 'operate', {}, 200],
  ['PUT', '/v1/queues/{queue}/jobs/{id}/schedule', 'operate', { delayMs: 0 }, 410],
  ['DELETE', '/v1/queues/{queue}/jobs/{id}', 'operate', undefined, 410],
  ['POST', '/v1/queues/{queue}/purge', 'operate', { state: 'dead' }, 200],
  ['POST', '/v1/queues/{queue}/audit', 'operate', {}, 200],
  ['POST', '/v1/queues/{queue}/pause', 'operate', {}, 200],
  ['POST', '/v1/queues/{queue}/resume', 'operate', {}, 200],
  ['PUT', '/v1/queues/{queue}/settings', 'operate', {}, 200],
] as const

const SCOPE_TOKENS = {
  produce: 'scope-produce',
  consume: 'scope-consume',
  observe: 'scope-observe',
  'observe:payload': 'scope-payload',
  operate: 'scope-operate',
} as const
type ScopeName = keyof typeof SCOPE_TOKENS
const SCOPES = Object.keys(SCOPE_TOKENS) as ScopeName[]

const GRANTS: Record<ScopeName, readonly string[]> = {
  produce: ['produce'],
  consume: ['consume'],
  observe: ['observe'],
  'observe:payload': ['observe'],
  operate: ['produce', 'consume', 'observe', 'operate'],
}

const EMQ_TOKENS = JSON.stringify([
  ...SCOPES.map((scope) => tokenEntry(SCOPE_TOKENS[scope], [scope])),
  tokenEntry('elsewhere', SCOPES, ['other', 'orders.*']),
])
const OPERATE = { token: SCOPE_TOKENS.operate }

describe('the table of routes', () => {
  test('the app serves exactly the routes of the contract', () => {
    const served = ROUTES.map(({ method, path, scope }) => `${method} ${path} ${scope}`)
    const agreed = TABLE.map(([method, path, scope]) => `${method} ${path} ${scope}`)
    expect(served.sort()).toEqual(agreed.sort())
    expect(new Set(ROUTES.map(({ operationId }) => operationId)).size).toBe(ROUTES.length)
  })

  test.each(TABLE)('%s %s accepts a valid request', async (method, path, _scope, body, status) => {
    const answer = await scopedApi().call(method, at(path, freshQueue()), body, OPERATE)
    expect(answer.status).toBe(status)
    if (status >= 400) expect(answer.json.code).toBe(status === 404 ? 'not_found' : 'gone')
  })

  test.each(TABLE)(
    '%s %s checks a request in the documented order without a request to Redis',
    async (method, path, scope, body) => {
      const api = scopedApi()
      const queue = freshQueue()
      const named = path.includes('{queue}')
      const withId = path.includes('{id}')
      const withBody = body !== undefined
      const broken = withBody ? '{"wrong":' : undefined
      const lacking = SCOPES.filter((name) => !GRANTS[name].includes(scope))

      await withoutRedis(shared, async () => {
        // Everything is wrong at once: the first check in the order decides.
        const noToken = await api.call('PATCH', `${at(path, 'a}b', 'x')}?x=1&x=2`, '{', { token: null })
        expect(code(noToken)).toBe('401 unauthorized')
        expect(noToken.headers.get('WWW-Authenticate')).toBe('Bearer')

        const wrongMethod = await api.call('PATCH', `${at(path, 'a}b', 'x')}?x=1`, '{', {
          token: 'elsewhere',
        })
        expect(code(wrongMethod)).toBe('405 method_not_allowed')
        expect(wrongMethod.headers.get('Allow')?.split(', ')).toContain(method)

        if (named) {
          const badQueue = await api.call(method, `${at(path, 'a}b', 'x')}?x=1`, broken, {
            token: 'elsewhere',
          })
          expect(code(badQueue)).toBe('400 invalid')
          expect(fields(badQueue)).toEqual(['queue'])

          const otherQueue = await api.call(method, `${at(path, queue, 'x')}?x=1`, broken, {
            token: 'elsewhere',
          })
          expect(code(otherQueue)).toBe('403 forbidden')
        }
        for (const name of lacking) {
          const noScope = await api.call(method, `${at(path, queue, 'x')}?x=1`, broken, {
            token: SCOPE_TOKENS[name],
          })
          expect(code(noScope), name).toBe('403 forbidden')
        }
        if (withId) {
          const badId = await api.call(method, `${at(path, queue, 'x')}?x=1`, broken, OPERATE)
          expect(code(badId)).toBe('400 invalid')
          expect(fields(badId)).toEqual(['id'])
          const otherKind = await api.call(
            method,
            `${at(path, queue, 'ABC0KHTOWnGLuC')}?x=1`,
            broken,
            OPERATE,
          )
          expect(code(otherKind)).toBe('422 wrong_kind')
        }
        for (const query of ['x=1', 'cursor=1&cursor=2', '__proto__=1', '=', 'limit=5&limit=5']) {
          const badQuery = await api.call(method, `${at(path, queue)}?${query}`, broken, OPERATE)
          expect(code(badQuery), query).toBe('400 invalid')
          expect(fields(badQuery), query).toEqual([query.split('=')[0]])
        }
        if (withBody)
          expect(code(await api.call(method, at(path, queue), broken, OPERATE))).toBe('400 invalid')
      })
    },
  )

  test.each(TABLE)(
    '%s %s is allowed with exactly the scopes that grant it',
    async (method, path, scope, body, status) => {
      const api = scopedApi()
      for (const name of SCOPES) {
        const answer = await api.call(method, at(path, freshQueue()), body, { token: SCOPE_TOKENS[name] })
        if (GRANTS[name].includes(scope)) expect(answer.status, name).toBe(status)
        else expect(code(answer), name).toBe('403 forbidden')
      }
    },
  )

  test('a queue pattern is an exact name or a prefix with a final star', async () => {
    const api = scopedApi()
    const suffix = freshQueue()
    const get = (queue: string) => api.call('POST', `/v1/queues/${queue}/claim`, {}, { token: 'elsewhere' })
    expect((await get('other')).status).toBe(200)
    expect((await get(`orders.${suffix}`)).status).toBe(200)
    for (const queue of [`other${suffix}`, 'others', 'orders', `xorders.${suffix}`])
      expect(code(await get(queue)), queue).toBe('403 forbidden')
  })
})

describe('routing', () => {
  test.each([
    '/',
    '/v1',
    '/v1/',
    '/v1/queues/',
    '/v1/queue/q/jobs',
    '/v2/queues/q/jobs',
    '/v1/queues/q/jobs/',
    '/v1/queues//jobs',
    '/v1/queues/q/claim/',
    '/v1/queues/q/nonsense',
    `/v1/queues/q/jobs/${ID}/`,
    `/v1/queues/q/jobs/${ID}/nonsense`,
    '/metrics/',
    '/healthz/',
    '/V1/queues/q/jobs',
    '//v1/queues/q/jobs',
  ])('%s returns 404 for every method without a token', async (path) => {
    await withoutRedis(shared, async () => {
      for (const method of ['GET', 'POST', 'DELETE', 'PATCH'])
        expect(code(await scopedApi().call(method, path, undefined, { token: null })), method).toBe(
          '404 not_found',
        )
    })
  })

  test.each([
    ['PUT', '/v1/queues/q/jobs', 'GET, HEAD, POST'],
    ['DELETE', '/v1/queues/q/jobs', 'GET, HEAD, POST'],
    ['PATCH', '/v1/queues/q/jobs', 'GET, HEAD, POST'],
    ['GET', '/v1/queues/q/claim', 'POST'],
    ['HEAD', '/v1/queues/q/claim', 'POST'],
    ['POST', '/v1/queues', 'GET, HEAD'],
    ['POST', '/v1/queues/q', 'GET, HEAD'],
    ['POST', `/v1/queues/q/jobs/${ID}`, 'DELETE, GET, HEAD'],
    ['POST', '/v1/queues/q/settings', 'PUT'],
    ['GET', '/v1/queues/q/settings', 'PUT'],
    ['OPTIONS', '/v1/queues/q/settings', 'PUT'],
    ['POST', `/v1/queues/q/jobs/${ID}/schedule`, 'PUT'],
    ['POST', '/metrics', 'GET, HEAD'],
    ['GET', '/v1/maintenance', 'POST'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['DELETE', '/readyz', 'GET, HEAD'],
  ])('%s %s returns 405 and allows %s', async (method, path, allowed) => {
    await withoutRedis(shared, async () => {
      const answer = await scopedApi().call(method, path, undefined, OPERATE)
      expect(answer.status).toBe(405)
      expect(answer.headers.get('Allow')?.split(', ').sort().join(', ')).toBe(allowed)
      if (method !== 'HEAD') expect(answer.json.code).toBe('method_not_allowed')
    })
  })

  test('HEAD returns the response of GET without a body and changes nothing', async () => {
    const api = scopedApi()
    const queue = freshQueue()
    const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1 }, OPERATE)).json
    for (const path of [
      `/v1/queues/${queue}`,
      `/v1/queues/${queue}/jobs`,
      `/v1/queues/${queue}/jobs/${id}`,
    ]) {
      const answer = await api.call('HEAD', path, undefined, { ...OPERATE, headers: {} })
      expect(answer.status, path).toBe(200)
      expect(answer.text).toBe('')
      expect(answer.headers.get('Cache-Control')).toBe('no-store')
    }
    expect((await api.call('HEAD', `/v1/queues/${queue}/jobs/${ID}`, undefined, OPERATE)).status).toBe(404)
    expect((await api.call('GET', `/v1/queues/${queue}`, undefined, OPERATE)).json.counts.pending).toBe(1)
  })

  test('a path segment is decoded once, for routing, scopes and keys alike', async () => {
    const api = apiOn(shared, {
      EMQ_TOKENS: JSON.stringify([tokenEntry('one', ['operate'], ['q1'])]),
    })
    const one = { token: 'one' }
    expect((await api.call('POST', '/v1/queues/%71%31/jobs', { payload: 1 }, one)).status).toBe(201)
    expect((await api.call('GET', '/v1/queues/q1', undefined, one)).json.counts.pending).toBe(1)
    expect(code(await api.call('GET', '/v1/queues/%71%32', undefined, one))).toBe('403 forbidden')
    const id = (await api.call('GET', '/v1/queues/q1/jobs', undefined, one)).json.jobs[0].id
    const coded = id.replace('JOB', '%4AO%42')
    expect((await api.call('GET', `/v1/%71ueues/q1/jobs/${coded}`, undefined, one)).json.id).toBe(id)
  })
})

describe('the body', () => {
  const path = (): string => `/v1/queues/${freshQueue()}/jobs`
  const send = (body: string | undefined, type: string | undefined) =>
    scopedApi().call('POST', path(), body, {
      ...OPERATE,
      headers: type === undefined ? {} : { 'Content-Type': type },
    })

  test.each(['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;'])(
    'a body of type %s is accepted',
    async (type) => {
      expect((await send('{"payload":1}', type)).status).toBe(201)
    },
  )

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'text/json', ''])(
    'a body of type %j is rejected with 415',
    async (type) => {
      await withoutRedis(shared, async () => {
        expect(code(await send('{"payload":1}', type))).toBe('415 unsupported_media_type')
        // The type is checked before the fields.
        expect(code(await send('{"payload":1,"delay":5}', type))).toBe('415 unsupported_media_type')
      })
    },
  )

  test.each([
    '',
    '{',
    'null',
    '[]',
    '"x"',
    '5',
    'true',
    '{"payload":1}garbage',
    '\ufeff{"payload":1}',
    '{}{}',
  ])('the body %j is rejected as problem details (fault 39)', async (body) => {
    await withoutRedis(shared, async () => {
      for (const [method, target] of [
        ['POST', path()],
        ['POST', `/v1/queues/q/jobs/${ID}/complete`],
        ['PUT', `/v1/queues/q/jobs/${ID}/schedule`],
        ['POST', '/v1/queues/q/settle'],
        ['POST', '/v1/queues/q/purge'],
        // All fields are optional here: an empty body would be valid.
        ['POST', '/v1/queues/q/pause'],
        ['POST', '/v1/queues/q/claim'],
        ['PUT', '/v1/queues/q/settings'],
        ['POST', '/v1/maintenance'],
      ] as const) {
        if (body === '' && /pause|claim|settings|maintenance/.test(target)) continue
        const answer = await scopedApi().call(method, target, body, OPERATE)
        expect(code(answer), target).toBe('400 invalid')
        expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
      }
    })
  })

  test('a missing body means {} if all fields are optional and is rejected otherwise', async () => {
    const api = scopedApi()
    for (const [method, route, , body, status] of TABLE) {
      if (body === undefined) continue
      const answer = await api.call(method, at(route, freshQueue()), undefined, OPERATE)
      const allOptional = Object.keys(body).length === 0 || route.endsWith('/claim')
      if (allOptional) expect(answer.status, route).toBe(status)
      else expect(code(answer), route).toBe('400 invalid')
    }
  })

  test('unknown fields are rejected by name, and only plain names are repeated', async () => {
    const api = scopedApi()
    await withoutRedis(shared, async () => {
      for (const [method, route, , body] of TABLE) {
        if (body === undefined) continue
        const answer = await api.call(method, at(route, freshQueue()), { ...body, delay: 5 }, OPERATE)
        expect(code(answer), route).toBe('400 invalid')
        expect(fields(answer), route).toContain('delay')
      }
      for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
        const answer = await api.call('POST', path(), `{"payload":1,"${name}":{"delayMs":5}}`, OPERATE)
        expect(fields(answer), name).toEqual([name])
      }
      const secret = await api.call('POST', path(), '{"payload":1,"SECRET-1 \\n":5}', OPERATE)
      expect(code(secret)).toBe('400 invalid')
      expect(secret.text).not.toContain('SECRET-1')
      const flood = Object.fromEntries(Array.from({ length: 10_000 }, (_, nth) => [`f${nth}`, nth]))
      const flooded = await api.call('POST', path(), flood, OPERATE)
      expect(code(flooded)).toBe('400 invalid')
      expect(flooded.text.length).toBeLessThan(5_000)
    })
  })

  test('a body above the limit returns 413, whatever its Content-Length says', async () => {
    const api = scopedApi({ EMQ_MAX_BODY_BYTES: '100' })
    const ofBytes = (bytes: number): string => `{"text":"${'é'.repeat((bytes - 11) / 2)}" }`
    expect(Buffer.byteLength(ofBytes(99))).toBe(100)
    expect((await api.call('POST', path(), ofBytes(99), OPERATE)).status).toBe(201)
    await withoutRedis(shared, async () => {
      expect(code(await api.call('POST', path(), `${ofBytes(99)} `, OPERATE))).toBe('413 too_large')
      const lying = await api.call('POST', path(), `${ofBytes(99)} `, {
        ...OPERATE,
        headers: { 'Content-Length': '2' },
      })
      expect(code(lying)).toBe('413 too_large')
      expect(code(await api.call('POST', '/v1/queues/q/pause', ' '.repeat(101), OPERATE))).toBe(
        '413 too_large',
      )
    })
  })

  test('the default limit of a body is 5 MiB', async () => {
    const api = scopedApi()
    const limit = 5 * 1024 * 1024
    await withoutRedis(shared, async () => {
      expect(code(await api.call('POST', path(), ' '.repeat(limit + 1), OPERATE))).toBe('413 too_large')
    })
    const text = JSON.stringify({ payload: 1 })
    expect((await api.call('POST', path(), text + ' '.repeat(limit - text.length), OPERATE)).status).toBe(201)
  })
})

describe('the order of rejections', () => {
  /** Each request also breaks every later rule that it can. */
  const ORDER: readonly (readonly [string, string, string, string | null, string])[] = [
    ['404 not_found', 'PATCH', '/v1/nonsense/a!b', null, 'x'],
    ['401 unauthorized', 'PATCH', '/v1/queues/a!b/jobs/x/complete?y=1', null, 'x'],
    ['405 method_not_allowed', 'PATCH', '/v1/queues/a!b/jobs/x/complete?y=1', TOKENS.producer, 'x'],
    ['400 invalid queue', 'POST', '/v1/queues/a!b/jobs/x/complete?y=1', TOKENS.producer, 'x'],
    ['403 forbidden', 'POST', '/v1/queues/q/jobs/x/complete?y=1', TOKENS.producer, 'x'],
    ['400 invalid id', 'POST', '/v1/queues/q/jobs/x/complete?y=1', TOKENS.operator, 'x'],
    ['400 invalid y', 'POST', `/v1/queues/q/jobs/${ID}/complete?y=1`, TOKENS.operator, 'x'],
    ['415 unsupported_media_type', 'POST', `/v1/queues/q/jobs/${ID}/complete`, TOKENS.operator, 'x'],
  ]
  const ofType = (type: string) => ({ token: TOKENS.operator, headers: { 'Content-Type': type } })

  test.each(ORDER)('%s: %s %s', async (expected, method, path, token, body) => {
    const api = apiOn(shared, { EMQ_MAX_BODY_BYTES: '100' })
    await withoutRedis(shared, async () => {
      const large = body.repeat(101)
      const answer = await api.call(method, path, large, { ...ofType('text/plain'), token })
      const [field] = answer.json.errors ?? []
      expect([answer.status, answer.json.code, field?.path].filter(Boolean).join(' ')).toBe(expected)
    })
  })

  test('a body that is too large is rejected before it is parsed', async () => {
    const api = apiOn(shared, { EMQ_MAX_BODY_BYTES: '100' })
    await withoutRedis(shared, async () => {
      const send = (body: string) =>
        api.call('POST', `/v1/queues/q/jobs/${ID}/complete`, body, ofType('application/json'))
      expect((await send('x'.repeat(101))).json.code).toBe('too_large')
      expect((await send('x'.repeat(100))).json.code).toBe('invalid')
    })
  })
})

describe('every response', () => {
  /** One request for each way in which a request can end. */
  const ENDINGS: readonly (readonly [number, string, string, unknown, string | null])[] = [
    [200, 'GET', '/healthz', undefined, null],
    [200, 'GET', '/readyz', undefined, null],
    [200, 'GET', '/metrics', undefined, TOKENS.operator],
    [200, 'GET', '/v1/queues', undefined, TOKENS.operator],
    [200, 'POST', '/v1/queues/every/claim', {}, TOKENS.operator],
    [201, 'POST', '/v1/queues/every/jobs', { payload: 1 }, TOKENS.operator],
    [400, 'POST', '/v1/queues/every/jobs', {}, TOKENS.operator],
    [401, 'GET', '/v1/queues', undefined, null],
    [403, 'GET', '/v1/queues', undefined, TOKENS.producer],
    [404, 'GET', '/nonsense', undefined, null],
    [404, 'GET', `/v1/queues/every/jobs/${ID}`, undefined, TOKENS.operator],
    [405, 'DELETE', '/v1/queues', undefined, TOKENS.operator],
    [410, 'POST', `/v1/queues/every/jobs/${ID}/complete`, { token: 1 }, TOKENS.operator],
    [410, 'DELETE', `/v1/queues/every/jobs/${ID}`, undefined, TOKENS.operator],
    [413, 'POST', '/v1/queues/every/jobs', { text: 'x'.repeat(300_000) }, TOKENS.operator],
    [422, 'GET', '/v1/queues/every/jobs/ABC0KHTOWnGLuC', undefined, TOKENS.operator],
  ]

  test.each(ENDINGS)(
    'the %i of %s %s has the common headers and shape',
    async (status, method, path, body, token) => {
      const api = apiOn(shared)
      const answer = await api.call(method, path, body, {
        token,
        headers: { 'X-Request-Id': 'my-request.1' },
      })
      expect(answer.status).toBe(status)
      expect(answer.headers.get('Cache-Control')).toBe('no-store')
      // Fault 197.
      expect(answer.headers.get('X-Content-Type-Options')).toBe('nosniff')
      expect(answer.headers.get('Referrer-Policy')).toBe('no-referrer')
      expect(answer.headers.get('X-Request-Id')).toBe('my-request.1')
      if (status >= 400) {
        expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
        expect(answer.json).toMatchObject({ status, requestId: 'my-request.1' })
        for (const field of ['type', 'title', 'detail', 'code'])
          expect(answer.json[field], field).toEqual(expect.any(String))
      }
    },
  )

  test('a response has a new request id if the caller sent no valid one', async () => {
    const api = apiOn(shared)
    const idOf = async (sent?: string) => {
      const headers = sent === undefined ? {} : { 'X-Request-Id': sent }
      return (await api.call('GET', '/healthz', undefined, { token: null, headers })).headers.get(
        'X-Request-Id',
      )
    }
    const ids = [
      await idOf(),
      await idOf(),
      await idOf('a b'),
      await idOf('x'.repeat(129)),
      await idOf('<b>'),
    ]
    expect(new Set(ids).size).toBe(5)
    for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(await idOf('x'.repeat(128))).toBe('x'.repeat(128))
  })

  test('a response ignores validators and ranges and is never 304 or 206', async () => {
    const api = apiOn(shared)
    const answer = await api.call('GET', '/v1/queues', undefined, {
      headers: { 'If-None-Match': '*', 'If-Modified-Since': new Date().toUTCString(), Range: 'bytes=0-1' },
    })
    expect(answer.status).toBe(200)
    expect(answer.json.queues).toEqual(expect.any(Array))
  })
})

function scopedApi(env: Record<string, string> = {}): Api {
  return apiOn(shared, { EMQ_TOKENS, ...env })
}

function at(path: string, queue: string, id = ID): string {
  return path.replace('{queue}', queue).replace('{id}', id)
}

function code(answer: ApiAnswer): string {
  return `${answer.status} ${answer.json?.code}`
}

/** The paths of the fields that the response names. */
function fields(answer: ApiAnswer): string[] {
  return (answer.json?.errors ?? []).map((error: { path: string }) => error.path)
}
