/** Consuming over HTTP: claims in both forms, waiting, and every move of a job that was claimed. */
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'
type Job = { id: string; token: number; payload: unknown; leaseMs: number }

const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const put = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('PUT', `/v1/queues/${queue}/${path}`, body)
const enqueue = async (api: Api, queue: string, body: object = { payload: 1 }): Promise<string> =>
  (await post(api, queue, 'jobs', body)).json.id
const fill = async (api: Api, queue: string, count: number, more: object = {}): Promise<string[]> => {
  const jobs = Array.from({ length: count }, (_, payload) => ({ payload, ...more }))
  return (await post(api, queue, 'jobs', { jobs })).json.results.map(({ id }: Job) => id)
}
const claim = async (api: Api, queue: string, body: object = { limit: 1 }): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs
const claimOne = async (api: Api, queue: string, body: object = {}): Promise<Job> => {
  const [job] = await claim(api, queue, { limit: 1, ...body })
  if (job === undefined) throw new Error('there is no job')
  return job
}
const job = async (api: Api, queue: string, id: string) =>
  (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const counts = async (api: Api, queue: string) => (await stats(api, queue)).counts
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const lapse = (api: Api, queue: string): Promise<boolean> =>
  until(async () => (await post(api, queue, 'reap')).json.reaped === 1)

describe('a claim', () => {
  test.each([{}, { limit: 1 }, { limit: 100 }])(
    'with %j hands out the oldest job under a lease',
    async (body) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const [first] = await fill(api, queue, 2)
      const answer = await post(api, queue, 'claim', { ...body, leaseMs: 5000 })
      expect(answer.status).toBe(200)
      expect(answer.json.jobs).toHaveLength(body.limit === 100 ? 2 : 1)
      expect(answer.json.jobs[0]).toEqual({
        id: first,
        queue,
        token: 1,
        leaseMs: 5000,
        enqueuedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        payload: 0,
      })
      const { leaseUntil, state, attempts } = await job(api, queue, first ?? '')
      expect({ state, attempts }).toEqual({ state: 'active', attempts: 1 })
      expect(Math.abs(Date.parse(leaseUntil) - Date.now() - 5000)).toBeLessThan(2000)
      await clean(queue)
    },
  )

  test.each([{}, { limit: 1 }])(
    'with %j takes the lease of the request, the queue, or 30 seconds',
    async (body) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      await fill(api, queue, 3)
      expect((await claim(api, queue, body))[0]?.leaseMs).toBe(30_000)
      await put(api, queue, 'settings', { leaseMs: 7000 })
      expect((await claim(api, queue, body))[0]?.leaseMs).toBe(7000)
      expect((await claim(api, queue, { ...body, leaseMs: 10 }))[0]?.leaseMs).toBe(10)
    },
  )

  test('with a limit takes one subrequest; without one, one too, and one more at most once a second', async () => {
    let now = Date.now()
    const api = apiOn(shared, {}, { now: () => now })
    const queue = freshQueue()
    await fill(api, queue, 10)
    await shared.bridge.reset()
    await claim(api, queue, { limit: 5 })
    expect((await shared.bridge.counts()).requests).toBe(1)

    await claim(api, queue, {})
    await shared.bridge.reset()
    for (const _ of [1, 2, 3]) await claim(api, queue, {})
    const single = await shared.bridge.counts()
    expect([single.requests, single.total]).toEqual([3, 3 * 7])
    now += 1000
    await shared.bridge.reset()
    for (const _ of [1, 2]) await claim(api, queue, {})
    expect((await shared.bridge.counts()).requests).toBe(3)
  })

  test('of an empty queue is calm: no jobs and a hint that grows, and begins anew', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const body of [{ limit: 1 }, {}]) {
      const hints: number[] = []
      for (const _ of Array(8)) {
        const answer = await post(api, queue, 'claim', body)
        expect(answer.status).toBe(200)
        expect(answer.json).toEqual({ jobs: [], retryAfterMs: expect.any(Number) })
        hints.push(answer.json.retryAfterMs)
      }
      expect(hints).toEqual([...hints].sort((a, b) => a - b))
      expect(hints[0]).toBeLessThan(hints.at(-1) ?? 0)
      expect(hints[0]).toBeGreaterThan(0)
      await enqueue(api, queue)
      const found = (await post(api, queue, 'claim', body)).json
      expect(found).not.toHaveProperty('retryAfterMs')
      expect((await post(api, queue, 'claim', body)).json.retryAfterMs).toBe(hints[0])
      await post(api, queue, `jobs/${found.jobs[0].id}/complete`, { token: 1 })
      await enqueue(api, queue)
      await claim(api, queue, body)
    }
    expect(await keysOf(raw.port, freshQueue())).toEqual([])
  })

  test('of an empty queue hints at the next job that is due', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const _ of Array(6)) await claim(api, queue)
    await enqueue(api, queue, { payload: 1, delayMs: 300 })
    const { retryAfterMs } = (await post(api, queue, 'claim', { limit: 1 })).json
    expect(retryAfterMs).toBeGreaterThan(0)
    expect(retryAfterMs).toBeLessThanOrEqual(300)
  })

  test('leaves no trace in a queue that nobody uses', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const body of [{}, { limit: 5, claimId: 'c' }]) await post(api, queue, 'claim', body)
    expect(await keysOf(raw.port, queue)).toEqual([])
    expect((await api.call('GET', `/v1/queues/${queue}`)).status).toBe(404)
  })

  test('without a limit passes ghosts by and removes them', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const nth of [0, 1, 2]) await raw.run('ZADD', keyspace(queue).pending, 0, `JOB0000000000${nth}`)
    const id = await enqueue(api, queue)
    expect((await claim(api, queue, {}))[0]).toMatchObject({ id, token: 1 })
    await clean(queue)
    expect((await api.call('GET', `/v1/queues/${queue}`)).json.ghosts).toBe(3)
  })

  test.each([
    [{}, 100],
    [{ limit: 10 }, 910],
  ])('%j that stops after %i ghosts says more: true instead of a hint', async (body, ghosts) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = Array.from({ length: ghosts }, (_, nth) => `JOB${String(nth).padStart(11, '0')}`)
    await raw.run('ZADD', keyspace(queue).pending, ...ids.flatMap((id) => [0, id]))
    const id = await enqueue(api, queue)
    expect((await post(api, queue, 'claim', body)).json).toEqual({ jobs: [], more: true })
    const answer = (await post(api, queue, 'claim', body)).json
    expect(answer).toEqual({ jobs: [expect.objectContaining({ id })] })
    await clean(queue)
  })

  test('of a paused queue in which more is due than one claim sweeps has a hint, not more', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, 101, { delayMs: 60_000 })
    await raw.run('ZADD', keyspace(queue).schedule, ...ids.flatMap((id) => [0, id]))
    await post(api, queue, 'pause')
    const hint = { jobs: [], retryAfterMs: expect.any(Number), paused: true }
    expect((await post(api, queue, 'claim', { limit: 10 })).json).toEqual(hint)
  })

  test('stops short of 8 MiB of payload', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const grow = "return redis.call('HSET', KEYS[1], 'payload', string.rep('x', 4500000))"
    for (const id of await fill(api, queue, 2)) await raw.run('EVAL', grow, 1, keyspace(queue).job(id))
    expect(await claim(api, queue, { limit: 100 })).toHaveLength(1)
    expect(await claim(api, queue, { limit: 100 })).toHaveLength(1)
    await clean(queue)
  })
})

