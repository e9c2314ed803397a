/**
 * The OpenAPI document: complete, sound, and true. Each example is played against the running API; each answer is held
 * against the schema that the document gives for it.
 */
import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import * as fc from 'fast-check'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/app.ts'
import { ERRORS, type ErrorCode } from '../../src/errors.ts'
import { requestIdOf } from '../../src/http/request-id.ts'
import { isJobId } from '../../src/protocol/ids.ts'
import { isQueueName, keyspace } from '../../src/protocol/keys.ts'
import type { Command, RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { EXAMPLE_ID, EXAMPLE_QUEUE, EXAMPLES } from '../../src/reference/examples.ts'
import { openApiDocument } from '../../src/reference/openapi.ts'
import { type Api, type ApiAnswer, apiOn, TOKENS } from '../support/api.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()

// biome-ignore lint/suspicious/noExplicitAny: the document is looked at key by key, and a wrong one fails the test
type Json = any

const document: Json = JSON.parse(JSON.stringify(openApiDocument(ROUTES)))

type Operation = { readonly path: string; readonly method: string; readonly operation: Json }

const operations: readonly Operation[] = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
  Object.entries<Json>(item).map(([method, operation]) => ({ path, method, operation })),
)

const operationOf = (operationId: string): Operation => {
  const found = operations.find(({ operation }) => operation.operationId === operationId)
  if (found === undefined) throw new Error(`there is no operation ${operationId}`)
  return found
}

const ajv = new Ajv2020({ strict: false, allErrors: true })
formats.default(ajv)
ajv.addSchema(document, 'document')

const escaped = (segment: string): string => segment.replaceAll('~', '~0').replaceAll('/', '~1')

/** What is wrong with a value, by the schema at a place in the document. */
function wrongAt(value: unknown, ...segments: string[]): unknown[] {
  const $ref = `document#/${segments.map((segment) => encodeURIComponent(escaped(segment))).join('/')}`
  const validate = ajv.getSchema($ref) ?? ajv.compile({ $ref })
  return validate(value) ? [] : (validate.errors ?? ['?'])
}

/** The place of a response in the document, behind its reference. */
function responsePlace({ path, method, operation }: Operation, status: number): string[] {
  const response = operation.responses[status]
  expect(response, `${method} ${path} has no ${status}`).toBeDefined()
  const { $ref } = response
  return $ref === undefined
    ? ['paths', path, method, 'responses', String(status)]
    : $ref.slice('#/'.length).split('/')
}

const at = (place: readonly string[]): Json =>
  place.reduce((value: Json, segment) => value[segment], document)

/** Holds an answer against the response that the document gives for it. */
function expectDocumented(operation: Operation, answer: ApiAnswer): void {
  const place = responsePlace(operation, answer.status)
  const response = at(place)
  const name = `${operation.operation.operationId} ${answer.status}`
  for (const [header, reference] of Object.entries<Json>(response.headers)) {
    const { required, schema } = document.components.headers[reference.$ref.split('/').at(-1)]
    const value = answer.headers.get(header)
    if (required) expect(value, `${name} ${header}`).not.toBeNull()
    if (value !== null) {
      const typed = schema.type === 'integer' ? Number(value) : value
      expect(ajv.validate(schema, typed), `${name} ${header}: ${value}`).toBe(true)
    }
  }
  if (response.content === undefined) {
    expect(answer.text, name).toBe('')
    return
  }
  const [type = ''] = Object.keys(response.content)
  expect(answer.headers.get('Content-Type')?.split(';')[0], name).toBe(type)
  const body = answer.json ?? answer.text
  expect(wrongAt(body, ...place, 'content', type, 'schema'), `${name} ${answer.text}`).toEqual([])
}

