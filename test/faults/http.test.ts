/** Faults 40, 41, 44 and 45: paths, methods, and upstreams that do not answer as Redis does. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { apiOn, freshQueue } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { keysOf } from '../support/census.ts'
import { queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
const log = capturedLog()

const ID = 'JOB0KHTOWnGLuC'
/** Every kind of request that needs Redis. */
const ROUTES = [
  ['POST', '/v1/queues/{q}/jobs', { payload: 'SECRET-1', id: ID }],
  ['POST', '/v1/queues/{q}/jobs', { jobs: [{ payload: 'SECRET-1' }] }],
  ['POST', '/v1/queues/{q}/claim', {}],
  ['POST', '/v1/queues/{q}/claim', { limit: 5, claimId: 'SECRET-1' }],
  ['POST', `/v1/queues/{q}/jobs/${ID}/complete`, { token: 1 }],
  ['POST', `/v1/queues/{q}/jobs/${ID}/retry`, { token: 1, error: 'SECRET-1' }],
  ['POST', `/v1/queues/{q}/jobs/${ID}/fail`, { token: 1, error: 'SECRET-1' }],
  ['POST', `/v1/queues/{q}/jobs/${ID}/release`, { token: 1 }],
  ['POST', `/v1/queues/{q}/jobs/${ID}/extend`, { token: 1, leaseMs: 1000 }],
  ['POST', '/v1/queues/{q}/settle', { items: [{ id: ID, action: 'fail', token: 1, error: 'SECRET-1' }] }],
  ['GET', '/v1/queues', undefined],
  ['GET', '/v1/queues/{q}', undefined],
  ['GET', '/v1/queues/{q}/jobs', undefined],
  ['GET', '/v1/queues/{q}/jobs?state=scheduled&payload=true', undefined],
  ['GET', `/v1/queues/{q}/jobs/${ID}`, undefined],
  ['GET', '/metrics', undefined],
  ['POST', '/v1/queues/{q}/promote', {}],
  ['POST', '/v1/queues/{q}/reap', {}],
  ['POST', '/v1/maintenance', {}],
  ['POST', `/v1/queues/{q}/jobs/${ID}/redrive`, {}],
  ['POST', '/v1/queues/{q}/redrive', { errorContains: 'SECRET-1' }],
  ['PUT', `/v1/queues/{q}/jobs/${ID}/schedule`, { delayMs: 0 }],
  ['DELETE', `/v1/queues/{q}/jobs/${ID}`, undefined],
  ['POST', '/v1/queues/{q}/purge', { state: 'dead' }],
  ['POST', '/v1/queues/{q}/audit', {}],
  ['POST', '/v1/queues/{q}/pause', {}],
  ['POST', '/v1/queues/{q}/resume', {}],
  ['PUT', '/v1/queues/{q}/settings', { leaseMs: 1000 }],
] as const

