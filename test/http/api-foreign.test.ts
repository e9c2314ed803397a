/** What other clients left in Redis that ours would never write: it must stop nobody. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createRespPort, type RespPort } from '../../src/dev/resp-port.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import { apiOn, freshQueue } from '../support/api.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
let port: RespPort
beforeAll(async () => {
  port = await createRespPort(shared.redis.url)
})
afterAll(() => port.close())

test('an id that is none, with a row, is looked at and handed out, and spoils no batch', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const path = `/v1/queues/${queue}`
  await port.send([
    ['HSET', keys.job('made-up'), 'state', 'pending', 'attempts', 0, 'payload', '"foreign"'],
    ['ZADD', keys.pending, 0, 'made-up'],
  ])
  const { id } = (await api.call('POST', `${path}/jobs`, { payload: 'ours' })).json
  expect((await api.call('GET', path)).status).toBe(200)
  expect((await api.call('GET', '/metrics')).status).toBe(200)
  expect((await api.call('GET', `${path}/jobs`)).json.jobs).toMatchObject([{ id: 'made-up' }, { id }])
  const { jobs } = (await api.call('POST', `${path}/claim`, { limit: 10 })).json
  expect(jobs).toMatchObject([
    { id, payload: 'ours' },
    { id: 'made-up', payload: 'foreign', token: 1 },
  ])
})

test('a score that is no instant of these eight thousand years spoils no read', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1, delayMs: 60_000 })).json
  for (const score of ['1e20', '8.64e15', '253402300800000', '-1e14']) {
    await port.send([['ZADD', keys.schedule, score, id]])
    const list = await api.call('GET', `/v1/queues/${queue}/jobs?state=scheduled`)
    const one = await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)
    const stats = await api.call('GET', `/v1/queues/${queue}`)
    expect([list.status, one.status, stats.status], score).toEqual([200, 200, 200])
    expect(list.json.jobs, score).toMatchObject([{ id, state: 'scheduled' }])
    for (const seen of [list.json.jobs[0], one.json, stats.json])
      expect([seen.runAt, seen.nextDueAt], score).toEqual([undefined, undefined])
  }
})