/** Two answers that differ only in when they were given, and in ids that were made for them, are the same. */
function timeless(value: unknown): unknown {
  if (typeof value === 'string') {
    if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value)) return 'an instant'
    return value.replace(/JOB[0-9A-Za-z]{11}/g, 'a job').replace(/^(echomq_\w+_seconds\{.*\}) .*$/gm, '$1')
  }
  if (Array.isArray(value)) return value.map(timeless)
  if (typeof value !== 'object' || value === null) return value
  // Ages, hints that grow, and the jitter of the first backoff.
  const isVolatile = (key: string, member: unknown): boolean =>
    key === 'ageMs' || key === 'retryAfterMs' || (key === 'delayMs' && Number(member) < 1000)
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, isVolatile(key, member) ? key : timeless(member)]),
  )
}

let port: RedisPort
let api: Api
beforeAll(() => {
  port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
})
beforeEach(async () => {
  await port.send([['FLUSHALL']])
  // Nothing is remembered of the test before.
  api = apiOn(shared)
})

describe('the route', () => {
  test('answers the document to anybody, and to HEAD its head', async () => {
    const get = await api.call('GET', '/openapi.json', undefined, { token: null })
    expect(get).toMatchObject({ status: 200, json: document })
    expect(get.headers.get('Content-Type')).toBe('application/json')
    const head = await api.call('HEAD', '/openapi.json', undefined, { token: null })
    expect(head).toMatchObject({ status: 200, text: '' })
    expectDocumented(operationOf('openapi'), get)
  })

  test.each(['POST', 'PUT', 'DELETE'])('does not take %s', async (method) => {
    const answer = await api.call(method, '/openapi.json', undefined, { token: null })
    expect(answer.status).toBe(405)
    expect(answer.headers.get('Allow')).toBe('GET, HEAD')
  })

  test('asks Redis nothing, and is there without any configuration', async () => {
    const { status } = await apiOn(shared, { UPSTASH_REDIS_REST_URL: '' }).call('GET', '/openapi.json')
    expect(status).toBe(200)
  })
})

describe('the document', () => {
  test('has every route and nothing else', async () => {
    const known = operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`)
    const open = ['/healthz', '/readyz', '/openapi.json', '/docs'].map((path) => `GET ${path}`)
    expect(known.sort()).toEqual([...ROUTES.map(({ method, path }) => `${method} ${path}`), ...open].sort())
    for (const { path, method } of operations) {
      const real = path.replace('{queue}', EXAMPLE_QUEUE).replace('{id}', EXAMPLE_ID)
      const { status } = await api.call(method.toUpperCase(), real, undefined, { token: null })
      const expected = path.startsWith('/v1') || path === '/metrics' ? 401 : 200
      expect(status, `${method} ${path}`).toBe(expected)
    }
  })

  test('bears the version of the package', () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    expect(document.info.version).toBe(version)
  })

  test('names the scope of each operation, and no token where none is needed', () => {
    for (const route of ROUTES) {
      const { operation } = operationOf(route.operationId)
      expect(operation.security).toEqual([{ token: [route.scope] }])
      expect(operation.description).toContain(`Scope: \`${route.scope}\`.`)
    }
    for (const id of ['health', 'readiness', 'openapi', 'docs'])
      expect(operationOf(id).operation.security).toEqual([])
  })

  test('explains every error, each under its own status', () => {
    const explained = Object.values<Json>(document.components.responses).flatMap(({ description, content }) =>
      Object.entries<Json>(content['application/problem+json'].examples).map(([code, { value }]) => {
        expect(description).toContain(`\`${code}\`: `)
        expect(value).toMatchObject({ code, ...ERRORS[code as ErrorCode], type: `/docs#error-${code}` })
        return code
      }),
    )
    expect([...new Set(explained)].sort()).toEqual(Object.keys(ERRORS).sort())
  })

  test('tells the first and the last instant that may be sent', () => {
    const maximum = Date.parse('9999-12-31T23:59:59.999Z')
    const { startBy, runAt } = document.components.schemas.NewJob.properties
    for (const instant of [startBy, runAt])
      expect(instant.anyOf).toContainEqual({ type: 'integer', minimum: 0, maximum })
  })

  test('describes every operation, every parameter and every field of a request', () => {
    const undescribed: string[] = []
    const resolved = ({ $ref, ...schema }: Json): Json =>
      $ref === undefined ? schema : { ...at($ref.slice('#/'.length).split('/')), ...schema }
    const look = (part: Json, path: string): void => {
      const schema = resolved(part)
      for (const [name, member] of Object.entries<Json>(schema.properties ?? {})) {
        const target = resolved(member)
        const isPlain = ['jobs', 'items', 'action', 'backoff', 'state'].includes(name)
        if (target.description === undefined && !isPlain) undescribed.push(`${path}.${name}`)
      }
      for (const branch of schema.anyOf ?? []) look(branch, path)
    }
    for (const { operation } of operations) {
      if ((operation.description ?? '').length < 20) undescribed.push(operation.operationId)
      for (const parameter of operation.parameters)
        if (parameter.$ref === undefined && parameter.description === undefined)
          undescribed.push(`${operation.operationId}?${parameter.name}`)
      if (operation.requestBody !== undefined)
        look(operation.requestBody.content['application/json'].schema, operation.operationId)
    }
    expect(undescribed).toEqual([])
  })

  test.each([
    ['queue', isQueueName],
    ['id', isJobId],
    ['requestId', (text: string) => requestIdOf(new Headers({ 'X-Request-Id': text })) === text],
  ] as const)('has the pattern of %s as it is checked', async (name, isSound) => {
    const { schema } = document.components.parameters[name]
    const place = ['components', 'parameters', name, 'schema']
    expect(schema).toBeDefined()
    const nearly = fc.string({
      unit: fc.constantFrom('J', 'O', 'B', 'a', 'Z', '0', '.', '_', '-', ':', '{', 'é', ' '),
      maxLength: 20,
    })
    const texts = fc.oneof(
      nearly.filter((text) => /^[!-~]*$/.test(text)),
      fc.stringMatching(/^[A-Za-z0-9._-]{1,130}$/),
      // Ids stop below 2^63, which no pattern tells: these are below it.
      fc.stringMatching(/^JOB[0-9][A-Za-z0-9]{10}$/),
      fc.constantFrom('emq', 'x'.repeat(128), 'x'.repeat(129), 'JOB', `JOB${'0'.repeat(11)}`),
    )
    await fc.assert(
      fc.property(texts, (text) => {
        expect(wrongAt(text, ...place).length === 0).toBe(isSound(text))
      }),
      { numRuns: 500 },
    )
  })
})

