/** Faults 1 to 9: jobs that were lost or doubled elsewhere. */
import { describe, expect, test } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
capturedLog()

const ID = 'JOB0KHTOWnGLuC'
type Job = { id: string; token: number; payload: unknown }

const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const enqueue = async (api: Api, queue: string, body: object = { payload: 1 }): Promise<string> =>
  (await post(api, queue, 'jobs', body)).json.id
const claim = async (api: Api, queue: string, body: object = { limit: 1 }): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const job = (api: Api, queue: string, id: string) => api.call('GET', `/v1/queues/${queue}/jobs/${id}`)
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const reap = (api: Api, queue: string) =>
  until(async () => (await post(api, queue, 'reap')).json.reaped === 1)

/** An isolate that has passed the fence. */
async function settledApi(queue: string): Promise<Api> {
  const api = apiOn(shared)
  await api.call('GET', `/v1/queues/${queue}`)
  await shared.bridge.reset()
  return api
}

describe('1: a reply that is lost after the command has run', () => {
  const pending = async (queue: string) => raw.run('ZRANGE', keyspace(queue).pending, 0, -1)

  test('of one enqueue: one job is pending, and the id answered is the one stored', async () => {
    const queue = freshQueue()
    for (const api of [await settledApi(queue), apiOn(shared)]) {
      shared.bridge.dropReply()
      const answer = await post(api, queue, 'jobs', { payload: 'a' })
      expect([answer.status, answer.json.status]).toEqual([201, 'enqueued'])
      expect(await pending(queue)).toEqual([answer.json.id])
      await claim(api, queue)
    }
    await clean(queue)
  })

  test('of a scheduled or a keyed job: the answer is that of the first time', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    for (const [body, status] of [
      [{ payload: 1, delayMs: 60_000 }, 'scheduled'],
      [{ payload: 1, runAt: Date.now() + 60_000 }, 'scheduled'],
      [{ payload: 1, runAt: 1 }, 'enqueued'],
      [{ payload: 1, delayMs: 0 }, 'enqueued'],
      [{ payload: 1, idempotencyKey: 'k' }, 'enqueued'],
    ] as const) {
      shared.bridge.dropReply()
      const answer = await post(api, queue, 'jobs', body)
      expect([answer.status, answer.json.status]).toEqual([201, status])
    }
    const again = await post(api, queue, 'jobs', { payload: 1, idempotencyKey: 'k' })
    expect(again.json.status).toBe('duplicate')
    expect((await stats(api, queue)).counts).toMatchObject({ pending: 3, scheduled: 2 })
  })

  test('of many jobs: none is lost or doubled', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    shared.bridge.dropReply()
    const { results } = (await post(api, queue, 'jobs', { jobs: Array(100).fill({ payload: 1 }) })).json
    expect(results.map(({ status }: { status: string }) => status)).toEqual(Array(100).fill('enqueued'))
    expect(await pending(queue)).toEqual(results.map(({ id }: Job) => id))
    await clean(queue)
  })

  test('of an id that the caller chose: only the caller can tell its own from another, so it repeats', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    shared.bridge.dropReply()
    const lost = await post(api, queue, 'jobs', { id: ID, payload: 1 })
    expect([lost.status, lost.json.code]).toEqual([503, 'upstream'])
    expect(lost.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    expect((await post(api, queue, 'jobs', { id: ID, payload: 1 })).json).toEqual({
      id: ID,
      status: 'duplicate',
    })
    expect(await pending(queue)).toEqual([ID])
  })

  test('twice in a row is 503, and a caller that repeats with its key has one job', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    shared.bridge.dropReply({ times: 2 })
    const body = { payload: 1, idempotencyKey: 'k' }
    expect((await post(api, queue, 'jobs', body)).status).toBe(503)
    expect((await post(api, queue, 'jobs', body)).json.status).toBe('duplicate')
    expect(await pending(queue)).toHaveLength(1)
  })
})

