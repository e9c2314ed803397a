/** Faults 12 to 16: identity and order, through the whole service. What ids are by themselves is tried beside them. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
afterEach(() => void vi.restoreAllMocks())

type Job = { id: string; status: string }
const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const many = async (api: Api, queue: string, count: number, more: object = {}): Promise<Job[]> =>
  (await post(api, queue, 'jobs', { jobs: Array(count).fill({ payload: 1, ...more }) })).json.results
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])

test('12: a clock that stands still: thousands of ids at once and one after another, all rising', async () => {
  const now = Date.now()
  const api = apiOn(shared, {}, { now: () => now })
  const queue = freshQueue()
  const ids: string[] = []
  for (const _ of Array(6)) ids.push(...(await many(api, queue, 1000)).map(({ id }) => id))
  for (const _ of Array(20)) ids.push((await post(api, queue, 'jobs', { payload: 1 })).json.id)
  expect(new Set(ids).size).toBe(6020)
  expect(ids).toEqual([...ids].sort())
  expect(await raw.run('ZRANGE', keyspace(queue).pending, 0, -1)).toEqual(ids)
})

describe('13: isolates that drew the same node', () => {
  /** Isolates whose clocks stand still at one instant and whose random numbers are the same ones. */
  const twins = (count: number): Api[] => {
    vi.spyOn(crypto, 'getRandomValues').mockImplementation((array) => array)
    const now = Date.now()
    return Array.from({ length: count }, () => apiOn(shared, {}, { now: () => now }))
  }

  test('meet each other’s ids, mint again, and lose no job', async () => {
    const queue = freshQueue()
    const answers = await Promise.all(
      twins(2).map(async (api) => {
        const found: Job[] = []
        for (let nth = 0; nth < 100; nth++) {
          const answer = await post(api, queue, 'jobs', { payload: nth })
          expect(answer.status).toBe(201)
          found.push(answer.json)
        }
        return found
      }),
    )
    const ids = answers.flat().map(({ id }) => id)
    expect(new Set(ids).size).toBe(200)
    expect(await raw.run('ZCARD', keyspace(queue).pending)).toBe(200)
    await clean(queue)
  })

  test('in batches, too, each job beside its own', async () => {
    const queue = freshQueue()
    const [one, two] = twins(2)
    const first = await many(one as Api, queue, 500)
    const second = await many(two as Api, queue, 600)
    expect([...first, ...second].every(({ status }) => status === 'enqueued')).toBe(true)
    expect(new Set([...first, ...second].map(({ id }) => id)).size).toBe(1100)
    expect(await raw.run('ZCARD', keyspace(queue).pending)).toBe(1100)
    await clean(queue)
  })

  test('with an idempotency key: the key names the job that was stored', async () => {
    const queue = freshQueue()
    const [one, two] = twins(2)
    await post(one as Api, queue, 'jobs', { payload: 'other' })
    const stored = await post(two as Api, queue, 'jobs', { payload: 'mine', idempotencyKey: 'k' })
    expect(stored.json.status).toBe('enqueued')
    const again = await post(one as Api, queue, 'jobs', { payload: 'mine', idempotencyKey: 'k' })
    expect(again.json).toEqual({ id: stored.json.id, status: 'duplicate' })
  })
})

test('14: ids of callers: one validator at every entrance, and no Redis call', async () => {
  const WRONG = [
    ...[
      'JOBzzzzzzzzzzz',
      'JOBAzL8n0Y58m8',
      'job0Dq5JVGd5nZ',
      'JOB0Dq5JVGd5n',
      'JOB0Dq5JVGd5nZ0',
      'JOB0Dq5JVGd5n:',
    ],
    ...[
      'JOB0Dq5JVGd5nZ%0A',
      '%20JOB0Dq5JVGd5nZ',
      'JOB0Dq5JVGd5n%C3%A9',
      'JOB0Dq5JVGd5n{',
      'JOB0Dq5JVGd5n%00',
      'JO',
    ],
  ]
  const before = (await shared.bridge.counts()).requests
  const queue = freshQueue()
  for (const id of WRONG) {
    const api = apiOn(shared)
    for (const [method, end, body] of [
      ['GET', '', undefined],
      ['DELETE', '', undefined],
      ['POST', '/complete', { token: 1 }],
      ['POST', '/retry', { token: 1 }],
      ['POST', '/fail', { token: 1 }],
      ['POST', '/release', { token: 1 }],
      ['POST', '/extend', { token: 1, leaseMs: 10 }],
      ['POST', '/redrive', {}],
      ['PUT', '/schedule', { delayMs: 1 }],
    ] as const) {
      const answer = await api.call(method, `/v1/queues/${queue}/jobs/${id}${end}`, body)
      expect([answer.status, answer.json.code, answer.json.errors[0].path], `${id}${end}`).toEqual([
        400,
        'invalid',
        'id',
      ])
    }
    const inBody = decodeURIComponent(id)
    const one = await post(api, queue, 'jobs', { payload: 1, id: inBody })
    expect([one.status, one.json.errors[0].path]).toEqual([400, 'id'])
    const { results } = (
      await post(api, queue, 'settle', { items: [{ id: inBody, action: 'complete', token: 1 }] })
    ).json
    expect(results[0].error).toMatchObject({ code: 'invalid', errors: [{ path: 'id' }] })
    const cursor = await post(api, queue, 'redrive', { cursor: inBody })
    expect(cursor.status).toBe(400)
  }
  expect((await shared.bridge.counts()).requests).toBe(before)
  const last = await post(apiOn(shared), queue, 'jobs', { payload: 1, id: 'JOBAzL8n0Y58m7' })
  expect(last.status).toBe(201)
  expect((await apiOn(shared).call('GET', `/v1/queues/${queue}/jobs/JOBAzL8n0Y58m7`)).json.enqueuedAt).toBe(
    '2093-09-06T15:47:35.551Z',
  )
})

describe('16: jobs of the same instant', () => {
  const enqueueThree = async (api: Api, queue: string): Promise<string[]> =>
    (await many(api, queue, 3, { runAt: Date.now() + 200 })).map(({ id }) => id)
  const claimed = async (api: Api, queue: string): Promise<string[]> =>
    (await post(api, queue, 'claim', { limit: 10 })).json.jobs.map(({ id }: Job) => id)

  test('come in the order of their ids', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await enqueueThree(api, queue)
    await until(async () => (await post(api, queue, 'promote')).json.promoted === 3)
    expect(await claimed(api, queue)).toEqual(ids)
    await clean(queue)
  })

  test('are removed one at a time', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await enqueueThree(api, queue)
    expect((await api.call('DELETE', `/v1/queues/${queue}/jobs/${ids[1]}`)).status).toBe(204)
    await until(async () => {
      await raw.run('ZADD', GLOBAL_KEYS.queues, 1, queue)
      return (await api.call('POST', '/v1/maintenance', {})).json.promoted === 2
    })
    expect(await claimed(api, queue)).toEqual([ids[0], ids[2]])
    await clean(queue)
  })
})