describe('a claimId', () => {
  test('gives the jobs of a claim again, with their tokens and what is left of the lease', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await fill(api, queue, 5)
    const body = { limit: 3, claimId: 'run-1:a', leaseMs: 60_000 }
    const first = await claim(api, queue, body)
    expect(first).toHaveLength(3)
    const again = await until(async () => {
      const jobs = await claim(apiOn(shared), queue, body)
      return (jobs[0]?.leaseMs ?? 0) < 60_000 && jobs
    })
    expect(again.map(({ id, token, payload }) => [id, token, payload])).toEqual(
      first.map(({ id, token, payload }) => [id, token, payload]),
    )
    for (const { leaseMs } of again) {
      expect(leaseMs).toBeLessThan(60_000)
      expect(leaseMs).toBeGreaterThan(50_000)
    }
    await post(api, queue, `jobs/${first[0]?.id}/complete`, { token: 1 })
    expect((await claim(api, queue, body)).map(({ id }) => id)).toEqual([first[1]?.id, first[2]?.id])
    expect((await claim(api, queue, { ...body, claimId: 'run-2' })).length).toBe(2)
    await clean(queue)
  })

  test('is a new claim when none is left, and an empty one is not remembered', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const body = { limit: 3, claimId: 'c' }
    expect(await claim(api, queue, body)).toEqual([])
    const [one, two] = await fill(api, queue, 2)
    expect((await claim(api, queue, { ...body, limit: 1 })).map(({ id }) => id)).toEqual([one])
    await post(api, queue, `jobs/${one}/complete`, { token: 1 })
    expect((await claim(api, queue, body)).map(({ id }) => id)).toEqual([two])
    await clean(queue)
  })
})