describe('2: an endpoint that always hangs up', () => {
  const MOVES = [
    ['POST', 'claim', {}],
    ['POST', 'claim', { limit: 1 }],
    ['POST', 'claim', { limit: 1, claimId: 'c' }],
    ['POST', 'jobs', { payload: 1, id: ID }],
    ['POST', `jobs/${ID}/complete`, { token: 1 }],
    ['POST', `jobs/${ID}/retry`, { token: 1 }],
    ['POST', `jobs/${ID}/fail`, { token: 1 }],
    ['POST', `jobs/${ID}/release`, { token: 1 }],
    ['POST', `jobs/${ID}/extend`, { token: 1, leaseMs: 1000 }],
    ['POST', 'settle', { items: [{ id: ID, action: 'complete', token: 1 }], claim: { limit: 1 } }],
    ['POST', 'promote', {}],
    ['POST', 'reap', {}],
    ['POST', `jobs/${ID}/redrive`, {}],
    ['POST', 'redrive', {}],
    ['PUT', `jobs/${ID}/schedule`, { delayMs: 1 }],
    ['DELETE', `jobs/${ID}`, undefined],
    ['POST', 'purge', { state: 'dead' }],
    ['PUT', 'settings', { leaseMs: 50 }],
    ['GET', '', undefined],
  ] as const

  test.each(MOVES)('%s %s %j: 503, and sent exactly once', async (method, path, body) => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    await claim(api, queue, {})
    await shared.bridge.reset()
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    const answer = await api.call(method, `/v1/queues/${queue}/${path}`.replace(/\/$/, ''), body)
    expect([answer.status, answer.json.code]).toEqual([503, 'upstream'])
    expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    expect((await shared.bridge.counts()).requests).toBe(1)
    await shared.bridge.reset()
  })

  test('what is safe to repeat, a job whose id was minted for it, is sent once more and no oftener', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    expect((await post(api, queue, 'jobs', { payload: 1 })).status).toBe(503)
    expect((await shared.bridge.counts()).requests).toBe(2)
    await shared.bridge.reset()
    expect(await keysOf(raw.port, queue)).toEqual([])
  })

  test('what is no lost answer is never sent again: a timeout, a status, nonsense', async () => {
    const queue = freshQueue()
    const api = apiOn(shared, { EMQ_REDIS_TIMEOUT_MS: '150' })
    await api.call('GET', `/v1/queues/${queue}`)
    for (const fault of [
      () => shared.bridge.delay(400),
      () => shared.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }),
      () => shared.bridge.answer({ status: 502, body: '<html>' }),
      () => shared.bridge.answer({ status: 200, body: '{}' }),
    ]) {
      await shared.bridge.reset()
      fault()
      expect((await post(api, queue, 'jobs', { payload: 1 })).status).toBe(503)
      expect((await shared.bridge.counts()).requests).toBe(1)
    }
  })

  test('a lost claim is repeated by its claimId, and nothing is handed out twice', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    for (const payload of [1, 2, 3]) await enqueue(api, queue, { payload })
    const body = { limit: 2, claimId: 'run-1' }
    shared.bridge.dropReply({ match: 'claim:run-1' })
    expect((await post(api, queue, 'claim', body)).status).toBe(503)
    const jobs = await claim(api, queue, body)
    expect(jobs.map(({ payload, token }) => [payload, token])).toEqual([
      [1, 1],
      [2, 1],
    ])
    expect((await stats(api, queue)).counts).toMatchObject({ pending: 1, active: 2 })
    await clean(queue)
  })
})

describe('3: a slow worker whose job was handed on', () => {
  test('is refused as superseded; the new holder completes', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claim(api, queue, { limit: 1, leaseMs: 100 })
    await reap(api, queue)
    expect(await claim(api, queue)).toMatchObject([{ id, token: 2 }])
    const before = await raw.run('HGETALL', keyspace(queue).job(id))
    const slow = await post(api, queue, `jobs/${id}/complete`, { token: 1 })
    expect(slow.json).toMatchObject({ status: 409, code: 'stale', reason: 'superseded' })
    expect(await raw.run('HGETALL', keyspace(queue).job(id))).toEqual(before)
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 2 })).status).toBe(200)
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).completed])
  })

  test('is refused in a batch as well, and by every other move', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    await reap(api, queue)
    await claim(api, queue)
    const items = [
      { id, token: 1, action: 'complete' },
      { id, token: 1, action: 'retry' },
      { id, token: 1, action: 'fail' },
      { id, token: 1, action: 'release' },
      { id, token: 1, action: 'extend', leaseMs: 1000 },
      { id, token: 2, action: 'complete' },
    ]
    const { results } = (await post(api, queue, 'settle', { items })).json
    for (const result of results.slice(0, 5))
      expect(result.error).toMatchObject({ code: 'stale', reason: 'superseded' })
    expect(results[5]).toEqual({ id, status: 'completed' })
  })
})

