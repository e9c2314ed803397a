/** Every field and parameter of the API: its range, and that others are rejected by name without a request to Redis. */
import { describe, expect, test } from 'vitest'
import { type Api, type ApiAnswer, apiOn, freshQueue } from '../support/api.ts'
import { sharedRedis, withoutRedis } from '../support/redis.ts'

const shared = sharedRedis()

const ID = 'JOB0KHTOWnGLuC'
const DAYS_366 = 31_622_400_000
const LEASE = [10, 86_400_000] as const
const DELAY = [0, DAYS_366] as const
const ATTEMPTS = [0, 1000] as const
const MOVE = [1, 1000] as const
const CAP = [0, 10_000_000] as const
const TOKEN = [0, Number.MAX_SAFE_INTEGER] as const

type Route = readonly [method: string, path: string, body: object]
const ENQUEUE: Route = ['POST', 'jobs', { payload: 1 }]
const CLAIM: Route = ['POST', 'claim', { limit: 1 }]
const move = (action: string, body: object = {}): Route => [
  'POST',
  `jobs/${ID}/${action}`,
  { token: 1, ...body },
]
const SETTLE: Route = [
  'POST',
  'settle',
  { items: [{ id: ID, action: 'complete', token: 1 }], claim: { limit: 1 } },
]
const SCHEDULE: Route = ['PUT', `jobs/${ID}/schedule`, {}]
const SETTINGS: Route = ['PUT', 'settings', {}]
const moveMany = (path: string, body: object = {}): Route => ['POST', path, body]

/** Route, integer field, its range, and whether null is a value. */
const INTEGERS: readonly [Route, string, readonly [number, number], nullable?: boolean][] = [
  [ENQUEUE, 'delayMs', DELAY],
  [ENQUEUE, 'maxAttempts', ATTEMPTS],
  [['POST', 'jobs', { payload: 1, idempotencyKey: 'k' }], 'idempotencyTtlMs', [1000, 604_800_000]],
  [CLAIM, 'leaseMs', LEASE],
  [['POST', 'claim', {}], 'leaseMs', LEASE],
  [CLAIM, 'limit', [1, 100]],
  [move('complete'), 'token', TOKEN],
  [move('retry'), 'token', TOKEN],
  [move('retry'), 'delayMs', DELAY],
  [move('retry'), 'maxAttempts', ATTEMPTS],
  [move('fail'), 'token', TOKEN],
  [move('release'), 'token', TOKEN],
  [move('release'), 'delayMs', DELAY],
  [move('extend', { leaseMs: 1000 }), 'token', TOKEN],
  [move('extend'), 'leaseMs', LEASE],
  [SETTLE, 'claim.limit', [1, 100]],
  [SETTLE, 'claim.leaseMs', LEASE],
  [moveMany('promote'), 'limit', MOVE],
  [moveMany('reap'), 'limit', MOVE],
  [moveMany('redrive'), 'limit', MOVE],
  [moveMany('purge', { state: 'dead' }), 'limit', MOVE],
  [moveMany('audit'), 'limit', MOVE],
  [SCHEDULE, 'delayMs', DELAY],
  [SETTINGS, 'maxAttempts', ATTEMPTS, true],
  [SETTINGS, 'backoff.baseMs', [1, 3_600_000], true],
  [SETTINGS, 'backoff.maxMs', [1, 86_400_000], true],
  [SETTINGS, 'leaseMs', LEASE, true],
  [SETTINGS, 'maxActive', CAP, true],
  [SETTINGS, 'maxPending', CAP, true],
]