describe('waiting', () => {
  test('is answered as soon as a job is there', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const body of [{ limit: 5 }, {}]) {
      const startedAt = Date.now()
      const before = (await shared.bridge.counts()).requests
      const waiting = claim(api, queue, { ...body, waitMs: 20_000 })
      await until(async () => (await shared.bridge.counts()).requests > before + 2)
      const id = await enqueue(api, queue)
      expect((await waiting).map((found) => found.id)).toEqual([id])
      expect(Date.now() - startedAt).toBeLessThan(3_000)
    }
  })

  test('is answered when a delayed job is due, or a lease has lapsed', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const startedAt = Date.now()
    await enqueue(api, queue, { payload: 'delayed', delayMs: 250 })
    expect(await claim(api, queue, { limit: 1, waitMs: 20_000, leaseMs: 200 })).toMatchObject([
      { payload: 'delayed', token: 1 },
    ])
    expect(await claim(api, queue, { limit: 1, waitMs: 20_000 })).toMatchObject([{ token: 2 }])
    expect(Date.now() - startedAt).toBeLessThan(2_000)
    await clean(queue)
  })

  test('ends with its time, calmly', async () => {
    const api = apiOn(shared)
    const startedAt = Date.now()
    const answer = await post(api, freshQueue(), 'claim', { limit: 1, waitMs: 300 })
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(300)
    expect(Date.now() - startedAt).toBeLessThan(2_000)
    expect([answer.status, answer.json.jobs]).toEqual([200, []])
  })

  test('ends when the claim is repeated under its claimId, and the job behind that is for the second only', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await claim(api, queue)
    const body = { limit: 1, claimId: 'c' }
    const before = (await shared.bridge.counts()).requests
    const startedAt = Date.now()
    const first = claim(api, queue, { ...body, waitMs: 25_000 })
    const other = claim(api, queue, { limit: 1, claimId: 'other', waitMs: 400 })
    await until(async () => (await shared.bridge.counts()).requests >= before + 2)
    expect(await claim(api, queue, body)).toEqual([])
    expect(await first).toEqual([])
    // Whoever waits under another name goes on.
    expect(Date.now() - startedAt).toBeLessThan(20_000)
    const id = await enqueue(api, queue)
    const taken = [...(await other), ...(await claim(api, queue, body))]
    expect(taken.map((found) => found.id)).toEqual([id])
  })

  test('ends when the caller hangs up, and takes no job then', async () => {
    const { env } = apiOn(shared)
    const api = apiOn(shared)
    const queue = freshQueue()
    const app = createApp({ env })
    const hangUp = new AbortController()
    await claim(api, queue)
    const before = (await shared.bridge.counts()).requests
    const waiting = app.request(`/v1/queues/${queue}/claim`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TOKENS.consumer}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ limit: 1, waitMs: 25_000 }),
      signal: hangUp.signal,
    })
    // The fence and the first claim, which finds nothing.
    await until(async () => (await shared.bridge.counts()).requests >= before + 2)
    // A claim that followed all the same would come behind the job.
    shared.bridge.delay(300, { match: queue })
    hangUp.abort()
    const [id] = await Promise.all([enqueue(api, queue), waiting])
    expect((await job(api, queue, id)).state).toBe('pending')
  })
})

