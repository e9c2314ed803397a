/** Faults 1 to 9: jobs that were lost or doubled elsewhere. */
import { describe, expect, test, vi } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { apiOn } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { type ClaimedJob, queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { costOf, sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
capturedLog()

const ID = 'JOB0KHTOWnGLuC'

describe('1: a reply that is lost after the command has run', () => {
  const pending = (queue: TestQueue) => raw.run('ZRANGE', queue.keys.pending, 0, -1)

  test('an enqueue under a key whose reply is lost stores one job and returns its id', async () => {
    const warm = await warmQueue()
    let pass = 0
    for (const queue of [warm, queueOn(apiOn(shared), warm.name)]) {
      shared.bridge.dropReply()
      const answer = await queue.post('jobs', { payload: 'a', idempotencyKey: `k${pass++}` })
      expect([answer.status, answer.json.status]).toEqual([201, 'enqueued'])
      expect(await pending(queue)).toEqual([answer.json.id])
      await queue.claim()
    }
    await expectConsistent(raw.port, warm.name)
  })

  test('an enqueue under a key, with or without a delay, whose reply is lost returns the result of the first attempt', async () => {
    const queue = await warmQueue()
    for (const [body, status] of [
      [{ payload: 1, idempotencyKey: 'a', delayMs: 60_000 }, 'scheduled'],
      [{ payload: 1, idempotencyKey: 'b', runAt: Date.now() + 60_000 }, 'scheduled'],
      [{ payload: 1, idempotencyKey: 'c', runAt: 1 }, 'enqueued'],
      [{ payload: 1, idempotencyKey: 'd', delayMs: 0 }, 'enqueued'],
      [{ payload: 1, idempotencyKey: 'k' }, 'enqueued'],
    ] as const) {
      shared.bridge.dropReply()
      const answer = await queue.post('jobs', body)
      expect([answer.status, answer.json.status]).toEqual([201, status])
    }
    const again = await queue.post('jobs', { payload: 1, idempotencyKey: 'k' })
    expect(again.json.status).toBe('duplicate')
    expect(await queue.counts()).toMatchObject({ pending: 3, scheduled: 2 })
  })

  test('98: a batch under a key whose reply is lost neither loses nor doubles one', async () => {
    const queue = await warmQueue()
    shared.bridge.dropReply()
    const { results } = (
      await queue.post('jobs', { jobs: Array(100).fill({ payload: 1 }), idempotencyKey: 'batch' })
    ).json
    expect(results.map(({ status }: { status: string }) => status)).toEqual(Array(100).fill('enqueued'))
    expect(await pending(queue)).toEqual(results.map(({ id }: ClaimedJob) => id))
    await expectConsistent(raw.port, queue.name)
  })

  test('98: a batch repeated under its key returns the first results, whatever became of the jobs', async () => {
    const queue = await warmQueue()
    const jobs = [
      { payload: 1 },
      { payload: 2, delayMs: 60_000 },
      { payload: 3, runAt: 'never' },
      { text: 'x' },
    ]
    const body = { jobs, idempotencyKey: 'batch' }
    const first = (await queue.post('jobs', body)).json.results
    expect(first.map((result: { status?: string }) => result.status)).toEqual([
      'enqueued',
      'scheduled',
      undefined,
      'enqueued',
    ])
    const done = await queue.claimOne()
    await queue.post(`jobs/${done.id}/complete`, { token: done.token })
    const header = { headers: { 'Idempotency-Key': 'batch' } }
    for (const repeat of [await queue.post('jobs', body), await queue.post('jobs', { jobs }, header)])
      expect(repeat.json.results).toEqual(
        first.map((result: object) => ('id' in result ? { id: result.id, status: 'duplicate' } : result)),
      )
    expect(await queue.counts()).toMatchObject({ pending: 1, scheduled: 1, active: 0 })
    const other = await queue.post('jobs', { jobs: [{ payload: 1 }], idempotencyKey: 'batch' })
    expect([other.status, other.json.errors[0].path]).toEqual([400, 'idempotencyKey'])
  })

  test('98: a key for a batch costs two commands more, for the whole batch', async () => {
    const queue = await warmQueue()
    const jobs = Array(50).fill({ payload: 1 })
    const plain = await costOf(shared, () => queue.post('jobs', { jobs }))
    const keyed = await costOf(shared, () => queue.post('jobs', { jobs, idempotencyKey: 'batch' }))
    expect(keyed.total - plain.total).toBe(2)
  })

  test('208: a minted id that another job has is minted again, also when a reply is lost at the same time', async () => {
    const now = Date.now()
    const isolate = () => apiOn(shared, {}, { now: () => now })
    const queue = queueOn(isolate())
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5)
    const others = queueOn(isolate(), queue.name)
    const own = await queue.enqueueMany(20)
    shared.bridge.hangUp()
    const answer = await others.post('jobs', { payload: 'x', idempotencyKey: 'k' })
    random.mockRestore()
    expect([answer.status, answer.json.status]).toEqual([201, 'enqueued'])
    expect(own).not.toContain(answer.json.id)
    expect((await queue.counts()).pending).toBe(21)
  })

  test('an enqueue with an id of the caller is not repeated when its reply is lost: only the caller knows whose job it is', async () => {
    const queue = await warmQueue()
    shared.bridge.dropReply()
    const lost = await queue.post('jobs', { id: ID, payload: 1 })
    expect([lost.status, lost.json.code]).toEqual([503, 'upstream'])
    expect(lost.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    expect((await queue.post('jobs', { id: ID, payload: 1 })).json).toEqual({
      id: ID,
      status: 'duplicate',
    })
    expect(await pending(queue)).toEqual([ID])
  })

  test('an enqueue whose reply is lost twice returns 503, and repeating it with its idempotency key stores one job', async () => {
    const queue = await warmQueue()
    shared.bridge.dropReply({ times: 2 })
    const body = { payload: 1, idempotencyKey: 'k' }
    expect((await queue.post('jobs', body)).status).toBe(503)
    expect((await queue.post('jobs', body)).json.status).toBe('duplicate')
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

  test.each(MOVES)('%s %s %j returns 503 and is sent exactly once', async (method, path, body) => {
    const queue = await warmQueue()
    await queue.claim({})
    await shared.bridge.reset()
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    const answer = await queue.send(method, path, body)
    expect([answer.status, answer.json.code]).toEqual([503, 'upstream'])
    expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    expect((await shared.bridge.counts()).requests).toBe(1)
    await shared.bridge.reset()
  })

  test('an enqueue is sent exactly once without a key, and exactly twice with one', async () => {
    const queue = await warmQueue()
    for (const [body, requests] of [
      [{ payload: 1 }, 1],
      [{ jobs: [{ payload: 1, idempotencyKey: 'a' }, { payload: 2 }] }, 1],
      [{ payload: 1, idempotencyKey: 'k' }, 2],
      [{ jobs: [{ payload: 1 }], idempotencyKey: 'b' }, 2],
    ] as const) {
      shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
      expect((await queue.post('jobs', body)).status).toBe(503)
      expect((await shared.bridge.counts()).requests).toBe(requests)
      await shared.bridge.reset()
    }
    expect(await keysOf(raw.port, queue.name)).toEqual([])
  })

  test('an enqueue is not repeated after a timeout, an error status or a malformed reply', async () => {
    const queue = queueOn(apiOn(shared, { EMQ_REDIS_TIMEOUT_MS: '150' }))
    await queue.get()
    for (const fault of [
      () => shared.bridge.delay(400),
      () => shared.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }),
      () => shared.bridge.answer({ status: 502, body: '<html>' }),
      () => shared.bridge.answer({ status: 200, body: '{}' }),
    ]) {
      await shared.bridge.reset()
      fault()
      expect((await queue.post('jobs', { payload: 1 })).status).toBe(503)
      expect((await shared.bridge.counts()).requests).toBe(1)
    }
  })

  test('a claim whose reply is lost returns the same jobs when it is repeated with its claimId', async () => {
    const queue = await warmQueue()
    for (const payload of [1, 2, 3]) await queue.enqueue({ payload })
    const body = { limit: 2, claimId: 'run-1' }
    shared.bridge.dropReply({ match: 'claim:run-1' })
    expect((await queue.post('claim', body)).status).toBe(503)
    const jobs = await queue.claim(body)
    expect(jobs.map(({ payload, token }) => [payload, token])).toEqual([
      [1, 1],
      [2, 1],
    ])
    expect(await queue.counts()).toMatchObject({ pending: 1, active: 2 })
    await expectConsistent(raw.port, queue.name)
  })
})

describe('3: a slow worker whose job another consumer has claimed', () => {
  test('a slow worker is rejected as superseded, and the new consumer completes the job', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claim({ limit: 1, leaseMs: 100 })
    await queue.reapOne()
    expect(await queue.claim()).toMatchObject([{ id, token: 2 }])
    const before = await raw.run('HGETALL', queue.keys.job(id))
    const slow = await queue.post(`jobs/${id}/complete`, { token: 1 })
    expect(slow.json).toMatchObject({ status: 409, code: 'stale', reason: 'superseded' })
    expect(await raw.run('HGETALL', queue.keys.job(id))).toEqual(before)
    expect((await queue.post(`jobs/${id}/complete`, { token: 2 })).status).toBe(200)
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.completed])
  })

  test('settle rejects every action of a superseded token', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claim({ limit: 1, leaseMs: 10 })
    await queue.reapOne()
    await queue.claim()
    const items = [
      { id, token: 1, action: 'complete' },
      { id, token: 1, action: 'retry' },
      { id, token: 1, action: 'fail' },
      { id, token: 1, action: 'release' },
      { id, token: 1, action: 'extend', leaseMs: 1000 },
      { id, token: 2, action: 'complete' },
    ]
    const { results } = (await queue.post('settle', { items })).json
    for (const result of results.slice(0, 5))
      expect(result.error).toMatchObject({ code: 'stale', reason: 'superseded' })
    expect(results[5]).toEqual({ id, status: 'completed' })
  })
})

