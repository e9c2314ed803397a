/** Consuming over HTTP: claims with and without a limit, waiting, and every move of a claimed job. */
import { describe, expect, test } from 'vitest'
import { apiOn, freshQueue } from '../support/api.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { manualClock } from '../support/clock.ts'
import { type ClaimedJob, queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { costOf, sharedRedis, withoutRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'

describe('claim', () => {
  test.each([{}, { limit: 1 }, { limit: 100 }])(
    'claim with %j returns the oldest job with a lease',
    async (body) => {
      const queue = queueOn(apiOn(shared))
      const [first] = await queue.enqueueMany(2)
      const answer = await queue.post('claim', { ...body, leaseMs: 5000 })
      expect(answer.status).toBe(200)
      expect(answer.json.jobs).toHaveLength(body.limit === 100 ? 2 : 1)
      expect(answer.json.jobs[0]).toEqual({
        id: first,
        queue: queue.name,
        token: 1,
        ...('limit' in body && { attempt: 1, maxAttempts: 5 }),
        leaseMs: 5000,
        enqueuedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        payload: 0,
      })
      const { leaseUntil, state, attempts } = await queue.job(first ?? '')
      expect({ state, attempts }).toEqual({ state: 'active', attempts: 1 })
      expect(Math.abs(Date.parse(leaseUntil) - Date.now() - 5000)).toBeLessThan(2000)
      await expectConsistent(raw.port, queue.name)
    },
  )

  test.each([{}, { limit: 1 }])(
    'claim with %j uses the lease of the request, else of the queue, else 30 seconds',
    async (body) => {
      const queue = queueOn(apiOn(shared))
      await queue.enqueueMany(3)
      expect((await queue.claim(body))[0]?.leaseMs).toBe(30_000)
      await queue.put('settings', { leaseMs: 7000 })
      expect((await queue.claim(body))[0]?.leaseMs).toBe(7000)
      expect((await queue.claim({ ...body, leaseMs: 10 }))[0]?.leaseMs).toBe(10)
    },
  )

  test('claim takes one subrequest, and without a limit one more at most once a second', async () => {
    const clock = manualClock()
    const queue = queueOn(apiOn(shared, {}, { now: clock.now }))
    const costOfClaims = (count: number) =>
      costOf(shared, async () => {
        for (let nth = 0; nth < count; nth++) await queue.claim({})
      })
    await queue.enqueueMany(10)
    expect((await costOf(shared, () => queue.claim({ limit: 5 }))).requests).toBe(1)

    await queue.claim({})
    expect(await costOfClaims(3)).toEqual({ requests: 3, total: 3 * 7 })
    clock.advance(1000)
    expect((await costOfClaims(2)).requests).toBe(3)
  })

  test('claim of an empty queue returns no jobs and a hint that grows until a job is found', async () => {
    const queue = queueOn(apiOn(shared))
    for (const body of [{ limit: 1 }, {}]) {
      const hints: number[] = []
      for (const _ of Array(8)) {
        const answer = await queue.post('claim', body)
        expect(answer.status).toBe(200)
        expect(answer.json).toEqual({ jobs: [], retryAfterMs: expect.any(Number) })
        hints.push(answer.json.retryAfterMs)
      }
      expect(hints).toEqual([...hints].sort((a, b) => a - b))
      expect(hints[0]).toBeLessThan(hints.at(-1) ?? 0)
      expect(hints[0]).toBeGreaterThan(0)
      await queue.enqueue()
      const found = (await queue.post('claim', body)).json
      expect(found).not.toHaveProperty('retryAfterMs')
      expect((await queue.post('claim', body)).json.retryAfterMs).toBe(hints[0])
      await queue.post(`jobs/${found.jobs[0].id}/complete`, { token: 1 })
      await queue.enqueue()
      await queue.claim(body)
    }
    expect(await keysOf(raw.port, freshQueue())).toEqual([])
  })

  test('claim of an empty queue hints at the time until the next job is due', async () => {
    const queue = queueOn(apiOn(shared))
    for (const _ of Array(6)) await queue.claim()
    await queue.enqueue({ payload: 1, delayMs: 300 })
    const { retryAfterMs } = (await queue.post('claim', { limit: 1 })).json
    expect(retryAfterMs).toBeGreaterThan(0)
    expect(retryAfterMs).toBeLessThanOrEqual(300)
  })

  test('claim of an unused queue writes no key', async () => {
    const queue = queueOn(apiOn(shared))
    for (const body of [{}, { limit: 5, claimId: 'c' }]) await queue.post('claim', body)
    expect(await keysOf(raw.port, queue.name)).toEqual([])
    expect((await queue.get()).status).toBe(404)
  })

  test('claim without a limit skips ghosts and removes them', async () => {
    const queue = queueOn(apiOn(shared))
    for (const nth of [0, 1, 2]) await raw.run('ZADD', queue.keys.pending, 0, `JOB0000000000${nth}`)
    const id = await queue.enqueue()
    expect((await queue.claim({}))[0]).toMatchObject({ id, token: 1 })
    await expectConsistent(raw.port, queue.name)
    expect((await queue.get()).json.ghosts).toBe(3)
  })

  test.each([
    [{}, 100],
    [{ limit: 10 }, 910],
  ])('claim with %j that stops after %i ghosts returns more: true and no hint', async (body, ghosts) => {
    const queue = queueOn(apiOn(shared))
    const ids = Array.from({ length: ghosts }, (_, nth) => `JOB${String(nth).padStart(11, '0')}`)
    await raw.run('ZADD', queue.keys.pending, ...ids.flatMap((id) => [0, id]))
    const id = await queue.enqueue()
    expect((await queue.post('claim', body)).json).toEqual({ jobs: [], more: true })
    expect((await queue.post('claim', body)).json).toEqual({ jobs: [expect.objectContaining({ id })] })
    await expectConsistent(raw.port, queue.name)
  })

  test('claim of a paused queue with more due jobs than one sweep takes returns a hint and not more', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(101, { delayMs: 60_000 })
    await raw.run('ZADD', queue.keys.schedule, ...ids.flatMap((id) => [0, id]))
    await queue.post('pause')
    const hint = { jobs: [], retryAfterMs: expect.any(Number), paused: true }
    expect((await queue.post('claim', { limit: 10 })).json).toEqual(hint)
  })

  test('claim returns less than 4 MiB of payload', async () => {
    const queue = queueOn(apiOn(shared))
    const grow = "return redis.call('HSET', KEYS[1], 'payload', string.rep('x', 4500000))"
    for (const id of await queue.enqueueMany(2)) await raw.run('EVAL', grow, 1, queue.keys.job(id))
    expect(await queue.claim({ limit: 100 })).toHaveLength(1)
    expect(await queue.claim({ limit: 100 })).toHaveLength(1)
    await expectConsistent(raw.port, queue.name)
  })
})

describe('claimId', () => {
  test('a claim repeated with its claimId returns its jobs, their tokens and the rest of their leases', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(5)
    const body = { limit: 3, claimId: 'run-1:a', leaseMs: 60_000 }
    const first = await queue.claim(body)
    expect(first).toHaveLength(3)
    const again = await until(async () => {
      const jobs = await queueOn(apiOn(shared), queue.name).claim(body)
      return (jobs[0]?.leaseMs ?? 0) < 60_000 && jobs
    })
    expect(again.map(({ id, token, payload }) => [id, token, payload])).toEqual(
      first.map(({ id, token, payload }) => [id, token, payload]),
    )
    for (const { leaseMs } of again) {
      expect(leaseMs).toBeLessThan(60_000)
      expect(leaseMs).toBeGreaterThan(50_000)
    }
    await queue.post(`jobs/${first[0]?.id}/complete`, { token: 1 })
    expect((await queue.claim(body)).map(({ id }) => id)).toEqual([first[1]?.id, first[2]?.id])
    expect((await queue.claim({ ...body, claimId: 'run-2' })).length).toBe(2)
    await expectConsistent(raw.port, queue.name)
  })

  test('a claimId starts a new claim when none of its jobs is active, and an empty claim is not remembered', async () => {
    const queue = queueOn(apiOn(shared))
    const body = { limit: 3, claimId: 'c' }
    expect(await queue.claim(body)).toEqual([])
    const [one, two] = await queue.enqueueMany(2)
    expect((await queue.claim({ ...body, limit: 1 })).map(({ id }) => id)).toEqual([one])
    await queue.post(`jobs/${one}/complete`, { token: 1 })
    expect((await queue.claim(body)).map(({ id }) => id)).toEqual([two])
    await expectConsistent(raw.port, queue.name)
  })
})