describe('40: percent-encoding', () => {
  test.each([
    ...[
      '%',
      '%zz',
      '%E0%A4%A',
      'a%2Fb',
      'a%252Fb',
      '..%2Fq1',
      'q1%00',
      '%2e%2e%2fq1',
      'q1%0A',
      '%20q1',
      'q1%20',
      'q%2',
    ],
    ...[
      '%C3%A9',
      '%71%zz',
      '%2571',
      'a%5Cb',
      'q%3Fx',
      'q%23x',
      '%7Bq%7D',
      'a%3Apending',
      '%25',
      '%F0%9F%98%80',
    ],
  ])('the path segment %s is not a queue name: 400 without a request to Redis', async (name) => {
    const before = (await shared.bridge.counts()).requests
    for (const [method, path, body] of ROUTES) {
      if (!path.includes('{q}')) continue
      const answer = await apiOn(shared).call(method, path.replace('{q}', name), body)
      expect([answer.status, answer.json.code], path).toEqual([400, 'invalid'])
      expect(answer.json.errors[0].path).toBe('queue')
    }
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test.each([
    ['..', 404],
    ['.', 405],
    ['%2e%2e', 404],
    ['%2E', 405],
  ])('the path segment %s is resolved by URL parsers and leads to no route', async (step, status) => {
    const answer = await apiOn(shared).call('POST', `/v1/queues/${step}/claim`, {})
    expect(answer.status).toBe(status)
  })
})

describe('41: methods', () => {
  test('GET, HEAD and DELETE have no effect on routes of other methods', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    await queue.post('jobs', { payload: 1 })
    for (const [method, path, status] of [
      ['GET', 'claim', 405],
      ['HEAD', 'claim', 405],
      ['DELETE', 'jobs', 405],
      ['DELETE', '', 405],
      ['GET', 'purge', 405],
      ['HEAD', 'promote', 405],
      ['GET', `jobs/${ID}/complete`, 405],
      ['POST', 'jobs/', 404],
      ['DELETE', 'jobs/', 404],
    ] as const) {
      const answer = await api.call(method, `${queue.path}/${path}`.replace(/\/$/, path === '' ? '' : '/'))
      expect(answer.status, `${method} ${path}`).toBe(status)
      expect(answer.headers.has('Allow')).toBe(status === 405)
    }
    const { counts } = (await queue.get()).json
    expect(counts).toEqual({ pending: 1, active: 0, scheduled: 0, dead: 0 })
  })
})

describe('44: an upstream whose error repeats the command', () => {
  const LEAKS = /SECRET-1|emq:\{|redis\.call|[0-9a-f]{40}|EVALSHA|ERR boom|test-token|127\.0\.0\.1/

  test.each([
    [400, '{"error":"ERR boom"}'],
    [400, '{"error":"ERR boom, command was: [\\"SECRET-1\\"]"}'],
    [500, '{"error":"ERR boom"}'],
    [200, '[{"error":"ERR boom SECRET-1 emq:{q}:job"},{"error":"ERR boom SECRET-1"},{"error":"ERR boom"}]'],
    [401, '{"error":"WRONGPASS SECRET-1"}'],
    [200, '<html>SECRET-1'],
    [502, '<html>SECRET-1'],
    [200, '{"SECRET-1":1}'],
  ])(
    'after the upstream response %i %s neither the response nor the log contains a word of it',
    async (status, body) => {
      const api = apiOn(shared)
      const queue = queueOn(api)
      await queue.get()
      shared.bridge.answer({ status, body }, { times: Number.POSITIVE_INFINITY })
      onTestFinished(() => shared.bridge.reset())
      for (const [method, path, sent] of ROUTES) {
        const answer = await api.call(method, path.replace('{q}', queue.name), sent)
        expect(answer.status, `${path} ${answer.text}`).toBe(503)
        expect(answer.json.code).toBe('upstream')
        expect(answer.text, path).not.toMatch(LEAKS)
        expect([...answer.headers.values()].join()).not.toMatch(LEAKS)
      }
      expect(log.text).not.toMatch(LEAKS)
    },
  )

  test('after a broken connection neither the response nor the log contains the command', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    const answer = await queue.post('jobs', { payload: 'SECRET-1' })
    await shared.bridge.reset()
    expect(answer.status).toBe(503)
    expect(answer.text + log.text).not.toMatch(LEAKS)
  })
})

describe('45: an upstream that is not Redis', () => {
  const ANSWERS = [
    [502, '<html>'],
    [200, '<html>'],
    [200, ''],
    [200, '{}'],
    [200, 'null'],
    [200, '5'],
    [200, '[]'],
    [200, '[null]'],
    [200, '[{}]'],
    [200, '[{},{}]'],
    [200, '[5,5,5]'],
    [200, '[{"result":{}},{"result":{}}]'],
    [200, '[{"result":true},{"result":"%%%"}]'],
    [200, '[{"result":[[[]]]},{"result":[[[]]]}]'],
    [200, '[{"result":"b2s="},{"result":["b2s="]}]'],
    [200, '{"error":"x"}'],
    [200, '{"result":"x"}'],
    [204, ''],
    [301, ''],
    [400, '{"error":"x"}'],
    [400, 'null'],
    [401, '{"error":"WRONGPASS"}'],
    [403, ''],
    [404, 'not found'],
    [429, '<html>'],
    [500, ''],
    [503, '{"error":"ERR Redis is not reachable"}'],
  ] as const

  test.each(ANSWERS)(
    'the upstream response %i %j returns 503 on every route, even as the first response',
    async (status, body) => {
      const queue = freshQueue()
      shared.bridge.answer({ status, body }, { times: Number.POSITIVE_INFINITY })
      onTestFinished(() => shared.bridge.reset())
      for (const [method, path, sent] of ROUTES) {
        const answer = await apiOn(shared).call(method, path.replace('{q}', queue), sent)
        expect(`${answer.status} ${answer.json?.code}`, path).toBe('503 upstream')
        expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
        expect(answer.headers.get('WWW-Authenticate')).toBeNull()
      }
      expect(await keysOf(raw.port, queue)).toEqual([])
    },
  )

  test.each([
    '{"error":"ERR max daily request limit exceeded. Limit: 10000, Usage: 10000."}',
    '{"error":"ERR max requests limit exceeded. Limit: 500000, Usage: 500001"}',
  ])(
    'a used up plan returns 429 with Retry-After, as an error status and as an error in a reply: %s',
    async (body) => {
      for (const [status, text] of [
        [429, body],
        [400, body],
        [200, `[${body},${body}]`],
      ] as const) {
        const api = apiOn(shared)
        const queue = queueOn(api)
        await queue.post('jobs', { payload: 1 })
        shared.bridge.answer({ status, body: text })
        const answer = await queue.post('jobs', { payload: 1 })
        expect([answer.status, answer.json.code], text).toEqual([429, 'overloaded'])
        expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
      }
    },
  )

  test('the service recovers as soon as its upstream does', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    shared.bridge.answer({ status: 502, body: '<html>' })
    expect((await queue.post('jobs', { payload: 1 })).status).toBe(503)
    expect((await queue.post('jobs', { payload: 1 })).status).toBe(201)
  })
})