describe('an integer field', () => {
  test.each(INTEGERS)(
    'in %j the integer %s is accepted from %j and rejected by name otherwise (faults 20 and 38)',
    async (route, field, [min, max], nullable = false) => {
      const queue = freshQueue()
      const body = (raw: string): string => withRaw(route[2], field, raw)
      const wrong = [
        ...[min - 1, max + 1, -1e15].map(String),
        ...['-1', `"${min}"`, '""', `${min + 1}.5`, '0.4', '1e400', '-1e400', '1e-1', '9007199254740993'],
        ...['true', 'false', '[]', `[${min}]`, '{}', ...(nullable ? [] : ['null'])],
        ...nearlyInteger(min + 1),
        ...['1e-400', '-1e-400', '1e-9999999999999999999999', '9007199254740993.0', '9.007199254740993e15'],
        ...['9007199254740991.4', '9007199254740991.5', '9007199254740992.5'],
      ]
      await withoutRedis(shared, async () => {
        const api = apiOn(shared)
        for (const raw of wrong) expectInvalid(await send(api, queue, route, body(raw)), field, raw)
      })
      const api = apiOn(shared)
      const right = [
        `${min}`,
        `${max}`,
        `${min + 1}`,
        `${min + 1}.0`,
        `${min + 1}e0`,
        `${min + 1}.${'0'.repeat(400)}`,
        `${min + 1}00e-2`,
        `0.0${min + 1}E+${String(min + 1).length + 1}`,
        ...(min <= 0 ? ['-0', '0e-400', '0.000E99999999999999999999'] : []),
        ...(nullable ? ['null'] : []),
      ]
      for (const raw of [...right, ...(min <= 1000 && max >= 1000 ? ['1e3', '1000.000'] : [])]) {
        const answer = await send(api, freshQueue(), route, body(raw))
        expect(answer.status, `${raw}: ${answer.text}`).toBe(statusOf(route))
      }
    },
  )

  test('waitMs is accepted from 0 to 60000 and rejected otherwise', async () => {
    const queue = freshQueue()
    await withoutRedis(shared, async () => {
      const api = apiOn(shared)
      for (const raw of ['-1', '60001', '"1"', '0.5', '1e-400', '1e400', 'true', 'null'])
        expectInvalid(await send(api, queue, CLAIM, withRaw(CLAIM[2], 'waitMs', raw)), 'waitMs', raw)
    })
    const api = apiOn(shared)
    for (const raw of ['0', '0.0', '60000', '6e4']) {
      await send(api, queue, ENQUEUE, '{"payload":1}')
      const answer = await send(api, queue, CLAIM, withRaw(CLAIM[2], 'waitMs', raw))
      expect(answer.json.jobs, raw).toHaveLength(1)
    }
  })
})

describe('a number that JSON.parse would make an integer', () => {
  test('an inexact integer is rejected with its job or item and not with the others', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const jobs =
      '{"payload":1},{"payload":1,"delayMs":1e-400},{"payload":1,"maxAttempts":1.00000000000000000001}'
    const { results } = (await send(api, queue, ENQUEUE, `{"jobs":[${jobs}]}`)).json
    expect(results).toMatchObject([
      { status: 'enqueued' },
      { error: { code: 'invalid', errors: [{ path: 'delayMs' }] } },
      { error: { code: 'invalid', errors: [{ path: 'maxAttempts' }] } },
    ])
    const item = (token: string) => `{"id":"${ID}","action":"complete","token":${token}}`
    const items = [item('1.00000000000000000001'), item('9007199254740993'), item('1.0')]
    const settled = await send(api, queue, SETTLE, `{"items":[${items.join(',')}]}`)
    expect(settled.json.results).toMatchObject([
      { id: ID, error: { code: 'invalid', errors: [{ path: 'token' }] } },
      { id: ID, error: { code: 'invalid' } },
      { id: ID, error: { code: 'gone' } },
    ])
  })

  test('an inexact integer in a payload is stored unchanged', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const payload =
      '{"delayMs":1.00000000000000000001,"jobs":[1e-400],"items":[{"token":0.99999999999999999999}]}'
    const { id } = (await send(api, queue, ENQUEUE, `{"payload":${payload}}`)).json
    expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).text).toContain(`"payload":${payload}`)
    const many = await send(api, queue, ENQUEUE, `{"jobs":[{"payload":${payload}},{"payload":1e-400}]}`)
    expect(many.json.results).toMatchObject([{ status: 'enqueued' }, { status: 'enqueued' }])
  })
})