describe('pause', () => {
  test('stops batch claims at once and single ones within a second, and nothing else', async () => {
    const near = apiOn(shared)
    let now = Date.now()
    const far = apiOn(shared, {}, { now: () => now })
    const queue = freshQueue()
    await fill(near, queue, 10)
    const [held] = await claim(far, queue, {})
    expect((await post(near, queue, 'pause')).json).toEqual({ paused: true })

    const batch = (await post(far, queue, 'claim', { limit: 5 })).json
    expect(batch).toEqual({ jobs: [], retryAfterMs: expect.any(Number), paused: true })
    // Who paused it knows at once.
    expect((await post(near, queue, 'claim')).json).toMatchObject({ jobs: [], paused: true })
    now += 1_000
    expect((await post(far, queue, 'claim')).json).toMatchObject({ jobs: [], paused: true })

    expect((await post(far, queue, 'jobs', { payload: 1 })).status).toBe(201)
    expect((await post(far, queue, `jobs/${held?.id}/complete`, { token: held?.token })).status).toBe(200)
    const settle = { items: [{ id: ID, action: 'complete', token: 1 }], claim: { limit: 1 } }
    expect((await post(far, queue, 'settle', settle)).json).toMatchObject({ jobs: [], paused: true })
    expect((await stats(near, queue)).paused).toBe(true)

    expect((await post(near, queue, 'resume')).json).toEqual({ paused: false })
    expect(await claim(far, queue, { limit: 1 })).toHaveLength(1)
    expect(await claim(near, queue, {})).toHaveLength(1)
    now += 1_000
    expect(await claim(far, queue, {})).toHaveLength(1)
    await clean(queue)
  })
})

describe('complete', () => {
  test('retires a job: nothing remains, and a repeat is gone', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await enqueue(api, queue)
    const { id, token } = await claimOne(api, queue)
    await shared.bridge.reset()
    const answer = await post(api, queue, `jobs/${id}/complete`, { token })
    expect([answer.status, answer.json]).toEqual([200, { id, status: 'completed' }])
    const cost = await shared.bridge.counts()
    expect(cost.requests).toBe(1)
    expect(cost.total).toBe(5)
    const again = await post(api, queue, `jobs/${id}/complete`, { token })
    expect([again.status, again.json.code]).toEqual([410, 'gone'])
    expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).status).toBe(404)
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).completed])
  })

  test('accepts 1.0 as the token 1, and refuses what is not the live one', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    const complete = (body: string) => api.call('POST', `/v1/queues/${queue}/jobs/${id}/complete`, body)
    expect((await complete('{"token":0}')).json).toMatchObject({ code: 'stale', reason: 'superseded' })
    await claimOne(api, queue)
    for (const token of [0, 2, Number.MAX_SAFE_INTEGER])
      expect((await complete(`{"token":${token}}`)).json).toMatchObject({ status: 409, reason: 'superseded' })
    expect((await complete('{"token":1.0}')).status).toBe(200)
  })

  test('after a lapse still counts, until somebody else has claimed', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claimOne(api, queue, { leaseMs: 10 })
    await lapse(api, queue)
    for (const [action, body] of [
      ['retry', {}],
      ['fail', {}],
      ['release', {}],
      ['extend', { leaseMs: 1000 }],
    ] as const)
      expect(
        (await post(api, queue, `jobs/${id}/${action}`, { token: 1, ...body })).json,
        action,
      ).toMatchObject({
        status: 409,
        code: 'stale',
        reason: 'lapsed',
      })
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(200)
    await clean(queue)
  })
})