describe('a waiting claim', () => {
  test('a waiting claim returns as soon as a job is enqueued', async () => {
    const queue = queueOn(apiOn(shared))
    for (const body of [{ limit: 5 }, {}]) {
      const startedAt = Date.now()
      const before = (await shared.bridge.counts()).requests
      const waiting = queue.claim({ ...body, waitMs: 20_000 })
      await until(async () => (await shared.bridge.counts()).requests > before + 2)
      const id = await queue.enqueue()
      expect((await waiting).map((found) => found.id)).toEqual([id])
      expect(Date.now() - startedAt).toBeLessThan(3_000)
    }
  })

  test('a waiting claim returns when a delayed job is due or a lease has lapsed', async () => {
    const queue = queueOn(apiOn(shared))
    const startedAt = Date.now()
    await queue.enqueue({ payload: 'delayed', delayMs: 250 })
    expect(await queue.claim({ limit: 1, waitMs: 20_000, leaseMs: 200 })).toMatchObject([
      { payload: 'delayed', token: 1 },
    ])
    expect(await queue.claim({ limit: 1, waitMs: 20_000 })).toMatchObject([{ token: 2 }])
    expect(Date.now() - startedAt).toBeLessThan(2_000)
    await expectConsistent(raw.port, queue.name)
  })

  test('a waiting claim returns no jobs when its waitMs is over', async () => {
    const queue = queueOn(apiOn(shared))
    const startedAt = Date.now()
    const answer = await queue.post('claim', { limit: 1, waitMs: 300 })
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(300)
    expect(Date.now() - startedAt).toBeLessThan(2_000)
    expect([answer.status, answer.json.jobs]).toEqual([200, []])
  })

  test('a waiting claim ends when it is repeated with its claimId, and only the second one gets the next job', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.claim()
    const body = { limit: 1, claimId: 'c' }
    const before = (await shared.bridge.counts()).requests
    const startedAt = Date.now()
    const first = queue.claim({ ...body, waitMs: 25_000 })
    const other = queue.claim({ limit: 1, claimId: 'other', waitMs: 400 })
    await until(async () => (await shared.bridge.counts()).requests >= before + 2)
    expect(await queue.claim(body)).toEqual([])
    expect(await first).toEqual([])
    // The claim with the other claimId goes on waiting.
    expect(Date.now() - startedAt).toBeLessThan(20_000)
    const id = await queue.enqueue()
    const taken = [...(await other), ...(await queue.claim(body))]
    expect(taken.map((found) => found.id)).toEqual([id])
  })

  test('a waiting claim ends when its caller hangs up, and then takes no job', async () => {
    const api = apiOn(shared)
    const queue = queueOn(apiOn(shared))
    const hangUp = new AbortController()
    await queue.claim()
    const before = (await shared.bridge.counts()).requests
    const body = { limit: 1, waitMs: 25_000 }
    const waiting = api.call('POST', `${queue.path}/claim`, body, { signal: hangUp.signal })
    // The version check and the first claim, which finds nothing.
    await until(async () => (await shared.bridge.counts()).requests >= before + 2)
    // A further claim would reach Redis after the job.
    shared.bridge.delay(300, { match: queue.name })
    hangUp.abort()
    const [id] = await Promise.all([queue.enqueue(), waiting])
    expect((await queue.job(id)).state).toBe('pending')
  })
})