const INSTANTS: readonly [Route, string][] = [
  [ENQUEUE, 'runAt'],
  [ENQUEUE, 'startBy'],
  [SCHEDULE, 'runAt'],
  [moveMany('redrive'), 'from'],
  [moveMany('redrive'), 'to'],
]
const WRONG_INSTANTS = [
  ...[
    '-1',
    '1.5',
    '1e400',
    '1e-400',
    '1893456000000.00000000001',
    '8640000000000001',
    'true',
    'null',
    '{}',
    '[]',
    '""',
    '"tomorrow"',
  ],
  // Not RFC 3339, or not with a zone.
  ...[
    '"2030-01-01"',
    '"2030-01-01T00:00:00"',
    '"2030-01-01T00:00Z"',
    '"2030-01-01 00:00:00Z"',
    '"20300101T000000Z"',
  ],
  ...['"2030-01-01T00:00:00+0200"', '"2030-01-01T00:00:00.Z"', '"2030-01-01T00:00:00,5Z"', '"1893456000000"'],
  ...[
    '" 2030-01-01T00:00:00Z"',
    '"2030-01-01T00:00:00Z\\n"',
    '"+012030-01-01T00:00:00Z"',
    '"2030-1-1T0:0:0Z"',
  ],
  // Not from 1970 to 9999, the zone applied: what is stored must come back as RFC 3339.
  ...[
    '253402300800000',
    '8640000000000000',
    '"9999-12-31T23:59:59-23:59"',
    '"9999-12-31T23:59:59.999-00:01"',
  ],
  ...['"0000-01-01T00:00:00Z"', '"0000-01-01T00:00:00+01:00"', '"1969-12-31T23:59:59.999Z"'],
  ...['"1970-01-01T00:00:00+00:01"', '"0001-01-01T00:00:00Z"'],
  // Instants that do not exist.
  ...['"2030-02-30T00:00:00Z"', '"2030-13-01T00:00:00Z"', '"2030-01-01T24:00:00Z"', '"2030-01-01T00:60:00Z"'],
  ...['"2030-01-01T00:00:00+24:00"', '"2029-02-29T00:00:00Z"', '"2030-01-01T00:00:00+23:60"'],
  ...['"2030-04-31T00:00:00Z"', '"2100-02-29T00:00:00Z"', '"2030-00-01T00:00:00Z"', '"2030-01-00T00:00:00Z"'],
  ...['"2016-12-31T23:59:60Z"', '"2030-01-01T00:00:00-24:00"', '"2030-01-01T25:00:00Z"'],
]

