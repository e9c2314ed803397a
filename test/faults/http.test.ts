/** Faults 40, 41, 44 and 45: paths, methods, and upstreams that answer what no Redis answers. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
const log = capturedLog()

const ID = 'JOB0KHTOWnGLuC'
const enqueue = (api: Api, queue: string, payload: unknown = 1) =>
  api.call('POST', `/v1/queues/${queue}/jobs`, { payload })

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
  ])('%s is no queue: 400, and Redis hears nothing', async (name) => {
    const before = (await shared.bridge.counts()).requests
    for (const [method, path, body] of ROUTES) {
      if (!path.includes('{q}')) continue
      const answer = await apiOn(shared).call(method, path.replace('{q}', name), body)
      expect([answer.status, answer.json.code], path).toEqual([400, 'invalid'])
      expect(answer.json.errors[0].path).toBe('queue')
    }
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test.each(['..', '.', '%2e%2e', '%2E'])(
    '%s is a step in the path for every URL parser, and leads nowhere',
    async (step) => {
      const answer = await apiOn(shared).call('POST', `/v1/queues/${step}/claim`, {})
      expect([404, 405]).toContain(answer.status)
    },
  )
})

describe('41: methods', () => {
  test('GET, HEAD and DELETE where they do not belong have no effect', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await enqueue(api, queue)
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
      const answer = await api.call(
        method,
        `/v1/queues/${queue}/${path}`.replace(/\/$/, path === '' ? '' : '/'),
      )
      expect(answer.status, `${method} ${path}`).toBe(status)
      expect(answer.headers.has('Allow')).toBe(status === 405)
    }
    const { counts } = (await api.call('GET', `/v1/queues/${queue}`)).json
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
  ])('%i %s: neither answer nor log tells anything of it', async (status, body) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await api.call('GET', `/v1/queues/${queue}`)
    shared.bridge.answer({ status, body }, { times: Number.POSITIVE_INFINITY })
    onTestFinished(() => shared.bridge.reset())
    for (const [method, path, sent] of ROUTES) {
      const answer = await api.call(method, path.replace('{q}', queue), sent)
      expect(answer.status, `${path} ${answer.text}`).toBe(503)
      expect(answer.json.code).toBe('upstream')
      expect(answer.text, path).not.toMatch(LEAKS)
      expect([...answer.headers.values()].join()).not.toMatch(LEAKS)
    }
    expect(log.text).not.toMatch(LEAKS)
  })

  test('a connection that breaks tells nothing either', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    const answer = await enqueue(api, queue, 'SECRET-1')
    await shared.bridge.reset()
    expect(answer.status).toBe(503)
    expect(answer.text + log.text).not.toMatch(LEAKS)
  })
})

describe('45: an upstream that is no Redis', () => {
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
    '%i %j is a 503 of our own on every route, also when it comes first',
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
  ])('a plan that is used up is 429 with Retry-After, as an answer and inside of one: %s', async (body) => {
    for (const [status, text] of [
      [429, body],
      [400, body],
      [200, `[${body},${body}]`],
    ] as const) {
      const api = apiOn(shared)
      const queue = freshQueue()
      await enqueue(api, queue)
      shared.bridge.answer({ status, body: text })
      const answer = await enqueue(api, queue)
      expect([answer.status, answer.json.code], text).toEqual([429, 'overloaded'])
      expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    }
  })

  test('the service is back as soon as its upstream is', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    shared.bridge.answer({ status: 502, body: '<html>' })
    expect((await enqueue(api, queue)).status).toBe(503)
    expect((await enqueue(api, queue)).status).toBe(201)
  })
})