describe('pause', () => {
  test('pause stops batch claims at once and single claims within a second, and nothing else', async () => {
    const clock = manualClock()
    const near = queueOn(apiOn(shared))
    const far = queueOn(apiOn(shared, {}, { now: clock.now }), near.name)
    await near.enqueueMany(10)
    const [held] = await far.claim({})
    expect((await near.post('pause')).json).toEqual({ paused: true })

    const batch = (await far.post('claim', { limit: 5 })).json
    expect(batch).toEqual({ jobs: [], retryAfterMs: expect.any(Number), paused: true })
    // The isolate that paused the queue knows at once.
    expect((await near.post('claim')).json).toMatchObject({ jobs: [], paused: true })
    clock.advance(1_000)
    expect((await far.post('claim')).json).toMatchObject({ jobs: [], paused: true })

    expect((await far.post('jobs', { payload: 1 })).status).toBe(201)
    expect((await far.post(`jobs/${held?.id}/complete`, { token: held?.token })).status).toBe(200)
    const settle = { items: [{ id: ID, action: 'complete', token: 1 }], claim: { limit: 1 } }
    expect((await far.post('settle', settle)).json).toMatchObject({ jobs: [], paused: true })
    expect((await near.stats()).paused).toBe(true)

    expect((await near.post('resume')).json).toEqual({ paused: false })
    expect(await far.claim({ limit: 1 })).toHaveLength(1)
    expect(await near.claim({})).toHaveLength(1)
    clock.advance(1_000)
    expect(await far.claim({})).toHaveLength(1)
    await expectConsistent(raw.port, near.name)
  })
})