describe('4: a late report on a job that is gone', () => {
  test('is refused, creates no row, and blocks no id', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { payload: 1, id: ID })
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    await reap(api, queue)
    await claim(api, queue)
    await post(api, queue, `jobs/${id}/complete`, { token: 2 })
    for (const token of [1, 2, 3])
      for (const [action, more] of [
        ['retry', {}],
        ['fail', {}],
        ['release', {}],
        ['extend', { leaseMs: 1000 }],
        ['complete', {}],
      ] as const) {
        const late = await post(api, queue, `jobs/${id}/${action}`, { token, ...more })
        expect([late.status, late.json.code], `${action} ${token}`).toEqual([410, 'gone'])
      }
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).completed])
    expect((await post(api, queue, 'jobs', { payload: 2, id })).status).toBe(201)
    await clean(queue)
  })
})

describe('5: the reply of complete is lost', () => {
  test('the caller repeats it and is told gone', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    const id = await enqueue(api, queue)
    await claim(api, queue)
    shared.bridge.dropReply()
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(503)
    const again = await post(api, queue, `jobs/${id}/complete`, { token: 1 })
    expect([again.status, again.json.code]).toEqual([410, 'gone'])
    expect((await stats(api, queue)).completed).toBe(1)
  })

  test('of settle, too: each item says what became of it', async () => {
    const queue = freshQueue()
    const api = await settledApi(queue)
    const ids = [await enqueue(api, queue), await enqueue(api, queue)]
    await claim(api, queue, { limit: 2 })
    const items = [
      { id: ids[0], token: 1, action: 'complete' },
      { id: ids[1], token: 1, action: 'retry', delayMs: 60_000 },
    ]
    shared.bridge.dropReply()
    expect((await post(api, queue, 'settle', { items })).status).toBe(503)
    const { results } = (await post(api, queue, 'settle', { items })).json
    expect(results).toMatchObject([
      { id: ids[0], error: { code: 'gone' } },
      { id: ids[1], error: { code: 'stale', reason: 'released' } },
    ])
    await clean(queue)
  })
})

describe('6: ids without rows', () => {
  test.each([{}, { limit: 10 }])(
    'in pending: dropped and counted by a claim with %j, the good job delivered',
    async (body) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const keys = keyspace(queue)
      await raw.run('ZADD', keys.pending, 0, 'JOB00000000000', 0, 'JOB00000000001')
      // What an older client left: a row without a payload.
      await raw.run('HSET', keys.job('JOB00000000001'), 'state', 'pending', 'attempts', '7')
      const id = await enqueue(api, queue)
      expect(await claim(api, queue, body)).toMatchObject([{ id, token: 1, payload: 1 }])
      expect((await stats(api, queue)).ghosts).toBe(2)
      expect(await raw.run('EXISTS', keys.job('JOB00000000000'), keys.job('JOB00000000001'))).toBe(0)
      await clean(queue)
    },
  )

  test('in active, lapsed, and in the schedule, due: dropped by reap and promote', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const keys = keyspace(queue)
    await raw.run('ZADD', keys.active, 1, 'JOB00000000000')
    await raw.run('ZADD', keys.schedule, 1, 'JOB00000000001')
    const [id] = [await enqueue(api, queue, { payload: 1, delayMs: 1 })]
    await until(async () => (await post(api, queue, 'promote')).json.promoted === 1)
    await post(api, queue, 'reap')
    expect(await claim(api, queue)).toMatchObject([{ id }])
    expect((await stats(api, queue)).ghosts).toBe(2)
    expect(await raw.run('EXISTS', keys.job('JOB00000000000'), keys.job('JOB00000000001'))).toBe(0)
    await clean(queue)
  })

  test('in any set: dropped by maintenance, and no obstacle to an enqueue of that id', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const keys = keyspace(queue)
    for (const [nth, set] of ['active', 'schedule', 'dead', 'pending'].entries()) {
      const id = `JOB0000000000${nth}`
      await raw.run(
        'ZADD',
        `emq:{${queue}}:${set}`,
        set === 'dead' || set === 'pending' ? 0 : Date.now() + 60_000,
        id,
      )
      expect((await post(api, queue, 'jobs', { payload: nth, id })).status, set).toBe(201)
    }
    await clean(queue)
    expect(await raw.run('ZCARD', keys.pending)).toBe(4)
    await raw.run('ZADD', keys.active, 1, ID)
    await raw.run('ZADD', keys.schedule, 1, ID)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 1, queue)
    await api.call('POST', '/v1/maintenance', {})
    await clean(queue)
  })

  test('that are dead are no obstacle to redrive and purge', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const keys = keyspace(queue)
    const id = await enqueue(api, queue)
    await claim(api, queue)
    await post(api, queue, `jobs/${id}/fail`, { token: 1 })
    await raw.run('ZADD', keys.dead, 0, 'JOB00000000000')
    expect((await post(api, queue, 'jobs/JOB00000000000/redrive')).status).toBe(410)
    expect((await post(api, queue, 'redrive')).json).toMatchObject({ redriven: 1, more: false })
    expect(await claim(api, queue)).toMatchObject([{ id, token: 2 }])
    expect((await post(api, queue, 'purge', { state: 'dead' })).json.more).toBe(false)
    await clean(queue)
  })
})