/** The spec page, route by route: method, path, success statuses, errors of its own. */
const SPEC: readonly (readonly [string, string, readonly number[], readonly ErrorCode[]])[] = [
  ['post', '/v1/queues/{queue}/jobs', [200, 201], ['too_large', 'unsupported_media_type', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/claim', [200], ['too_large', 'unsupported_media_type']],
  ['post', '/v1/queues/{queue}/jobs/{id}/complete', [200], ['gone', 'stale', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/jobs/{id}/retry', [200], ['gone', 'stale', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/jobs/{id}/fail', [200], ['gone', 'stale', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/jobs/{id}/release', [200], ['gone', 'stale', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/jobs/{id}/extend', [200], ['gone', 'stale', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/settle', [200], ['too_large', 'unsupported_media_type']],
  ['get', '/v1/queues', [200], []],
  ['get', '/v1/queues/{queue}', [200], ['not_found']],
  ['get', '/v1/queues/{queue}/jobs', [200], []],
  ['get', '/v1/queues/{queue}/jobs/{id}', [200], ['not_found', 'wrong_kind']],
  ['get', '/metrics', [200], []],
  ['post', '/v1/queues/{queue}/promote', [200], []],
  ['post', '/v1/queues/{queue}/reap', [200], []],
  ['post', '/v1/maintenance', [200], []],
  ['post', '/v1/queues/{queue}/jobs/{id}/redrive', [200], ['gone', 'wrong_state', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/redrive', [200], []],
  ['put', '/v1/queues/{queue}/jobs/{id}/schedule', [200], ['gone', 'wrong_state', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/audit', [200], []],
  ['delete', '/v1/queues/{queue}/jobs/{id}', [204], ['gone', 'locked', 'wrong_kind']],
  ['post', '/v1/queues/{queue}/purge', [200], []],
  ['post', '/v1/queues/{queue}/pause', [200], []],
  ['post', '/v1/queues/{queue}/resume', [200], []],
  ['put', '/v1/queues/{queue}/settings', [200], []],
]
const EVERYWHERE: readonly ErrorCode[] = [
  'invalid',
  'unauthorized',
  'forbidden',
  'method_not_allowed',
  'overloaded',
  'internal',
  'upstream',
  'misconfigured',
  'wire_version',
]

describe('the spec', () => {
  test('is covered route by route', () => {
    expect(SPEC.map(([method, path]) => `${method} ${path}`).sort()).toEqual(
      ROUTES.map(({ method, path }) => `${method.toLowerCase()} ${path}`).sort(),
    )
  })

  test.each(SPEC)('%s %s: %j, and its errors', (method, path, statuses, own) => {
    const operation: Operation = { method, path, operation: document.paths[path][method] }
    const documented = Object.keys(operation.operation.responses).map(Number)
    expect(documented.filter((status) => status < 300)).toEqual(statuses)
    const hasBody = operation.operation.requestBody !== undefined
    const expected = new Set([
      ...EVERYWHERE,
      ...own,
      ...(hasBody ? (['too_large', 'unsupported_media_type'] as const) : []),
    ])
    const codes = documented
      .filter((status) => status >= 400)
      .flatMap((status) => {
        const { content } = at(responsePlace(operation, status))
        return Object.keys(content['application/problem+json'].examples)
      })
    expect(codes.sort()).toEqual([...expected].sort())
  })
})

const keys = keyspace(EXAMPLE_QUEUE)
const post = async (path: string, body: unknown): Promise<Json> =>
  (await api.call('POST', `/v1/queues/${EXAMPLE_QUEUE}/${path}`, body)).json

const PAYLOAD = { to: 'ada@example.com', template: 'welcome' }
const [OTHER_ID, THIRD_ID] = ['JOB0SUcTmToeK8', 'JOB0SUcTsCdEum']
const ERROR = 'SMTP 451: try again later'

const enqueue = (id: string, more: object = {}) => post('jobs', { id, payload: PAYLOAD, ...more })
const claim = (more: object = {}) => post('claim', { limit: 1, leaseMs: 30_000, ...more })
const redis = (...commands: Command[]) => port.send(commands)

const oneClaimed = async () => {
  await enqueue(EXAMPLE_ID)
  await claim()
}
const dead = async (...ids: string[]) => {
  for (const id of ids) {
    await enqueue(id)
    await claim()
    await post(`jobs/${id}/fail`, { token: 1, error: ERROR })
  }
}

/** What must have happened before an example is true: by operation, or by operation and name. */
const BEFORE: Record<string, () => Promise<unknown>> = {
  'enqueue again': () => enqueue(EXAMPLE_ID, { idempotencyKey: 'welcome-42' }),
  'claim many': async () => {
    await enqueue(EXAMPLE_ID)
    await enqueue(OTHER_ID, { payload: { to: 'grace@example.com', template: 'welcome' } })
  },
  'claim one': () => enqueue(EXAMPLE_ID),
  'claim early': () => {
    const ghosts = Array.from({ length: 1_000 }, (_, nth) => `JOB${String(nth).padStart(11, '0')}`)
    return redis(['ZADD', keys.pending, ...ghosts.flatMap((id) => [0, id])])
  },
  complete: oneClaimed,
  retry: oneClaimed,
  fail: oneClaimed,
  release: oneClaimed,
  extend: oneClaimed,
  settle: async () => {
    for (const id of [EXAMPLE_ID, OTHER_ID, THIRD_ID]) await enqueue(id)
    await claim({ limit: 3 })
    await post(`jobs/${THIRD_ID}/release`, { token: 1 })
    await claim()
    await enqueue('JOB0SUcY7SAO6S')
  },
  listQueues: async () => {
    await enqueue(EXAMPLE_ID)
    await enqueue(OTHER_ID, { delayMs: 300_000 })
    await api.call('POST', '/v1/queues/reports/jobs', { payload: 1 })
  },
  stats: async () => {
    await enqueue(EXAMPLE_ID)
    await enqueue(OTHER_ID, { delayMs: 300_000 })
  },
  'listJobs dead': () => dead(OTHER_ID, EXAMPLE_ID, THIRD_ID),
  'listJobs scheduled': () => enqueue(EXAMPLE_ID, { delayMs: 300_000 }),
  job: async () => {
    await enqueue(EXAMPLE_ID)
    for (const [token, error] of [
      [1, 'SMTP 421: closing'],
      [2, ERROR],
    ]) {
      await claim()
      await post(`jobs/${EXAMPLE_ID}/retry`, { token, error, delayMs: 0 })
    }
    await claim()
  },
  metrics: async () => {
    await enqueue(EXAMPLE_ID)
    await enqueue(OTHER_ID, { delayMs: 300_000 })
  },
  promote: async () => {
    await enqueue(EXAMPLE_ID, { delayMs: 300_000 })
    await redis(['ZADD', keys.schedule, 1, EXAMPLE_ID])
  },
  reap: async () => {
    await enqueue(EXAMPLE_ID)
    await enqueue(OTHER_ID, { maxAttempts: 1 })
    await claim({ limit: 2 })
    await redis(['ZADD', keys.active, 1, EXAMPLE_ID, 1, OTHER_ID])
  },
  maintain: async () => {
    await enqueue(EXAMPLE_ID, { delayMs: 300_000 })
    await redis(['ZADD', keys.schedule, 1, EXAMPLE_ID])
  },
  redrive: () => dead(EXAMPLE_ID),
  redriveMany: () => dead(EXAMPLE_ID, OTHER_ID),
  reschedule: () => enqueue(EXAMPLE_ID, { delayMs: 300_000 }),
  remove: () => enqueue(EXAMPLE_ID),
  purge: () => dead(EXAMPLE_ID, OTHER_ID),
  audit: async () => {
    await redis(['ZADD', keys.pending, 0, EXAMPLE_ID])
    await enqueue(OTHER_ID)
    await redis(['ZADD', keys.schedule, 1, OTHER_ID])
  },
}

/** The exchanges that the document shows: one for each example, one for each operation without any. */
const exchanges = ROUTES.map(({ operationId }) => operationOf(operationId))
  .concat(operationOf('health'), operationOf('readiness'))
  .flatMap((operation) => {
    const { operationId, parameters, requestBody, responses } = operation.operation
    const names = new Set<string>()
    const collect = (examples: Json): void =>
      Object.keys(examples ?? {}).forEach((name) => void names.add(name))
    collect(requestBody?.content['application/json'].examples)
    for (const parameter of parameters) collect(parameter.examples)
    for (const response of Object.values<Json>(responses))
      for (const { examples } of Object.values<Json>(response.content ?? {})) collect(examples)
    return (names.size === 0 ? [undefined] : [...names]).map((name) => ({
      title: `${operationId} ${name ?? ''}`.trim(),
      name,
      operation,
    }))
  })

describe('an example', () => {
  test('is there for every operation that takes or gives anything', () => {
    const without = exchanges.filter(({ name }) => name === undefined).map(({ title }) => title)
    expect(without).toEqual(['remove'])
    const all = Object.entries(EXAMPLES).flatMap(([id, named]) =>
      Object.keys(named).map((name) => `${id} ${name}`),
    )
    expect(exchanges.map(({ title }) => title)).toEqual(expect.arrayContaining(all))
  })

  test.each(exchanges)('is true: $title', async ({ title, name = '', operation }) => {
    const { operationId, parameters, requestBody, responses } = operation.operation
    await (BEFORE[title] ?? BEFORE[operationId])?.()
    const path = operation.path.replace(/\{(\w+)\}/g, (_, parameter) =>
      encodeURIComponent(document.components.parameters[parameter].example),
    )
    const given = (place: string): Record<string, string> =>
      Object.fromEntries(
        parameters.flatMap((parameter: Json) => {
          const example = parameter.in === place ? parameter.examples?.[name] : undefined
          return example === undefined ? [] : [[parameter.name, String(example.value)]]
        }),
      )
    const body = requestBody?.content['application/json'].examples?.[name]?.value
    const query = new URLSearchParams(given('query'))
    if (body !== undefined) {
      const place = [
        'paths',
        operation.path,
        operation.method,
        'requestBody',
        'content',
        'application/json',
        'schema',
      ]
      expect(wrongAt(body, ...place)).toEqual([])
    }

    const target = title === 'readiness unready' ? apiOn(shared, DEAF) : api
    const url = query.size === 0 ? path : `${path}?${query}`
    const answer = await target.call(operation.method.toUpperCase(), url, body, { headers: given('header') })

    expectDocumented(operation, answer)
    const [status, shown] = Object.entries<Json>(responses)
      .map(([status, { content = {} }]) => [
        Number(status),
        Object.values<Json>(content)[0]?.examples?.[name],
      ])
      .find(([, example]) => example !== undefined) ?? [204, undefined]
    expect(answer.status).toBe(status)
    if (shown !== undefined) expect(timeless(answer.json ?? answer.text)).toEqual(timeless(shown.value))
  })
})

/** A Redis that nobody serves. */
const DEAF = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:9' }

/** Ways to be refused that every route knows, and the code of each. */
const REFUSALS: readonly {
  readonly code: ErrorCode
  readonly applies?: (operation: Operation) => boolean
  readonly method?: string
  readonly path?: (path: string) => string
  readonly token?: string | null
  readonly body?: string
  readonly contentType?: string
  readonly env?: Record<string, string>
}[] = [
  { code: 'unauthorized', token: null },
  {
    code: 'forbidden',
    token: TOKENS.producer,
    applies: ({ operation }) => operation.operationId !== 'enqueue',
  },
  {
    code: 'forbidden',
    token: TOKENS.consumer,
    applies: ({ operation }) => operation.operationId === 'enqueue',
  },
  { code: 'method_not_allowed', method: 'PATCH' },
  { code: 'invalid', path: (path) => `${path}?nonsense=1` },
  {
    code: 'wrong_kind',
    path: (path) => path.replace(EXAMPLE_ID, 'ORD0SUcTgl03jU'),
    applies: ({ path }) => path.includes('{id}'),
  },
  {
    code: 'too_large',
    body: `"${'x'.repeat(6 * 1024 * 1024)}"`,
    applies: ({ operation }) => operation.requestBody !== undefined,
  },
  {
    code: 'unsupported_media_type',
    body: '{}',
    contentType: 'text/plain',
    applies: ({ operation }) => operation.requestBody !== undefined,
  },
  { code: 'misconfigured', env: { UPSTASH_REDIS_REST_TOKEN: '' } },
]

describe('a refusal', () => {
  const cases = REFUSALS.flatMap((refusal) =>
    ROUTES.map(({ operationId }) => operationOf(operationId))
      .filter((operation) => refusal.applies?.(operation) ?? true)
      .map((operation) => ({ refusal, operation, code: refusal.code, id: operation.operation.operationId })),
  )
  test.each(cases)('$code of $id is as it is documented', async ({ refusal, operation }) => {
    const path = operation.path.replace('{queue}', EXAMPLE_QUEUE).replace('{id}', EXAMPLE_ID)
    const example: Json = Object.values<Json>(
      operation.operation.requestBody?.content['application/json'].examples ?? {},
    )[0]?.value
    const answer = await apiOn(shared, refusal.env).call(
      refusal.method ?? operation.method.toUpperCase(),
      refusal.path?.(path) ?? path,
      refusal.body ?? example,
      {
        ...(refusal.token === undefined ? {} : { token: refusal.token }),
        ...(refusal.contentType === undefined ? {} : { headers: { 'Content-Type': refusal.contentType } }),
      },
    )
    expect(answer.json).toMatchObject({ code: refusal.code })
    expectDocumented(operation, answer)
  })
})