describe('complete', () => {
  test('complete deletes the job, and a repeat returns gone', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueue()
    const { id, token } = await queue.claimOne()
    const cost = await costOf(shared, async () => {
      const answer = await queue.post(`jobs/${id}/complete`, { token })
      expect([answer.status, answer.json]).toEqual([200, { id, status: 'completed' }])
    })
    expect(cost).toEqual({ requests: 1, total: 5 })
    const again = await queue.post(`jobs/${id}/complete`, { token })
    expect([again.status, again.json.code]).toEqual([410, 'gone'])
    expect((await queue.get(`jobs/${id}`)).status).toBe(404)
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.completed])
  })

  test('complete accepts 1.0 as the token 1 and rejects every token but the live one', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    const complete = (body: string) => queue.post(`jobs/${id}/complete`, body)
    expect((await complete('{"token":0}')).json).toMatchObject({ code: 'stale', reason: 'superseded' })
    await queue.claimOne()
    for (const token of [0, 2, Number.MAX_SAFE_INTEGER])
      expect((await complete(`{"token":${token}}`)).json).toMatchObject({ status: 409, reason: 'superseded' })
    expect((await complete('{"token":1.0}')).status).toBe(200)
  })

  test('complete is accepted after a lapse until the job is claimed again; the other moves are not', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claimOne({ leaseMs: 10 })
    await queue.reapOne()
    for (const [action, body] of [
      ['retry', {}],
      ['fail', {}],
      ['release', {}],
      ['extend', { leaseMs: 1000 }],
    ] as const)
      expect((await queue.post(`jobs/${id}/${action}`, { token: 1, ...body })).json, action).toMatchObject({
        status: 409,
        code: 'stale',
        reason: 'lapsed',
      })
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(200)
    await expectConsistent(raw.port, queue.name)
  })
})