describe('an instant', () => {
  test.each(INSTANTS)(
    'in %j the instant %s is RFC 3339 with a zone or integer epoch ms',
    async (route, field) => {
      const queue = freshQueue()
      await withoutRedis(shared, async () => {
        const api = apiOn(shared)
        for (const raw of WRONG_INSTANTS)
          expectInvalid(await send(api, queue, route, withRaw(route[2], field, raw)), field, raw)
      })
      const api = apiOn(shared)
      const soon = new Date(Date.now() + 3_600_000).toISOString()
      const right = [
        ...[soon, soon.toLowerCase(), soon.replace('Z', '+02:00'), soon.replace('Z', '-00:00')],
        ...[soon.replace(/\.\d+/, ''), soon.replace(/\.\d+/, '.1'), soon.replace(/\.\d+/, '.123456789')],
        ...['2000-02-29T23:59:59Z', '1970-01-01T00:00:00Z', 0, Date.now()],
        ...['1969-12-31T23:00:00-01:00', '1970-01-01T23:59:00+23:59'],
        ...(field === 'runAt'
          ? []
          : [253_402_300_799_999, '9999-12-31T23:59:59.999999Z', '9999-12-31T22:59:59-01:00']),
      ]
      for (const value of right) {
        const answer = await send(api, queue, route, withRaw(route[2], field, JSON.stringify(value)))
        expect(answer.status, `${value}: ${answer.text}`).toBe(statusOf(route))
      }
    },
  )

  test('all notations of one instant are equal', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const at = Math.floor(Date.now() / 1000) * 1000 + 3_600_123
    const utc = new Date(at).toISOString()
    const east = new Date(at + 5.5 * 3_600_000).toISOString().replace('Z', '+05:30')
    for (const runAt of [at, utc, utc.toLowerCase(), utc.replace('Z', '456Z'), east]) {
      const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1, runAt })).json
      expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json.runAt, String(runAt)).toBe(utc)
    }
  })

  test('the first and the last instant are returned unchanged', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const startBy of ['1970-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']) {
      const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1, startBy })).json
      expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json.startBy).toBe(startBy)
    }
  })

  test('runAt is rejected if it is more than 366 days ahead', async () => {
    const now = Date.now()
    const ahead = (ms: number) => JSON.stringify({ payload: 1, runAt: now + ms })
    const at = (ms: number) => JSON.stringify({ runAt: now + ms })
    const fixed = { now: () => now }
    const queue = freshQueue()
    const before = (await shared.bridge.counts()).requests
    const fresh = apiOn(shared, {}, fixed)
    expectInvalid(await send(fresh, queue, ENQUEUE, ahead(DAYS_366 + 1)), 'runAt', 'enqueue')
    expectInvalid(await send(fresh, queue, SCHEDULE, at(DAYS_366 + 1)), 'runAt', 'schedule')
    const many = await send(fresh, queue, ENQUEUE, `{"jobs":[${ahead(DAYS_366 + 1)}]}`)
    expect(many.json.results[0].error).toMatchObject({ code: 'invalid', errors: [{ path: 'runAt' }] })
    expect((await shared.bridge.counts()).requests).toBe(before)

    expect((await send(fresh, queue, ENQUEUE, ahead(DAYS_366))).status).toBe(201)
    expect((await send(fresh, queue, SCHEDULE, at(DAYS_366))).status).toBe(410)
    const iso = new Date(now + DAYS_366).toISOString()
    expect((await send(fresh, queue, ENQUEUE, JSON.stringify({ text: '', runAt: iso }))).status).toBe(201)
  })
})

/** Route, field, and raw JSON that it is not. */
const OTHERS: readonly [Route, string, readonly string[]][] = [
  [
    ENQUEUE,
    'id',
    ['1', 'null', '""', '"job0KHTOWnGLuC"', '"JOBzzzzzzzzzzz"', '"JOB0KHTOWnGLu"', '"JOB0KHTOWnGLuC\\n"'],
  ],
  [ENQUEUE, 'idempotencyKey', ['1', 'null', '""', '"a b"', '"ä"', '"a\\n"', `"${'x'.repeat(256)}"`, '"{k}"']],
  [['POST', 'jobs', {}], 'text', ['1', 'null', 'true', '[]', '{}']],
  [CLAIM, 'as', ['1', 'null', '"TEXT"', '"base64"', '""']],
  [CLAIM, 'claimId', ['1', 'null', '""', '"a b"', `"${'x'.repeat(129)}"`, '"a\\n"']],
  [['POST', 'claim', {}], 'claimId', ['"c-1"']],
  [move('retry'), 'error', ['1', 'null', '{}', '["x"]', 'true']],
  [move('fail'), 'error', ['1', 'null', '{}', '["x"]', 'true']],
  [['POST', 'settle', {}], 'items', ['1', 'null', '{}', '[]', `[${Array(1001).fill('{}').join(',')}]`]],
  [SETTLE, 'claim', ['1', 'null', '[]']],
  [SETTLE, 'claim.waitMs', ['0', '1000']],
  [['POST', 'settle', { items: [{}], claim: { leaseMs: 1000 } }], 'claim.limit', ['null', '0']],
  [['POST', 'jobs', {}], 'jobs', ['1', 'null', '{}', '[]', `[${Array(1001).fill('{}').join(',')}]`]],
  [moveMany('purge'), 'state', ['1', 'null', '"active"', '"schedule"', '"Dead"', '""']],
  [moveMany('redrive'), 'errorContains', ['1', 'null', '""', `"${'x'.repeat(2049)}"`]],
  [moveMany('redrive'), 'dryRun', ['1', 'null', '"true"', '0']],
  [moveMany('redrive'), 'cursor', ['1', 'null', '""', '"x"', '"ABC0KHTOWnGLuC"']],
  [moveMany('audit'), 'repair', ['1', 'null', '"true"']],
  [
    moveMany('audit'),
    'cursor',
    ['1', 'null', '""', '"x"', '"rows:-1"', '"rows:18446744073709551616"', '"rows:"'],
  ],
  [SETTINGS, 'backoff', ['1', '"x"', '[]', 'true']],
  [SETTINGS, 'backoff.capMs', ['1']],
  [SETTINGS, 'paused', ['true']],
]

