/** Neighbours of fault 7: a Redis that is full and evicts nothing, and one that does not take writes. */
import { afterEach, describe, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, type ApiAnswer, apiOn, freshQueue } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
capturedLog()

const ID = 'JOB0KHTOWnGLuC'
type Step = (api: Api, queue: string) => Promise<unknown>

const send =
  (method: string, path: string, body?: object) =>
  (api: Api, queue: string): Promise<ApiAnswer> =>
    api.call(method, `/v1/queues/${queue}/${path}`, body)
const post = (path: string, body: object = {}) => send('POST', path, body)
const both =
  (first: Step, second: Step): Step =>
  async (api, queue) => {
    await first(api, queue)
    await second(api, queue)
  }
const makeOld =
  (set: 'active' | 'schedule'): Step =>
  (_, queue) =>
    raw.run('ZADD', keyspace(queue)[set], 1, ID)

const empty: Step = async () => {}
const pending = post('jobs', { payload: 1, id: ID })
const scheduled = post('jobs', { payload: 1, id: ID, delayMs: 50_000 })
const active = both(pending, post('claim', { limit: 1 }))
const dead = both(active, post(`jobs/${ID}/fail`, { token: 1 }))

const MOVES: readonly [string, Step, (api: Api, queue: string) => Promise<ApiAnswer>][] = [
  ['enqueue', empty, post('jobs', { payload: 1 })],
  ['enqueue with all', empty, post('jobs', { payload: 1, delayMs: 1, startBy: 2e12, idempotencyKey: 'k' })],
  ['enqueue many', empty, post('jobs', { jobs: Array(10).fill({ payload: 1 }) })],
  ['claim', pending, post('claim', { limit: 1, claimId: 'c' })],
  ['complete', active, post(`jobs/${ID}/complete`, { token: 1 })],
  ['retry', active, post(`jobs/${ID}/retry`, { token: 1 })],
  ['retry to dead', active, post(`jobs/${ID}/retry`, { token: 1, maxAttempts: 1 })],
  ['fail', active, post(`jobs/${ID}/fail`, { token: 1 })],
  ['release', active, post(`jobs/${ID}/release`, { token: 1 })],
  ['release later', active, post(`jobs/${ID}/release`, { token: 1, delayMs: 500 })],
  ['extend', active, post(`jobs/${ID}/extend`, { token: 1, leaseMs: 5000 })],
  [
    'settle',
    active,
    post('settle', { items: [{ id: ID, token: 1, action: 'complete' }], claim: { limit: 1 } }),
  ],
  ['reap', both(active, makeOld('active')), post('reap')],
  ['reap by a claim', both(active, makeOld('active')), post('claim', { limit: 1 })],
  ['promote', both(scheduled, makeOld('schedule')), post('promote')],
  ['schedule now', scheduled, send('PUT', `jobs/${ID}/schedule`, { delayMs: 0 })],
  ['schedule later', scheduled, send('PUT', `jobs/${ID}/schedule`, { delayMs: 9000 })],
  ['redrive', dead, post(`jobs/${ID}/redrive`)],
  ['redrive many', dead, post('redrive')],
  ['pause', empty, post('pause')],
  ['settings', empty, send('PUT', 'settings', { leaseMs: 50 })],
]

const dump = async (queue: string): Promise<string> => {
  const keys = keyspace(queue)
  const rows = [await raw.run('HGETALL', keys.job(ID)), await raw.run('HGETALL', keys.meta)]
  for (const set of ['pending', 'active', 'schedule', 'dead'] as const)
    rows.push(await raw.run('ZRANGE', keys[set], 0, -1, 'WITHSCORES'))
  return JSON.stringify(rows)
}

describe('7: a Redis that is full and evicts nothing', () => {
  afterEach(() => raw.run('CONFIG', 'SET', 'maxmemory', 0))

  test.each(MOVES)('%s is made whole, or is 503 and changes nothing', async (_, prepare, move) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await prepare(api, queue)
    const before = await dump(queue)
    await raw.run('CONFIG', 'SET', 'maxmemory', 1)
    const { status, json } = await move(api, queue)
    const after = await dump(queue)
    await raw.run('CONFIG', 'SET', 'maxmemory', 0)
    if (status === 503) expect([json.code, after]).toEqual(['upstream', before])
    else expect([status, after !== before]).toEqual([200, true])
    expect(await census(raw.port, queue)).toEqual([])
  })

  test.each([
    ['remove', send('DELETE', `jobs/${ID}`)],
    ['purge', post('purge', { state: 'scheduled' })],
  ])('%s makes room', async (_, move) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await scheduled(api, queue)
    await raw.run('CONFIG', 'SET', 'maxmemory', 1)
    expect((await move(api, queue)).status).toBeLessThan(300)
    expect(await raw.run('EXISTS', keyspace(queue).job(ID))).toBe(0)
  })
})

describe('a Redis that takes no writes', () => {
  afterEach(() => raw.run('CONFIG', 'SET', 'min-replicas-to-write', 0))

  test.each(MOVES)('%s is 503 and changes nothing', async (_, prepare, move) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await prepare(api, queue)
    const before = await dump(queue)
    await raw.run('CONFIG', 'SET', 'min-replicas-to-write', 1)
    const { status, json } = await move(api, queue)
    await raw.run('CONFIG', 'SET', 'min-replicas-to-write', 0)
    expect([status, json.code, await dump(queue)]).toEqual([503, 'upstream', before])
  })
})