describe('the other consumer moves', () => {
  const MOVES = [
    ['retry', {}],
    ['fail', {}],
    ['release', {}],
    ['extend', { leaseMs: 1000 }],
  ] as const

  test.each(MOVES)('%s returns gone for a missing job and stale for a wrong token', async (action, body) => {
    const queue = queueOn(apiOn(shared))
    const gone = await queue.post(`jobs/${ID}/${action}`, { token: 1, ...body })
    expect([gone.status, gone.json.code]).toEqual([410, 'gone'])
    expect(await keysOf(raw.port, queue.name)).toEqual([])
    const id = await queue.enqueue()
    await queue.claimOne()
    const before = await queue.job(id)
    const stale = await queue.post(`jobs/${id}/${action}`, { token: 2, ...body })
    expect([stale.status, stale.json.code, stale.json.reason]).toEqual([409, 'stale', 'superseded'])
    expect(await queue.job(id)).toEqual(before)
    const cost = await costOf(shared, async () => {
      expect((await queue.post(`jobs/${id}/${action}`, { token: 1, ...body })).status).toBe(200)
    })
    expect(cost.requests).toBe(1)
    await expectConsistent(raw.port, queue.name)
  })

  test.each([
    ['retry', {}],
    ['release', {}],
    ['fail', {}],
  ] as const)('a token that %s has spent is rejected as released by every move', async (action, body) => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claimOne()
    await queue.post(`jobs/${id}/${action}`, { token: 1, ...body })
    for (const [next, more] of [['complete', {}], ...MOVES] as const)
      expect((await queue.post(`jobs/${id}/${next}`, { token: 1, ...more })).json, next).toMatchObject({
        code: 'stale',
        reason: 'released',
      })
    await expectConsistent(raw.port, queue.name)
  })

  test('retry uses the delay of the request and stores the error', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claimOne()
    const answer = await queue.post(`jobs/${id}/retry`, { token: 1, delayMs: 60_000, error: 'boom: ü' })
    expect(answer.json).toEqual({ id, status: 'scheduled', delayMs: 60_000 })
    const stored = await queue.job(id)
    expect(stored).toMatchObject({ state: 'scheduled', attempts: 1, lastError: 'boom: ü' })
    expect(Math.abs(Date.parse(stored.runAt) - Date.now() - 60_000)).toBeLessThan(2_000)
    expect(stored.history).toHaveLength(1)
    await expectConsistent(raw.port, queue.name)
  })

  test('retry without a delay uses the backoff of the queue: full jitter under a ceiling that doubles', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.put('settings', { backoff: { baseMs: 100_000, maxMs: 400_000 }, maxAttempts: 0 })
    const ids = await queue.enqueueMany(40)
    const seen: number[][] = []
    for (const attempt of [1, 2, 3, 4]) {
      const jobs = await queue.claim({ limit: 100 })
      expect(jobs).toHaveLength(40)
      const delays = await Promise.all(
        jobs.map(async ({ id, token }) => (await queue.post(`jobs/${id}/retry`, { token })).json.delayMs),
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
      for (const id of ids) await queue.put(`jobs/${id}/schedule`, { delayMs: 0 })
    }
    await expectConsistent(raw.port, queue.name)
  })

  test('retry moves a job to dead when the budget of the request, else of the job, else of the queue is spent', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.put('settings', { maxAttempts: 2 })
    const statusOf = async (maxAttempts: number | undefined, call: object): Promise<string> => {
      const id = await queue.enqueue({
        payload: 1,
        ...(maxAttempts === undefined ? {} : { maxAttempts }),
      })
      await queue.claimOne()
      const { json } = await queue.post(`jobs/${id}/retry`, { token: 1, delayMs: 60_000, ...call })
      if (json.status === 'dead') expect(json).toEqual({ id, status: 'dead' })
      return json.status
    }
    expect(await statusOf(undefined, {})).toBe('scheduled')
    expect(await statusOf(undefined, { maxAttempts: 1 })).toBe('dead')
    expect(await statusOf(1, {})).toBe('dead')
    expect(await statusOf(1, { maxAttempts: 2 })).toBe('scheduled')
    expect(await statusOf(1, { maxAttempts: 0 })).toBe('scheduled')
    expect(await statusOf(0, {})).toBe('scheduled')
    await queue.put('settings', { maxAttempts: 1 })
    expect(await statusOf(undefined, {})).toBe('dead')
    expect(await statusOf(0, {})).toBe('scheduled')
    expect((await queue.stats()).failed).toBe(3)
    await expectConsistent(raw.port, queue.name)
  })

  test('fail moves a job to dead whatever budget is left', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ payload: 1, maxAttempts: 0 })
    await queue.claimOne()
    const answer = await queue.post(`jobs/${id}/fail`, { token: 1, error: 'never' })
    expect(answer.json).toEqual({ id, status: 'dead' })
    expect(await queue.job(id)).toMatchObject({ state: 'dead', lastError: 'never' })
    await expectConsistent(raw.port, queue.name)
  })

  test('release returns a job at once or later and uses no budget', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ payload: 1, maxAttempts: 1 })
    for (const token of [1, 2, 3]) {
      expect((await queue.claimOne()).token).toBe(token)
      const answer = await queue.post(`jobs/${id}/release`, { token })
      expect(answer.json).toEqual({ id, status: 'pending' })
    }
    await queue.claimOne()
    const later = await queue.post(`jobs/${id}/release`, { token: 4, delayMs: 60_000 })
    expect(later.json).toEqual({ id, status: 'scheduled' })
    expect((await queue.job(id)).state).toBe('scheduled')
    await queue.put(`jobs/${id}/schedule`, { delayMs: 0 })
    await queue.claimOne()
    expect((await queue.post(`jobs/${id}/retry`, { token: 5 })).json.status).toBe('dead')
    await expectConsistent(raw.port, queue.name)
  })

  test('extend counts from the present time of the server and returns the lease (fault 26)', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claimOne({ leaseMs: 60_000 })
    for (const leaseMs of [5_000, 30_000, 86_400_000, 10_000]) {
      const answer = await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs })
      expect(answer.json).toEqual({ id, status: 'extended', leaseMs })
      const [seconds, micros] = (await raw.run('TIME')) as string[]
      const now = Number(seconds) * 1000 + Number(micros) / 1000
      const left = Date.parse((await queue.job(id)).leaseUntil) - now
      expect(Math.abs(left - leaseMs)).toBeLessThan(1_000)
    }
    await expectConsistent(raw.port, queue.name)
  })

  test('an error text is cut after 2048 characters and never inside a character', async () => {
    const queue = queueOn(apiOn(shared))
    for (const [error, kept] of [
      ['x'.repeat(2048), 'x'.repeat(2048)],
      ['x'.repeat(2049), 'x'.repeat(2048)],
      [`${'x'.repeat(2047)}😀y`, 'x'.repeat(2047)],
      [`${'x'.repeat(2046)}😀y`, `${'x'.repeat(2046)}😀`],
      ['\u0000\n\u2028', '\u0000\n\u2028'],
      ['', ''],
    ] as const) {
      for (const action of ['fail', 'retry']) {
        const id = await queue.enqueue()
        await queue.claimOne()
        const delay = action === 'retry' ? { delayMs: 60_000 } : {}
        const answer = await queue.post(`jobs/${id}/${action}`, { token: 1, error, ...delay })
        expect(answer.status).toBe(200)
        expect((await queue.job(id)).lastError).toBe(kept)
      }
    }
    await expectConsistent(raw.port, queue.name)
  })
})