describe('7: a Redis that evicts', () => {
  test('makes the service unready, and what it took are ghosts', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await raw.run('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    try {
      const ready = await api.call('GET', '/readyz', undefined, { token: null })
      expect([ready.status, ready.json.checks.redis]).toEqual([503, 'evicting'])
      const lost = await enqueue(api, queue)
      const kept = await enqueue(api, queue)
      await raw.run('DEL', keyspace(queue).job(lost))
      expect(await claim(api, queue, {})).toMatchObject([{ id: kept }])
      expect((await stats(api, queue)).ghosts).toBe(1)
      await clean(queue)
    } finally {
      await raw.run('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    }
  })

  test('that took the row of a job that is held: its holder is told gone', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    await raw.run('DEL', keyspace(queue).job(id))
    expect((await post(api, queue, `jobs/${id}/retry`, { token: 1 })).status).toBe(410)
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(410)
    await until(async () => (await post(api, queue, 'reap')).json.reaped === 1)
    await clean(queue)
  })
})

describe('8: a counter that went back in a failover', () => {
  test('is at worst one double run', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const keys = keyspace(queue)
    const id = await enqueue(api, queue)
    await claim(api, queue)
    await raw.run('ZREM', keys.active, id)
    await raw.run('ZADD', keys.pending, 0, id)
    await raw.run('HSET', keys.job(id), 'attempts', '0', 'state', 'pending')
    expect(await claim(api, queue)).toMatchObject([{ id, token: 1 }])
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(200)
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(410)
    expect(await claim(api, queue)).toEqual([])
    expect(await keysOf(raw.port, queue)).toEqual([keys.completed])
  })
})

describe('9: adding an id again', () => {
  test('is a duplicate in every state; row and token stay as they are', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const again = async (state: string) => {
      const before = await raw.run('HGETALL', keyspace(queue).job(ID))
      for (const body of [
        { payload: 2 },
        { payload: 2, delayMs: 60_000 },
        { payload: 2, maxAttempts: 9, startBy: 1 },
      ]) {
        const answer = await post(api, queue, 'jobs', { id: ID, ...body })
        expect([answer.status, answer.json], state).toEqual([200, { id: ID, status: 'duplicate' }])
      }
      expect(await raw.run('HGETALL', keyspace(queue).job(ID)), state).toEqual(before)
      expect((await job(api, queue, ID)).json).toMatchObject({ state, payload: 1 })
      await clean(queue)
    }
    await enqueue(api, queue, { payload: 1, id: ID })
    await again('pending')
    await claim(api, queue)
    await again('active')
    await post(api, queue, `jobs/${ID}/retry`, { token: 1, delayMs: 60_000 })
    await again('scheduled')
    await api.call('PUT', `/v1/queues/${queue}/jobs/${ID}/schedule`, { delayMs: 0 })
    await claim(api, queue)
    await post(api, queue, `jobs/${ID}/fail`, { token: 2 })
    await again('dead')
    expect(await raw.run('ZCARD', keyspace(queue).startBy)).toBe(0)
  })

  test('is one job, however many add it at once', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => post(api, queue, 'jobs', { id: ID, payload })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    const winner = answers.findIndex(({ status }) => status === 201)
    expect((await job(api, queue, ID)).json.payload).toBe(winner)
  })
})