describe('4: a late report on a job that is gone', () => {
  test('a late report on a deleted job returns gone, writes no row and does not block the id', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ id: ID })
    await queue.claim({ limit: 1, leaseMs: 10 })
    await queue.reapOne()
    await queue.claim()
    await queue.post(`jobs/${id}/complete`, { token: 2 })
    for (const token of [1, 2, 3])
      for (const [action, more] of [
        ['retry', {}],
        ['fail', {}],
        ['release', {}],
        ['extend', { leaseMs: 1000 }],
        ['complete', {}],
      ] as const) {
        const late = await queue.post(`jobs/${id}/${action}`, { token, ...more })
        expect([late.status, late.json.code], `${action} ${token}`).toEqual([410, 'gone'])
      }
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.completed])
    expect((await queue.post('jobs', { payload: 2, id })).status).toBe(201)
    await expectConsistent(raw.port, queue.name)
  })
})

describe('5: the reply of complete is lost', () => {
  test('a repeated complete returns gone when the first reply was lost', async () => {
    const queue = await warmQueue()
    const id = await queue.enqueue()
    await queue.claim()
    shared.bridge.dropReply()
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(503)
    const again = await queue.post(`jobs/${id}/complete`, { token: 1 })
    expect([again.status, again.json.code]).toEqual([410, 'gone'])
    expect((await queue.stats()).completed).toBe(1)
  })

  test('a repeated settle reports the outcome of each item when the first reply was lost', async () => {
    const queue = await warmQueue()
    const ids = [await queue.enqueue(), await queue.enqueue()]
    await queue.claim({ limit: 2 })
    const items = [
      { id: ids[0], token: 1, action: 'complete' },
      { id: ids[1], token: 1, action: 'retry', delayMs: 60_000 },
    ]
    shared.bridge.dropReply()
    expect((await queue.post('settle', { items })).status).toBe(503)
    const { results } = (await queue.post('settle', { items })).json
    expect(results).toMatchObject([
      { id: ids[0], error: { code: 'gone' } },
      { id: ids[1], error: { code: 'stale', reason: 'released' } },
    ])
    await expectConsistent(raw.port, queue.name)
  })
})