describe('settle', () => {
  test('settle performs every action, returns results in order and claims the next jobs in one subrequest', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(9)
    await queue.claim({ limit: 6 })
    const items = [
      { id: ids[0], action: 'complete', token: 1 },
      { id: ids[1], action: 'retry', token: 1, delayMs: 60_000, error: 'e' },
      { id: ids[2], action: 'fail', token: 1, error: 'f' },
      { id: ids[3], action: 'release', token: 1, delayMs: 60_000 },
      { id: ids[4], action: 'extend', token: 1, leaseMs: 50_000 },
      { id: ids[5], action: 'retry', token: 1, maxAttempts: 1 },
    ]
    await shared.bridge.reset()
    const answer = await queue.post('settle', { items, claim: { limit: 2, leaseMs: 5000 } })
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
    expect(answer.json.jobs.map(({ id, token, leaseMs }: ClaimedJob) => [id, token, leaseMs])).toEqual([
      [ids[6], 1, 5000],
      [ids[7], 1, 5000],
    ])
    expect(await queue.counts()).toEqual({ pending: 1, active: 3, scheduled: 2, dead: 2 })
    await expectConsistent(raw.port, queue.name)
  })

  test('settle rejects a malformed item alone and performs the others', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await queue.enqueueMany(1)
    await queue.claimOne()
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
    const { results } = (await queue.post('settle', { items })).json
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
    await expectConsistent(raw.port, queue.name)
  })

  test('settle rejects an ambiguous item alone and performs the others (fault 21)', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(8)
    await queue.claim({ limit: 8 })
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
    const answer = await queue.post('settle', `{"items":[${items.join(',')}]}`)
    expect(answer.status, answer.text).toBe(200)
    const { results } = answer.json
    expect(results[0]).toEqual({ id: ids[0], status: 'dead' })
    const refused = results.slice(1)
    for (const { error } of refused)
      expect(error).toMatchObject({ code: 'invalid', detail: expect.any(String) })
    // An id that is given twice is not returned.
    expect(refused.map(({ id }: { id: unknown }) => id)).toEqual([...ids.slice(1, 6), null, null, null])
    expect(
      refused.map(({ error }: { error: { errors?: { path: string }[] } }) => error.errors?.[0]?.path),
    ).toEqual(['error', 'error', 'token', 'x.y', undefined, 'id', 'id', undefined])
    expect(await queue.counts()).toEqual({ pending: 0, active: 7, scheduled: 0, dead: 1 })
    for (const body of [
      `{"items":[${item(1)}],"items":[${item(1)}]}`,
      `{"items":[${items[1]}],"claim":{"limit":1,"limit":1}}`,
      `{"items":[${items[1]}],"claim":{"limit":1,"claimId":"\\ud83d"}}`,
    ])
      expect((await queue.post('settle', body)).status, body).toBe(400)
    await expectConsistent(raw.port, queue.name)
  })

  test('settle without a valid item sends no request to Redis unless it claims', async () => {
    const queue = queueOn(apiOn(shared))
    const invalid = { id: null, error: expect.objectContaining({ code: 'invalid' }) }
    await withoutRedis(shared, async () => {
      const answer = await queue.post('settle', { items: [{}, null] })
      expect(answer.json).toEqual({ results: [invalid, invalid] })
    })
    const id = await queue.enqueue()
    const claiming = (await queue.post('settle', { items: [{}], claim: { limit: 1 } })).json
    expect(claiming.jobs).toMatchObject([{ id }])
  })

  test('settle claims with as, leaseMs and claimId and returns the hint of an empty claim', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueue({ text: '123' })
    const items = [{ id: ID, action: 'complete', token: 1 }]
    const body = { items, claim: { limit: 1, as: 'text', claimId: 'c', leaseMs: 9000 } }
    const first = (await queue.post('settle', body)).json
    expect(first.jobs).toMatchObject([{ text: '123', leaseMs: 9000, token: 1 }])
    expect((await queue.post('settle', body)).json.jobs).toMatchObject([{ text: '123', token: 1 }])
    const empty = (await queue.post('settle', { items, claim: { limit: 1 } })).json
    expect(empty).toMatchObject({ jobs: [], retryAfterMs: expect.any(Number) })
    expect((await queue.post('settle', { items })).json).not.toHaveProperty('jobs')
  })

  test('settle of a thousand items takes one subrequest', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(1000)
    const jobs: ClaimedJob[] = []
    while (jobs.length < 1000) jobs.push(...(await queue.claim({ limit: 100 })))
    const items = jobs.map(({ id, token }) => ({ id, action: 'complete', token }))
    await shared.bridge.reset()
    const { results } = (await queue.post('settle', { items })).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(results.every(({ status }: { status: string }) => status === 'completed')).toBe(true)
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.completed])
  })
})

describe('maxActive', () => {
  test.each([{ limit: 3 }, {}])('maxActive is exact under parallel claims with %j', async (body) => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(30)
    await queue.put('settings', { maxActive: 7 })
    const batches = await Promise.all(
      Array.from({ length: 20 }, () => queueOn(apiOn(shared), queue.name).claim(body)),
    )
    const jobs = batches.flat()
    expect(jobs).toHaveLength(7)
    expect((await queue.counts()).active).toBe(7)
    const full = await queue.post('claim', body)
    expect([full.status, full.json]).toEqual([200, { jobs: [], retryAfterMs: expect.any(Number) }])
    await queue.post(`jobs/${jobs[0]?.id}/complete`, { token: 1 })
    expect(await queue.claim({ limit: 100 })).toHaveLength(1)
    await queue.put('settings', { maxActive: null })
    expect(await queue.claim({ limit: 100 })).toHaveLength(22)
    await expectConsistent(raw.port, queue.name)
  })
})