describe('any other field', () => {
  test.each(OTHERS)('in %j a malformed %s is rejected by name', async (route, field, wrong) => {
    await withoutRedis(shared, async () => {
      const api = apiOn(shared)
      for (const raw of wrong) {
        const answer = await send(api, freshQueue(), route, withRaw(route[2], field, raw))
        expectInvalid(answer, field, raw.slice(0, 80))
      }
    })
  })

  test('payload and text, and delayMs and runAt, exclude each other', async () => {
    await withoutRedis(shared, async () => {
      const api = apiOn(shared)
      const queue = freshQueue()
      for (const body of ['{}', '{"delayMs":1}', '{"payload":1,"text":"1"}', '{"payload":null,"text":""}'])
        expectInvalid(await send(api, queue, ENQUEUE, body), 'payload', body)
      const both = '"delayMs":1,"runAt":1'
      expectInvalid(await send(api, queue, ENQUEUE, `{"payload":1,${both}}`), 'runAt', both)
      expectInvalid(await send(api, queue, SCHEDULE, `{${both}}`), 'runAt', both)
      expectInvalid(await send(api, queue, SCHEDULE, '{}'), 'runAt', 'neither')
      expectInvalid(
        await send(api, queue, ENQUEUE, '{"jobs":[{"payload":1}],"payload":1}'),
        'payload',
        'jobs',
      )
    })
  })

  test('a body with a repeated key or half a surrogate pair is rejected (fault 21)', async () => {
    await withoutRedis(shared, async () => {
      const api = apiOn(shared)
      for (const body of [
        '{"payload":{"a":1,"a":2}}',
        '{"payload":{"a":1,"\\u0061":2}}',
        '{"payload":1,"payload":2}',
        '{"payload":1,"delayMs":5,"delayMs":6}',
        '{"payload":"\\ud800"}',
        '{"payload":{"\\udc00":1}}',
        '{"text":"\\ud83e"}',
      ])
        expect((await send(api, freshQueue(), ENQUEUE, body)).status, body).toBe(400)
      expect((await send(api, freshQueue(), move('fail'), '{"token":1,"error":"\\ud800"}')).status).toBe(400)
    })
  })
})

/** Path behind the queue, parameter, and texts that it is not. */
const PARAMETERS: readonly [string, string, readonly string[]][] = [
  [
    '',
    'limit',
    ['0', '201', '-1', '1.5', '1e2', 'x', '', '+5', ' 5', '1000000', '0x10', '9'.repeat(20), '٣'],
  ],
  ['/{q}/jobs', 'limit', ['0', '201', '-1', '2.5', '1e2', 'x', '', '"10"', '1000000', '9'.repeat(20)]],
  ['/{q}/jobs', 'state', ['', 'Pending', 'schedule', 'completed', 'pending,dead']],
  ['/{q}/jobs', 'order', ['', 'asc', 'NEWEST']],
  ['/{q}/jobs', 'payload', ['', '1', 'TRUE', 'yes']],
  ['/{q}/jobs', 'as', ['', 'base64', 'JSON']],
  [
    '/{q}/jobs',
    'from',
    ['', 'x', '-1', '1.5', '2030-01-01', '2030-01-01T00:00:00', '1e3', '253402300800000'],
  ],
  [
    '/{q}/jobs',
    'to',
    ['', 'x', '-1', '1.5', '2030-01-01', '2030-02-30T00:00:00Z', '9999-12-31T23:59:59-01:00'],
  ],
  [
    '/{q}/jobs',
    'cursor',
    ['', 'x', '0', `0:1:${ID}:x`, `0:1:ABC0KHTOWnGLuC`, `x:1:${ID}`, `e:1:${ID}`, `inf:1:${ID}`],
  ],
  ['/{q}/jobs', 'cursor', [`1e999:1:${ID}`, `..:1:${ID}`, `:1:${ID}`, `0:-1:${ID}`, `0::${ID}`, `0:1:`]],
  [`/{q}/jobs/${ID}`, 'payload', ['', '1', 'TRUE']],
  [`/{q}/jobs/${ID}`, 'as', ['', 'xml']],
  [`/{q}/jobs/${ID}`, 'limit', ['1']],
  ['/{q}', 'limit', ['1']],
  ['', 'cursor', ['', 'a b', 'emq', '{q}', 'x'.repeat(129)]],
  ['', 'state', ['pending']],
]