describe('6: ids without rows', () => {
  test.each([{}, { limit: 10 }])(
    'a claim with %j removes and counts the ghosts in pending and returns the job after them',
    async (body) => {
      const queue = queueOn(apiOn(shared))
      const keys = queue.keys
      await raw.run('ZADD', keys.pending, 0, 'JOB00000000000', 0, 'JOB00000000001')
      // A row without a payload, as an older client leaves it.
      await raw.run('HSET', keys.job('JOB00000000001'), 'state', 'pending', 'attempts', '7')
      const id = await queue.enqueue()
      expect(await queue.claim(body)).toMatchObject([{ id, token: 1, payload: 1 }])
      expect((await queue.stats()).ghosts).toBe(2)
      expect(await raw.run('EXISTS', keys.job('JOB00000000000'), keys.job('JOB00000000001'))).toBe(0)
      await expectConsistent(raw.port, queue.name)
    },
  )

  test('reap and promote remove lapsed and due ghosts', async () => {
    const queue = queueOn(apiOn(shared))
    const keys = queue.keys
    await raw.run('ZADD', keys.active, 1, 'JOB00000000000')
    await raw.run('ZADD', keys.schedule, 1, 'JOB00000000001')
    const [id] = [await queue.enqueue({ delayMs: 1 })]
    await until(async () => (await queue.post('promote')).json.promoted === 1)
    await queue.post('reap')
    expect(await queue.claim()).toMatchObject([{ id }])
    expect((await queue.stats()).ghosts).toBe(2)
    expect(await raw.run('EXISTS', keys.job('JOB00000000000'), keys.job('JOB00000000001'))).toBe(0)
    await expectConsistent(raw.port, queue.name)
  })

  test('maintenance removes ghosts, and an enqueue of the id of a ghost succeeds in every set', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const keys = queue.keys
    for (const [nth, set] of ['active', 'schedule', 'dead', 'pending'].entries()) {
      const id = `JOB0000000000${nth}`
      await raw.run(
        'ZADD',
        `emq:{${queue.name}}:${set}`,
        set === 'dead' || set === 'pending' ? 0 : Date.now() + 60_000,
        id,
      )
      expect((await queue.post('jobs', { payload: nth, id })).status, set).toBe(201)
    }
    await expectConsistent(raw.port, queue.name)
    expect(await raw.run('ZCARD', keys.pending)).toBe(4)
    await raw.run('ZADD', keys.active, 1, ID)
    await raw.run('ZADD', keys.schedule, 1, ID)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 1, queue.name)
    await api.call('POST', '/v1/maintenance', {})
    await expectConsistent(raw.port, queue.name)
  })

  test('redrive and purge succeed in spite of ghosts in dead', async () => {
    const queue = queueOn(apiOn(shared))
    const keys = queue.keys
    const id = await queue.enqueue()
    await queue.claim()
    await queue.post(`jobs/${id}/fail`, { token: 1 })
    await raw.run('ZADD', keys.dead, 0, 'JOB00000000000')
    expect((await queue.post('jobs/JOB00000000000/redrive')).status).toBe(410)
    expect((await queue.post('redrive')).json).toMatchObject({ redriven: 1, more: false })
    expect(await queue.claim()).toMatchObject([{ id, token: 2 }])
    expect((await queue.post('purge', { state: 'dead' })).json.more).toBe(false)
    await expectConsistent(raw.port, queue.name)
  })
})

