/** Fault 7 and its neighbours: a Redis that is full and evicts nothing, and one that accepts no writes. */
import { afterEach, describe, expect, test } from 'vitest'
import { type ApiAnswer, apiOn } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
capturedLog()

const ID = 'JOB0KHTOWnGLuC'
type Step = (queue: TestQueue) => Promise<unknown>
type Move = (queue: TestQueue) => Promise<ApiAnswer>

const post =
  (end: string, body: object = {}): Move =>
  (queue) =>
    queue.post(end, body)
const schedule =
  (delayMs: number): Move =>
  (queue) =>
    queue.put(`jobs/${ID}/schedule`, { delayMs })
const both =
  (first: Step, second: Step): Step =>
  async (queue) => {
    await first(queue)
    await second(queue)
  }
const makeOld =
  (set: 'active' | 'schedule'): Step =>
  ({ keys }) =>
    raw.run('ZADD', keys[set], 1, ID)

const empty: Step = async () => {}
const pending = post('jobs', { payload: 1, id: ID })
const scheduled = post('jobs', { payload: 1, id: ID, delayMs: 50_000 })
const active = both(pending, post('claim', { limit: 1 }))
const dead = both(active, post(`jobs/${ID}/fail`, { token: 1 }))

const MOVES: readonly [string, Step, Move][] = [
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
  ['schedule now', scheduled, schedule(0)],
  ['schedule later', scheduled, schedule(9000)],
  ['redrive', dead, post(`jobs/${ID}/redrive`)],
  ['redrive many', dead, post('redrive')],
  ['pause', empty, post('pause')],
  ['settings', empty, (queue) => queue.put('settings', { leaseMs: 50 })],
]

async function dump({ keys }: TestQueue): Promise<string> {
  const rows = [await raw.run('HGETALL', keys.job(ID)), await raw.run('HGETALL', keys.meta)]
  for (const set of ['pending', 'active', 'schedule', 'dead'] as const)
    rows.push(await raw.run('ZRANGE', keys[set], 0, -1, 'WITHSCORES'))
  return JSON.stringify(rows)
}

describe('7: a Redis that is full and evicts nothing', () => {
  afterEach(() => raw.run('CONFIG', 'SET', 'maxmemory', 0))

  test.each(MOVES)(
    '%s on a full Redis succeeds completely or returns 503 and changes nothing',
    async (_, prepare, move) => {
      const queue = queueOn(apiOn(shared))
      await prepare(queue)
      const before = await dump(queue)
      await raw.run('CONFIG', 'SET', 'maxmemory', 1)
      const { status, json } = await move(queue)
      const after = await dump(queue)
      await raw.run('CONFIG', 'SET', 'maxmemory', 0)
      if (status === 503) expect([json.code, after]).toEqual(['upstream', before])
      else expect([status, after !== before]).toEqual([200, true])
      await expectConsistent(raw.port, queue.name)
    },
  )

  test.each([
    ['remove', (queue: TestQueue) => queue.remove(ID), 204],
    ['purge', post('purge', { state: 'scheduled' }), 200],
  ] as const)('%s succeeds on a full Redis', async (_, move, status) => {
    const queue = queueOn(apiOn(shared))
    await scheduled(queue)
    await raw.run('CONFIG', 'SET', 'maxmemory', 1)
    expect((await move(queue)).status).toBe(status)
    expect(await raw.run('EXISTS', queue.keys.job(ID))).toBe(0)
  })
})

describe('a Redis that accepts no writes', () => {
  afterEach(() => raw.run('CONFIG', 'SET', 'min-replicas-to-write', 0))

  test.each(MOVES)(
    '%s on a Redis that accepts no writes returns 503 and changes nothing',
    async (_, prepare, move) => {
      const queue = queueOn(apiOn(shared))
      await prepare(queue)
      const before = await dump(queue)
      await raw.run('CONFIG', 'SET', 'min-replicas-to-write', 1)
      const { status, json } = await move(queue)
      await raw.run('CONFIG', 'SET', 'min-replicas-to-write', 0)
      expect([status, json.code, await dump(queue)]).toEqual([503, 'upstream', before])
    },
  )
})
