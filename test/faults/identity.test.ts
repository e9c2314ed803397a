/** Faults 12 to 16: identity and order, through the whole service. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { apiOn, freshQueue } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { manualClock } from '../support/clock.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
afterEach(() => void vi.restoreAllMocks())

test('12: thousands of ids are unique and ascending even if the clock stands still', async () => {
  const queue = queueOn(apiOn(shared, {}, { now: manualClock().now }))
  const ids: string[] = []
  for (const _ of Array(6)) ids.push(...(await queue.enqueueMany(1000)))
  for (const _ of Array(20)) ids.push((await queue.post('jobs', { payload: 1 })).json.id)
  expect(new Set(ids).size).toBe(6020)
  expect(ids).toEqual([...ids].sort())
  expect(await raw.run('ZRANGE', queue.keys.pending, 0, -1)).toEqual(ids)
})

describe('13: isolates with the same random node', () => {
  test('two isolates that mint the same ids lose no job', async () => {
    const [one, two] = twins()
    const enqueueMany = async (queue: TestQueue): Promise<string[]> => {
      const ids: string[] = []
      for (let nth = 0; nth < 100; nth++) {
        const answer = await queue.post('jobs', { payload: nth })
        expect(answer.status).toBe(201)
        ids.push(answer.json.id)
      }
      return ids
    }
    const ids = await Promise.all([enqueueMany(one), enqueueMany(two)])
    expect(new Set(ids.flat()).size).toBe(200)
    expect(await raw.run('ZCARD', one.keys.pending)).toBe(200)
    await expectConsistent(raw.port, one.name)
  })

  test('two isolates that mint the same ids in batches lose no job', async () => {
    const [one, two] = twins()
    const batch = async (queue: TestQueue, count: number): Promise<Result[]> =>
      (await queue.post('jobs', { jobs: Array(count).fill({ payload: 1 }) })).json.results
    const results = [...(await batch(one, 500)), ...(await batch(two, 600))]
    expect(results.every(({ status }) => status === 'enqueued')).toBe(true)
    expect(new Set(results.map(({ id }) => id)).size).toBe(1100)
    expect(await raw.run('ZCARD', one.keys.pending)).toBe(1100)
    await expectConsistent(raw.port, one.name)
  })

  test('an idempotency key returns the id of the stored job even if two isolates minted the same id', async () => {
    const [one, two] = twins()
    await one.enqueue()
    const stored = await two.post('jobs', { payload: 'mine', idempotencyKey: 'k' })
    expect(stored.json.status).toBe('enqueued')
    const again = await one.post('jobs', { payload: 'mine', idempotencyKey: 'k' })
    expect(again.json).toEqual({ id: stored.json.id, status: 'duplicate' })
  })
})

test('14: every route rejects a malformed id without a request to Redis', async () => {
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
  const name = freshQueue()
  for (const id of WRONG) {
    const queue = queueOn(apiOn(shared), name)
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
      const answer = await queue.send(method, `jobs/${id}${end}`, body)
      expect([answer.status, answer.json.code, answer.json.errors[0].path], `${id}${end}`).toEqual([
        400,
        'invalid',
        'id',
      ])
    }
    const inBody = decodeURIComponent(id)
    const one = await queue.post('jobs', { payload: 1, id: inBody })
    expect([one.status, one.json.errors[0].path]).toEqual([400, 'id'])
    const { results } = (
      await queue.post('settle', { items: [{ id: inBody, action: 'complete', token: 1 }] })
    ).json
    expect(results[0].error).toMatchObject({ code: 'invalid', errors: [{ path: 'id' }] })
    const cursor = await queue.post('redrive', { cursor: inBody })
    expect(cursor.status).toBe(400)
  }
  expect((await shared.bridge.counts()).requests).toBe(before)
  const queue = queueOn(apiOn(shared), name)
  expect((await queue.post('jobs', { payload: 1, id: 'JOBAzL8n0Y58m7' })).status).toBe(201)
  expect((await queue.job('JOBAzL8n0Y58m7')).enqueuedAt).toBe('2093-09-06T15:47:35.551Z')
})

describe('16: jobs of the same instant', () => {
  const enqueueThree = (queue: TestQueue) => queue.enqueueMany(3, { runAt: Date.now() + 200 })
  const claimed = async (queue: TestQueue) => (await queue.claim({ limit: 10 })).map(({ id }) => id)

  test('jobs of the same instant are claimed in the order of their ids', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await enqueueThree(queue)
    await until(async () => (await queue.post('promote')).json.promoted === 3)
    expect(await claimed(queue)).toEqual(ids)
    await expectConsistent(raw.port, queue.name)
  })

  test('a job is removed without another job of the same instant', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const ids = await enqueueThree(queue)
    expect((await queue.remove(ids[1] ?? '')).status).toBe(204)
    await until(async () => {
      await raw.run('ZADD', GLOBAL_KEYS.queues, 1, queue.name)
      return (await api.call('POST', '/v1/maintenance', {})).json.promoted === 2
    })
    expect(await claimed(queue)).toEqual([ids[0], ids[2]])
    await expectConsistent(raw.port, queue.name)
  })
})

type Result = { id: string; status: string }

/** One queue on two isolates whose clocks stand still at one instant and whose random numbers are the same. */
function twins(): [TestQueue, TestQueue] {
  vi.spyOn(crypto, 'getRandomValues').mockImplementation((array) => array)
  const { now } = manualClock()
  const one = queueOn(apiOn(shared, {}, { now }))
  return [one, queueOn(apiOn(shared, {}, { now }), one.name)]
}