describe('7: a Redis that evicts', () => {
  test('a Redis that evicts makes the service unready, and an evicted row leaves a ghost', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    await raw.run('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    try {
      const ready = await api.call('GET', '/readyz', undefined, { token: null })
      expect([ready.status, ready.json.checks.redis]).toEqual([503, 'evicting'])
      const lost = await queue.enqueue()
      const kept = await queue.enqueue()
      await raw.run('DEL', queue.keys.job(lost))
      expect(await queue.claim({})).toMatchObject([{ id: kept }])
      expect((await queue.stats()).ghosts).toBe(1)
      await expectConsistent(raw.port, queue.name)
    } finally {
      await raw.run('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    }
  })

  test('a consumer whose row was evicted receives gone', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claim({ limit: 1, leaseMs: 10 })
    await raw.run('DEL', queue.keys.job(id))
    expect((await queue.post(`jobs/${id}/retry`, { token: 1 })).status).toBe(410)
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(410)
    await queue.reapOne()
    await expectConsistent(raw.port, queue.name)
  })
})

describe('8: a failover that resets a counter', () => {
  test('a token counter that a failover reset causes at most one double run', async () => {
    const queue = queueOn(apiOn(shared))
    const keys = queue.keys
    const id = await queue.enqueue()
    await queue.claim()
    await raw.run('ZREM', keys.active, id)
    await raw.run('ZADD', keys.pending, 0, id)
    await raw.run('HSET', keys.job(id), 'attempts', '0', 'state', 'pending')
    expect(await queue.claim()).toMatchObject([{ id, token: 1 }])
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(200)
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(410)
    expect(await queue.claim()).toEqual([])
    expect(await keysOf(raw.port, queue.name)).toEqual([keys.completed])
  })
})