describe('the other moves', () => {
  const MOVES = [
    ['retry', {}],
    ['fail', {}],
    ['release', {}],
    ['extend', { leaseMs: 1000 }],
  ] as const

  test.each(MOVES)('%s of a job that is not there is gone, of a wrong token stale', async (action, body) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const gone = await post(api, queue, `jobs/${ID}/${action}`, { token: 1, ...body })
    expect([gone.status, gone.json.code]).toEqual([410, 'gone'])
    expect(await keysOf(raw.port, queue)).toEqual([])
    const id = await enqueue(api, queue)
    await claimOne(api, queue)
    const before = await job(api, queue, id)
    const stale = await post(api, queue, `jobs/${id}/${action}`, { token: 2, ...body })
    expect([stale.status, stale.json.code, stale.json.reason]).toEqual([409, 'stale', 'superseded'])
    expect(await job(api, queue, id)).toEqual(before)
    await shared.bridge.reset()
    expect((await post(api, queue, `jobs/${id}/${action}`, { token: 1, ...body })).status).toBe(200)
    expect((await shared.bridge.counts()).requests).toBe(1)
    await clean(queue)
  })

  test.each([
    ['retry', {}],
    ['release', {}],
    ['fail', {}],
  ] as const)('a token that was spent by %s is released for every move', async (action, body) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claimOne(api, queue)
    await post(api, queue, `jobs/${id}/${action}`, { token: 1, ...body })
    for (const [next, more] of [['complete', {}], ...MOVES] as const)
      expect((await post(api, queue, `jobs/${id}/${next}`, { token: 1, ...more })).json, next).toMatchObject({
        code: 'stale',
        reason: 'released',
      })
    await clean(queue)
  })

  test('retry takes the delay that it is given, and keeps the error', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claimOne(api, queue)
    const answer = await post(api, queue, `jobs/${id}/retry`, { token: 1, delayMs: 60_000, error: 'boom: ü' })
    expect(answer.json).toEqual({ id, status: 'scheduled', delayMs: 60_000 })
    const stored = await job(api, queue, id)
    expect(stored).toMatchObject({ state: 'scheduled', attempts: 1, lastError: 'boom: ü' })
    expect(Math.abs(Date.parse(stored.runAt) - Date.now() - 60_000)).toBeLessThan(2_000)
    expect(stored).not.toHaveProperty('history')
    await clean(queue)
  })

  test('retry without a delay takes the queue’s backoff: full jitter under a ceiling that doubles', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await put(api, queue, 'settings', { backoff: { baseMs: 100_000, maxMs: 400_000 }, maxAttempts: 0 })
    const ids = await fill(api, queue, 40)
    const seen: number[][] = []
    for (const attempt of [1, 2, 3, 4]) {
      const jobs = await claim(api, queue, { limit: 100 })
      expect(jobs).toHaveLength(40)
      const delays = await Promise.all(
        jobs.map(
          async ({ id, token }) => (await post(api, queue, `jobs/${id}/retry`, { token })).json.delayMs,
        ),
      )
      const ceiling = Math.min(400_000, 100_000 * 2 ** (attempt - 1))
      for (const delay of delays) {
        expect(Number.isInteger(delay)).toBe(true)
        expect(delay).toBeGreaterThanOrEqual(0)
        expect(delay).toBeLessThanOrEqual(ceiling)
      }
      expect(Math.max(...delays)).toBeGreaterThan(ceiling * 0.6)
      expect(Math.min(...delays)).toBeLessThan(ceiling * 0.4)
      seen.push(delays)
      for (const id of ids) await put(api, queue, `jobs/${id}/schedule`, { delayMs: 0 })
    }
    await clean(queue)
  })

  test('retry is dead when the budget is spent: the call’s, else the job’s, else the queue’s', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await put(api, queue, 'settings', { maxAttempts: 2 })
    const statusOf = async (maxAttempts: number | undefined, call: object): Promise<string> => {
      const id = await enqueue(api, queue, {
        payload: 1,
        ...(maxAttempts === undefined ? {} : { maxAttempts }),
      })
      await claimOne(api, queue)
      const { json } = await post(api, queue, `jobs/${id}/retry`, { token: 1, delayMs: 60_000, ...call })
      if (json.status === 'dead') expect(json).toEqual({ id, status: 'dead' })
      return json.status
    }
    expect(await statusOf(undefined, {})).toBe('scheduled')
    expect(await statusOf(undefined, { maxAttempts: 1 })).toBe('dead')
    expect(await statusOf(1, {})).toBe('dead')
    expect(await statusOf(1, { maxAttempts: 2 })).toBe('scheduled')
    expect(await statusOf(1, { maxAttempts: 0 })).toBe('scheduled')
    expect(await statusOf(0, {})).toBe('scheduled')
    await put(api, queue, 'settings', { maxAttempts: 1 })
    expect(await statusOf(undefined, {})).toBe('dead')
    expect(await statusOf(0, {})).toBe('scheduled')
    expect((await stats(api, queue)).failed).toBe(3)
    await clean(queue)
  })

  test('fail goes to dead whatever budget is left', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { payload: 1, maxAttempts: 0 })
    await claimOne(api, queue)
    const answer = await post(api, queue, `jobs/${id}/fail`, { token: 1, error: 'never' })
    expect(answer.json).toEqual({ id, status: 'dead' })
    expect(await job(api, queue, id)).toMatchObject({ state: 'dead', lastError: 'never' })
    await clean(queue)
  })

  test('release gives back at once or later, and spends no budget', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { payload: 1, maxAttempts: 1 })
    for (const token of [1, 2, 3]) {
      expect((await claimOne(api, queue)).token).toBe(token)
      const answer = await post(api, queue, `jobs/${id}/release`, { token })
      expect(answer.json).toEqual({ id, status: 'pending' })
    }
    await claimOne(api, queue)
    const later = await post(api, queue, `jobs/${id}/release`, { token: 4, delayMs: 60_000 })
    expect(later.json).toEqual({ id, status: 'scheduled' })
    expect((await job(api, queue, id)).state).toBe('scheduled')
    await put(api, queue, `jobs/${id}/schedule`, { delayMs: 0 })
    await claimOne(api, queue)
    expect((await post(api, queue, `jobs/${id}/retry`, { token: 5 })).json.status).toBe('dead')
    await clean(queue)
  })

  test('extend counts from the server’s now, each time, and says how long (fault 26)', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claimOne(api, queue, { leaseMs: 60_000 })
    for (const leaseMs of [5_000, 30_000, 86_400_000, 10_000]) {
      const answer = await post(api, queue, `jobs/${id}/extend`, { token: 1, leaseMs })
      expect(answer.json).toEqual({ id, status: 'extended', leaseMs })
      const [seconds, micros] = (await raw.run('TIME')) as string[]
      const now = Number(seconds) * 1000 + Number(micros) / 1000
      const left = Date.parse((await job(api, queue, id)).leaseUntil) - now
      expect(Math.abs(left - leaseMs)).toBeLessThan(1_000)
    }
    await clean(queue)
  })

  test('an error text is cut at 2048 characters, not in the middle of one', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (const [error, kept] of [
      ['x'.repeat(2048), 'x'.repeat(2048)],
      ['x'.repeat(2049), 'x'.repeat(2048)],
      [`${'x'.repeat(2047)}😀y`, 'x'.repeat(2047)],
      [`${'x'.repeat(2046)}😀y`, `${'x'.repeat(2046)}😀`],
      ['\u0000\n\u2028', '\u0000\n\u2028'],
      ['', ''],
    ] as const) {
      for (const action of ['fail', 'retry']) {
        const id = await enqueue(api, queue)
        await claimOne(api, queue)
        const delay = action === 'retry' ? { delayMs: 60_000 } : {}
        const answer = await post(api, queue, `jobs/${id}/${action}`, { token: 1, error, ...delay })
        expect(answer.status).toBe(200)
        expect((await job(api, queue, id)).lastError).toBe(kept)
      }
    }
    await clean(queue)
  })
})

