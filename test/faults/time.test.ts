/** Faults 23, 25, 27 and 28: clocks and leases. */
import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

type Job = { id: string; token: number; leaseMs: number }
const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const enqueue = async (api: Api, queue: string, body: object = {}): Promise<string> =>
  (await post(api, queue, 'jobs', { payload: 1, ...body })).json.id
const claim = async (api: Api, queue: string, body: object = { limit: 1 }): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs
const job = async (api: Api, queue: string, id: string) =>
  (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const leaseLeft = async (api: Api, queue: string, id: string): Promise<number> =>
  Date.parse((await job(api, queue, id)).leaseUntil) - (await serverNow())
async function serverNow(): Promise<number> {
  const [seconds, micros] = (await raw.run('TIME')) as string[]
  return Number(seconds) * 1000 + Number(micros) / 1000
}

describe('23: a Worker whose clock is set back by ten minutes', () => {
  function settable() {
    let offMs = 0
    return {
      api: apiOn(shared, {}, { now: () => Date.now() + offMs }),
      setBack: () => {
        offMs -= 600_000
      },
    }
  }

  test('a pause still stops claims without a limit within a second', async () => {
    const { api, setBack } = settable()
    const queue = freshQueue()
    for (let nth = 0; nth < 3; nth++) await enqueue(api, queue)
    expect(await claim(api, queue, {})).toHaveLength(1)
    setBack()
    await post(apiOn(shared), queue, 'pause')
    expect(await claim(api, queue, {})).toEqual([])
  })

  test('maintenance still visits what is due', async () => {
    const { api, setBack } = settable()
    const queue = freshQueue()
    const maintain = async () => (await api.call('POST', '/v1/maintenance', {})).json
    const id = await enqueue(api, queue, { delayMs: 500 })
    expect((await maintain()).promoted).toBe(0)
    // Not just enqueued to any more, so planned by the clock.
    await raw.run('ZADD', GLOBAL_KEYS.queues, Math.floor(await serverNow()) + 500, queue)
    setBack()
    await until(async () => {
      await maintain()
      return (await job(api, queue, id)).state === 'pending'
    })
    await clean(queue)
  })

  test('a claim that waits is held no longer than it asked', async () => {
    const { api, setBack } = settable()
    const startedAt = Date.now()
    const waiting = claim(api, freshQueue(), { limit: 1, waitMs: 600 })
    const before = (await shared.bridge.counts()).requests
    await until(async () => (await shared.bridge.counts()).requests > before)
    setBack()
    expect(await waiting).toEqual([])
    expect(Date.now() - startedAt).toBeLessThan(5_000)
  })
})

describe.each([600_000, -600_000])('23: a Worker whose clock is wrong by %i ms', (wrongMs) => {
  const wrong = () => apiOn(shared, {}, { now: () => Date.now() + wrongMs })

  test('delays, times and leases are the server’s', async () => {
    const api = wrong()
    const queue = freshQueue()
    const ids = [
      await enqueue(api, queue, { delayMs: 2_000 }),
      await enqueue(api, queue, { runAt: Date.now() + 2_000 }),
      await enqueue(api, queue, { runAt: new Date(Date.now() + 2_000).toISOString() }),
    ]
    expect(await claim(api, queue, { limit: 10 })).toEqual([])
    const startedAt = Date.now()
    const jobs: Job[] = []
    await until(async () => jobs.push(...(await claim(api, queue, { limit: 10, leaseMs: 20_000 }))) === 3)
    expect(Date.now() - startedAt).toBeLessThan(10_000)
    expect(jobs.map(({ id }) => id).sort()).toEqual(ids)
    for (const { id } of jobs)
      expect(Math.abs((await leaseLeft(api, queue, id)) - 20_000)).toBeLessThan(5_000)
    expect((await post(api, queue, 'reap')).json.reaped).toBe(0)
    for (const { id } of jobs) await post(api, queue, `jobs/${id}/extend`, { token: 1, leaseMs: 10 })
    let reaped = 0
    await until(async () => {
      reaped += (await post(api, queue, 'reap')).json.reaped
      return reaped === 3
    })
    await clean(queue)
  })

  test('backoff, extension, reschedule and startBy, too', async () => {
    const api = wrong()
    const queue = freshQueue()
    const id = await enqueue(api, queue, { startBy: Date.now() + 300_000 })
    const late = await enqueue(api, queue, { startBy: Date.now() - 300_000 })
    expect((await claim(api, queue, { limit: 10 })).map((found) => found.id)).toEqual([id])
    expect(await job(api, queue, late)).toMatchObject({ state: 'dead', lastError: 'expired' })
    await post(api, queue, `jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })
    const isNear = async (at: string) => Math.abs(Date.parse(at) - (await serverNow()) - 60_000) < 5_000
    expect(await isNear((await job(api, queue, id)).leaseUntil)).toBe(true)
    await post(api, queue, `jobs/${id}/retry`, { token: 1, delayMs: 60_000 })
    expect(await isNear((await job(api, queue, id)).runAt)).toBe(true)
    await api.call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { delayMs: 60_000 })
    expect(await isNear((await job(api, queue, id)).runAt)).toBe(true)
    await api.call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { runAt: Date.now() + 60_000 })
    expect(await isNear((await job(api, queue, id)).runAt)).toBe(true)
    expect((await stats(api, queue)).counts.scheduled).toBe(1)
    await clean(queue)
  })

  test('maintenance moves what is due by the server, no more, and marks its run by it', async () => {
    const api = wrong()
    const queue = freshQueue()
    await enqueue(api, queue, { delayMs: 200 })
    await enqueue(api, queue, { delayMs: 60_000 })
    await until(async () => {
      await api.call('POST', '/v1/maintenance', {})
      return (await stats(api, queue)).counts.pending === 1
    })
    expect((await stats(api, queue)).counts).toMatchObject({ pending: 1, scheduled: 1 })
    expect(
      Math.abs(Number(await raw.run('GET', GLOBAL_KEYS.maintenance)) - (await serverNow())),
    ).toBeLessThan(5_000)
    const ready = await api.call('GET', '/readyz', undefined, { token: null })
    expect(ready.json.checks.maintenance.ageMs).toBeLessThan(5_000)
  })
})

describe('25: a heartbeat after the job is gone', () => {
  test('is refused after complete, and makes no key', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claim(api, queue)
    await post(api, queue, `jobs/${id}/complete`, { token: 1 })
    const late = await post(api, queue, `jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })
    expect([late.status, late.json.code]).toEqual([410, 'gone'])
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).completed])
  })

  test('is refused after the reaper, wherever it put the job, and puts the id in no second set', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { maxAttempts: 3 })
    for (const [token, state] of [
      [1, 'pending'],
      [2, 'scheduled'],
      [3, 'dead'],
    ] as const) {
      await claim(api, queue, { limit: 1, leaseMs: 10 })
      await until(async () => (await post(api, queue, 'reap')).json.reaped === 1)
      expect((await job(api, queue, id)).state).toBe(state)
      const late = await post(api, queue, `jobs/${id}/extend`, { token, leaseMs: 60_000 })
      expect(late.json).toMatchObject({ status: 409, code: 'stale', reason: 'lapsed' })
      await clean(queue)
      if (state === 'scheduled')
        await api.call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { delayMs: 0 })
    }
  })

  test('revives a lease that has lapsed and was not reaped', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue)
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    await until(async () => Number(await raw.run('ZSCORE', keyspace(queue).active, id)) < (await serverNow()))
    expect((await post(api, queue, `jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })).status).toBe(200)
    expect((await post(api, queue, 'reap')).json.reaped).toBe(0)
    expect(await claim(api, queue)).toEqual([])
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).status).toBe(200)
  })
})

test('27: finished just at its deadline: completed or pending, and a 200 is the end of it', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const [LANES, ROUNDS] = [10, 200]
  await post(api, queue, 'jobs', { jobs: Array.from({ length: ROUNDS }, (_, payload) => ({ payload })) })
  const outcomes: (Job & { status: number; text: string })[] = []
  const lane = async (_: unknown, first: number): Promise<void> => {
    for (let round = first; round < ROUNDS; round += LANES) {
      const [held] = await claim(api, queue, { limit: 1, leaseMs: 50 })
      // A job that lapsed a second time waits for its backoff: there may be none left for this round.
      if (held === undefined) continue
      await setTimeout(49 + (round % 3))
      const [completed] = await Promise.all([
        post(api, queue, `jobs/${held.id}/complete`, { token: held.token }),
        post(api, queue, 'reap', { limit: 1000 }),
      ])
      outcomes.push({ ...held, status: completed.status, text: completed.text })
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  expect(outcomes.length).toBeGreaterThan(ROUNDS / 2)
  for (const { status, text } of outcomes) expect([200, 409, 410], text).toContain(status)
  // Whoever was told 200 is the last who ever had that job: it is not delivered again.
  const done = new Set(outcomes.filter(({ status }) => status === 200).map(({ id }) => id))
  expect(done.size).toBe(outcomes.filter(({ status }) => status === 200).length)
  await clean(queue)
  const { counts, completed } = await stats(api, queue)
  expect(completed).toBe(done.size)
  expect(counts.pending + counts.active + counts.scheduled + counts.dead).toBe(ROUNDS - done.size)
  for (const state of ['pending', 'active', 'scheduled', 'dead']) {
    const { jobs } = (await api.call('GET', `/v1/queues/${queue}/jobs?state=${state}&limit=200`)).json
    for (const { id } of jobs) expect(done.has(id)).toBe(false)
  }
})

test('28: long delays stay where they are, whatever pumps and leases do', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const delayed = await enqueue(api, queue, { delayMs: 7_200_000 })
  const retried = await enqueue(api, queue)
  await claim(api, queue, { limit: 1, leaseMs: 10 })
  await post(api, queue, `jobs/${retried}/retry`, { token: 1, delayMs: 7_200_000 })
  for (let round = 0; round < 20; round++) {
    expect((await post(api, queue, 'promote')).json.promoted).toBe(0)
    expect((await post(api, queue, 'reap')).json.reaped).toBe(0)
    expect(await claim(api, queue, round % 2 === 0 ? {} : { limit: 1 })).toEqual([])
  }
  expect(await job(api, queue, delayed)).toMatchObject({ state: 'scheduled', attempts: 0 })
  expect(await job(api, queue, retried)).toMatchObject({ state: 'scheduled', attempts: 1 })
  for (const id of [delayed, retried])
    expect(Math.abs(Date.parse((await job(api, queue, id)).runAt) - Date.now() - 7_200_000)).toBeLessThan(
      20_000,
    )
  await clean(queue)
})