describe('9: adding an id again', () => {
  test('an id that is enqueued again is a duplicate in every state, and the row does not change', async () => {
    const queue = queueOn(apiOn(shared))
    const again = async (state: string) => {
      const before = await raw.run('HGETALL', queue.keys.job(ID))
      for (const body of [
        { payload: 2 },
        { payload: 2, delayMs: 60_000 },
        { payload: 2, maxAttempts: 9, startBy: 1 },
      ]) {
        const answer = await queue.post('jobs', { id: ID, ...body })
        expect([answer.status, answer.json], state).toEqual([200, { id: ID, status: 'duplicate' }])
      }
      expect(await raw.run('HGETALL', queue.keys.job(ID)), state).toEqual(before)
      expect(await queue.job(ID)).toMatchObject({ state, payload: 1 })
      await expectConsistent(raw.port, queue.name)
    }
    await queue.enqueue({ id: ID })
    await again('pending')
    await queue.claim()
    await again('active')
    await queue.post(`jobs/${ID}/retry`, { token: 1, delayMs: 60_000 })
    await again('scheduled')
    await queue.put(`jobs/${ID}/schedule`, { delayMs: 0 })
    await queue.claim()
    await queue.post(`jobs/${ID}/fail`, { token: 2 })
    await again('dead')
    expect(await raw.run('ZCARD', queue.keys.startBy)).toBe(0)
  })

  test('parallel enqueues of one id store one job', async () => {
    const queue = queueOn(apiOn(shared))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => queue.post('jobs', { id: ID, payload })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    const winner = answers.findIndex(({ status }) => status === 201)
    expect((await queue.job(ID)).payload).toBe(winner)
  })
})

/** A queue on an isolate that has already checked the version of the database. */
async function warmQueue(): Promise<TestQueue> {
  const queue = queueOn(apiOn(shared))
  await queue.get()
  await shared.bridge.reset()
  return queue
}