describe('settle', () => {
  test('takes every action, answers in order, and claims the next ones in one subrequest', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, 9)
    await claim(api, queue, { limit: 6 })
    const items = [
      { id: ids[0], action: 'complete', token: 1 },
      { id: ids[1], action: 'retry', token: 1, delayMs: 60_000, error: 'e' },
      { id: ids[2], action: 'fail', token: 1, error: 'f' },
      { id: ids[3], action: 'release', token: 1, delayMs: 60_000 },
      { id: ids[4], action: 'extend', token: 1, leaseMs: 50_000 },
      { id: ids[5], action: 'retry', token: 1, maxAttempts: 1 },
    ]
    await shared.bridge.reset()
    const answer = await post(api, queue, 'settle', { items, claim: { limit: 2, leaseMs: 5000 } })
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(answer.status).toBe(200)
    expect(answer.json.results).toEqual([
      { id: ids[0], status: 'completed' },
      { id: ids[1], status: 'scheduled', delayMs: 60_000 },
      { id: ids[2], status: 'dead' },
      { id: ids[3], status: 'scheduled', delayMs: 60_000 },
      { id: ids[4], status: 'extended', leaseMs: 50_000 },
      { id: ids[5], status: 'dead' },
    ])
    expect(answer.json.jobs.map(({ id, token, leaseMs }: Job) => [id, token, leaseMs])).toEqual([
      [ids[6], 1, 5000],
      [ids[7], 1, 5000],
    ])
    expect(await counts(api, queue)).toEqual({ pending: 1, active: 3, scheduled: 2, dead: 2 })
    await clean(queue)
  })

  test('a bad item is its own result and stops no other', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await fill(api, queue, 1)
    await claimOne(api, queue)
    const items = [
      null,
      { id, action: 'complete' },
      { id, action: 'complete', token: '1' },
      { id, action: 'finish', token: 1 },
      { id: 'nonsense', action: 'complete', token: 1 },
      { id: 'ABC0KHTOWnGLuC', action: 'complete', token: 1 },
      { id: ID, action: 'complete', token: 1 },
      { id, action: 'extend', token: 1 },
      { id, action: 'complete', token: 1, error: 'x' },
      { id, action: 'complete', token: 7 },
      { id, action: 'complete', token: 1 },
      { id, action: 'complete', token: 1 },
      5,
    ]
    const { results } = (await post(api, queue, 'settle', { items })).json
    expect(
      results.map((one: { status?: string; error?: { code: string } }) => one.status ?? one.error?.code),
    ).toEqual([
      ...['invalid', 'invalid', 'invalid', 'invalid', 'invalid', 'wrong_kind', 'gone', 'invalid', 'invalid'],
      ...['stale', 'completed', 'gone', 'invalid'],
    ])
    expect(results.map((one: { id: unknown }) => one.id)).toEqual([
      ...[null, id, id, id, 'nonsense', 'ABC0KHTOWnGLuC', ID, id, id, id, id, id, null],
    ])
    expect(results[9].error).toMatchObject({
      code: 'stale',
      reason: 'superseded',
      detail: expect.any(String),
    })
    expect(results[2].error.errors).toMatchObject([{ path: 'token' }])
    await clean(queue)
  })

  test('an item that cannot be read exactly is its own result and stops no other (fault 21)', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, 8)
    await claim(api, queue, { limit: 8 })
    const item = (nth: number, rest = '') => `{"id":"${ids[nth]}","action":"fail","token":1${rest}}`
    const items = [
      item(0, ',"error":"why"'),
      item(1, ',"error":"\\ud83d"'),
      item(2, ',"error":"a","error":"b"'),
      item(3, ',"token":1'),
      item(4, ',"x":{"y":1,"y":2}'),
      item(5, ',"\\ud83d":1'),
      item(6, `,"id":"${ids[7]}"`),
      '{"id":"\\ud83d","action":"fail","token":1}',
      '"\\ud83d"',
    ]
    const answer = await api.call('POST', `/v1/queues/${queue}/settle`, `{"items":[${items.join(',')}]}`)
    expect(answer.status, answer.text).toBe(200)
    const { results } = answer.json
    expect(results[0]).toEqual({ id: ids[0], status: 'dead' })
    const refused = results.slice(1)
    for (const { error } of refused)
      expect(error).toMatchObject({ code: 'invalid', detail: expect.any(String) })
    // An id that is one of two is nobody's.
    expect(refused.map(({ id }: { id: unknown }) => id)).toEqual([...ids.slice(1, 6), null, null, null])
    expect(
      refused.map(({ error }: { error: { errors?: { path: string }[] } }) => error.errors?.[0]?.path),
    ).toEqual(['error', 'error', 'token', 'x.y', undefined, 'id', 'id', undefined])
    expect(await counts(api, queue)).toEqual({ pending: 0, active: 7, scheduled: 0, dead: 1 })
    for (const body of [
      `{"items":[${item(1)}],"items":[${item(1)}]}`,
      `{"items":[${items[1]}],"claim":{"limit":1,"limit":1}}`,
      `{"items":[${items[1]}],"claim":{"limit":1,"claimId":"\\ud83d"}}`,
    ])
      expect((await api.call('POST', `/v1/queues/${queue}/settle`, body)).status, body).toBe(400)
    await clean(queue)
  })

  test('none of whose items is good asks Redis nothing, unless it claims', async () => {
    const queue = freshQueue()
    const before = (await shared.bridge.counts()).requests
    const answer = await post(apiOn(shared), queue, 'settle', { items: [{}, null] })
    expect(answer.json).toEqual({ results: [expect.any(Object), expect.any(Object)] })
    expect((await shared.bridge.counts()).requests).toBe(before)
    const api = apiOn(shared)
    const id = await enqueue(api, queue)
    const claiming = (await post(api, queue, 'settle', { items: [{}], claim: { limit: 1 } })).json
    expect(claiming.jobs).toMatchObject([{ id }])
  })

  test('claims with all that a claim knows: as, lease, claimId, the hint', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await enqueue(api, queue, { text: '123' })
    const items = [{ id: ID, action: 'complete', token: 1 }]
    const body = { items, claim: { limit: 1, as: 'text', claimId: 'c', leaseMs: 9000 } }
    const first = (await post(api, queue, 'settle', body)).json
    expect(first.jobs).toMatchObject([{ text: '123', leaseMs: 9000, token: 1 }])
    expect((await post(api, queue, 'settle', body)).json.jobs).toMatchObject([{ text: '123', token: 1 }])
    const empty = (await post(api, queue, 'settle', { items, claim: { limit: 1 } })).json
    expect(empty).toMatchObject({ jobs: [], retryAfterMs: expect.any(Number) })
    expect((await post(api, queue, 'settle', { items })).json).not.toHaveProperty('jobs')
  })

  test('of a thousand takes one subrequest', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await fill(api, queue, 1000)
    const jobs: Job[] = []
    while (jobs.length < 1000) jobs.push(...(await claim(api, queue, { limit: 100 })))
    const items = jobs.map(({ id, token }) => ({ id, action: 'complete', token }))
    await shared.bridge.reset()
    const { results } = (await post(api, queue, 'settle', { items })).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(results.every(({ status }: { status: string }) => status === 'completed')).toBe(true)
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).completed])
  })
})

describe('a cap on active', () => {
  test.each([{ limit: 3 }, {}])('is exact under parallel claims with %j', async (body) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await fill(api, queue, 30)
    await put(api, queue, 'settings', { maxActive: 7 })
    const batches = await Promise.all(Array.from({ length: 20 }, () => claim(apiOn(shared), queue, body)))
    const jobs = batches.flat()
    expect(jobs).toHaveLength(7)
    expect((await counts(api, queue)).active).toBe(7)
    const full = await post(api, queue, 'claim', body)
    expect([full.status, full.json]).toEqual([200, { jobs: [], retryAfterMs: expect.any(Number) }])
    await post(api, queue, `jobs/${jobs[0]?.id}/complete`, { token: 1 })
    expect(await claim(api, queue, { limit: 100 })).toHaveLength(1)
    await put(api, queue, 'settings', { maxActive: null })
    expect(await claim(api, queue, { limit: 100 })).toHaveLength(22)
    await clean(queue)
  })
})