describe('a query parameter', () => {
  test.each(PARAMETERS)(
    'in /v1/queues%s a malformed parameter %s is rejected by name',
    async (path, name, wrong) => {
      await withoutRedis(shared, async () => {
        const api = apiOn(shared)
        for (const value of wrong) {
          const target = `/v1/queues${path.replace('{q}', freshQueue())}?${name}=${encodeURIComponent(value)}`
          expectInvalid(await api.call('GET', target), name, value)
        }
      })
    },
  )

  test.each(['active', 'scheduled'])('from and to are rejected in a list of %s jobs', async (state) => {
    await withoutRedis(shared, async () => {
      const api = apiOn(shared)
      for (const bound of ['from', 'to'])
        expectInvalid(await api.call('GET', `/v1/queues/q/jobs?state=${state}&${bound}=1`), bound, bound)
    })
  })

  test('valid query parameters and their limits are accepted', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const query of [
      ...['limit=1', 'limit=200', 'limit=%31', 'order=oldest', 'order=newest', 'payload=true', 'as=text'],
      ...[
        'state=pending&from=0&to=1',
        'state=dead&from=2020-01-01T00:00:00%2B02:00',
        'from=1&limit=5&order=oldest',
      ],
    ])
      expect((await api.call('GET', `/v1/queues/${queue}/jobs?${query}`)).status, query).toBe(200)
    for (const query of ['limit=1', 'limit=200', 'cursor=q'])
      expect((await api.call('GET', `/v1/queues?${query}`)).status, query).toBe(200)
  })
})

function send(api: Api, queue: string, [method, path]: Route, body: string): Promise<ApiAnswer> {
  return api.call(method, `/v1/queues/${queue}/${path}`, body)
}

/** The status of a valid request on a queue without the job of the route. */
function statusOf([, path]: Route): number {
  if (path === 'jobs') return 201
  return path.startsWith('jobs/') ? 410 : 200
}

function pathsOf(answer: ApiAnswer): string[] {
  return (answer.json?.errors ?? []).map((error: { path: string }) => error.path)
}

function expectInvalid(answer: ApiAnswer, path: string, what: string): void {
  expect(`${answer.status} ${answer.json?.code}`, what).toBe('400 invalid')
  expect(pathsOf(answer), what).toContain(path)
}

/** A body as text, with one member (`a.b` for one further in) set to raw JSON. */
function withRaw(base: object, path: string, raw: string): string {
  const [first = '', ...rest] = path.split('.')
  const members = Object.entries(base)
    .filter(([name]) => name !== first)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
  const inner = (base as Record<string, object | undefined>)[first] ?? {}
  const value = rest.length === 0 ? raw : withRaw(inner, rest.join('.'), raw)
  return `{${[...members, `${JSON.stringify(first)}:${value}`].join(',')}}`
}

/** Numbers that are not integers, but that JSON.parse reads as integers. */
function nearlyInteger(integer: number): string[] {
  return [
    `${integer}.00000000000000000001`,
    `${integer}.${'0'.repeat(400)}1`,
    `${integer - 1}.99999999999999999999`,
    `${integer}00.000000000000000000001e-2`,
    `${integer}${'0'.repeat(30)}1e-31`,
  ]
}
