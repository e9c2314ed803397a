/** Faults 23, 25, 27 and 28: clocks and leases. */
import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { apiOn } from '../support/api.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { serverNow } from '../support/clock.ts'
import { type ClaimedJob, queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('23: a Worker whose clock is set back by ten minutes', () => {
  test('a pause stops claims without a limit even if the clock is set back', async () => {
    const { api, setBack } = settable()
    const queue = queueOn(api)
    await queue.enqueueMany(3)
    expect(await queue.claim({})).toHaveLength(1)
    setBack()
    await queueOn(apiOn(shared), queue.name).post('pause')
    expect(await queue.claim({})).toEqual([])
  })

  test('maintenance sweeps a due queue even if the clock is set back', async () => {
    const { api, setBack } = settable()
    const queue = queueOn(api)
    const maintain = async () => (await api.call('POST', '/v1/maintenance', {})).json
    const id = await queue.enqueue({ delayMs: 500 })
    expect((await maintain()).promoted).toBe(0)
    // As if the enqueue were long ago: the next visit follows the clock.
    await raw.run('ZADD', GLOBAL_KEYS.queues, (await serverNow(raw.port)) + 500, queue.name)
    setBack()
    await until(async () => {
      await maintain()
      return (await queue.job(id)).state === 'pending'
    })
    await expectConsistent(raw.port, queue.name)
  })

  test('a waiting claim ends in time even if the clock is set back', async () => {
    const { api, setBack } = settable()
    const startedAt = Date.now()
    const waiting = queueOn(api).claim({ limit: 1, waitMs: 600 })
    const before = (await shared.bridge.counts()).requests
    await until(async () => (await shared.bridge.counts()).requests > before)
    setBack()
    expect(await waiting).toEqual([])
    expect(Date.now() - startedAt).toBeLessThan(5_000)
  })
})

describe.each([600_000, -600_000])('23: a Worker whose clock is wrong by %i ms', (wrongMs) => {
  const wrong = () => apiOn(shared, {}, { now: () => Date.now() + wrongMs })

  test('delays, times and leases follow the clock of the server', async () => {
    const queue = queueOn(wrong())
    const ids = [
      await queue.enqueue({ delayMs: 2_000 }),
      await queue.enqueue({ runAt: Date.now() + 2_000 }),
      await queue.enqueue({ runAt: new Date(Date.now() + 2_000).toISOString() }),
    ]
    expect(await queue.claim({ limit: 10 })).toEqual([])
    const startedAt = Date.now()
    const jobs: ClaimedJob[] = []
    await until(async () => jobs.push(...(await queue.claim({ limit: 10, leaseMs: 20_000 }))) === 3)
    expect(Date.now() - startedAt).toBeLessThan(10_000)
    expect(jobs.map(({ id }) => id).sort()).toEqual(ids)
    for (const { id } of jobs) expect(Math.abs((await leaseLeft(queue, id)) - 20_000)).toBeLessThan(5_000)
    expect((await queue.post('reap')).json.reaped).toBe(0)
    for (const { id } of jobs) await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 10 })
    let reaped = 0
    await until(async () => {
      reaped += (await queue.post('reap')).json.reaped
      return reaped === 3
    })
    await expectConsistent(raw.port, queue.name)
  })

  test('backoff, extension, schedule and startBy follow the clock of the server', async () => {
    const queue = queueOn(wrong())
    const id = await queue.enqueue({ startBy: Date.now() + 300_000 })
    const late = await queue.enqueue({ startBy: Date.now() - 300_000 })
    expect((await queue.claim({ limit: 10 })).map((found) => found.id)).toEqual([id])
    expect(await queue.job(late)).toMatchObject({ state: 'dead', lastError: 'expired' })
    await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })
    const isNear = async (at: string) =>
      Math.abs(Date.parse(at) - (await serverNow(raw.port)) - 60_000) < 5_000
    expect(await isNear((await queue.job(id)).leaseUntil)).toBe(true)
    await queue.post(`jobs/${id}/retry`, { token: 1, delayMs: 60_000 })
    expect(await isNear((await queue.job(id)).runAt)).toBe(true)
    await queue.put(`jobs/${id}/schedule`, { delayMs: 60_000 })
    expect(await isNear((await queue.job(id)).runAt)).toBe(true)
    await queue.put(`jobs/${id}/schedule`, { runAt: Date.now() + 60_000 })
    expect(await isNear((await queue.job(id)).runAt)).toBe(true)
    expect((await queue.counts()).scheduled).toBe(1)
    await expectConsistent(raw.port, queue.name)
  })

  test('maintenance moves only the jobs that are due by the clock of the server, and marks its run by that clock', async () => {
    const api = wrong()
    const queue = queueOn(api)
    await queue.enqueue({ delayMs: 200 })
    await queue.enqueue({ delayMs: 60_000 })
    await until(async () => {
      await api.call('POST', '/v1/maintenance', {})
      return (await queue.counts()).pending === 1
    })
    expect(await queue.counts()).toMatchObject({ pending: 1, scheduled: 1 })
    expect(
      Math.abs(Number(await raw.run('GET', GLOBAL_KEYS.maintenance)) - (await serverNow(raw.port))),
    ).toBeLessThan(5_000)
    const ready = await api.call('GET', '/readyz', undefined, { token: null })
    expect(ready.json.checks.maintenance.ageMs).toBeLessThan(5_000)
  })
})

describe('25: a heartbeat after the job is gone', () => {
  test('extend is rejected after complete and writes no key', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claim()
    await queue.post(`jobs/${id}/complete`, { token: 1 })
    const late = await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })
    expect([late.status, late.json.code]).toEqual([410, 'gone'])
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.completed])
  })

  test('extend is rejected after the reaper in every state and adds the id to no second set', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ maxAttempts: 3 })
    for (const [token, state] of [
      [1, 'pending'],
      [2, 'scheduled'],
      [3, 'dead'],
    ] as const) {
      await queue.claim({ limit: 1, leaseMs: 10 })
      await queue.reapOne()
      expect((await queue.job(id)).state).toBe(state)
      const late = await queue.post(`jobs/${id}/extend`, { token, leaseMs: 60_000 })
      expect(late.json).toMatchObject({ status: 409, code: 'stale', reason: 'lapsed' })
      await expectConsistent(raw.port, queue.name)
      if (state === 'scheduled') await queue.put(`jobs/${id}/schedule`, { delayMs: 0 })
    }
  })

  test('extend renews a lease that has lapsed and was not reaped', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue()
    await queue.claim({ limit: 1, leaseMs: 10 })
    await until(
      async () => Number(await raw.run('ZSCORE', queue.keys.active, id)) < (await serverNow(raw.port)),
    )
    expect((await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })).status).toBe(200)
    expect((await queue.post('reap')).json.reaped).toBe(0)
    expect(await queue.claim()).toEqual([])
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(200)
  })
})

test('27: a job completed at its deadline is either completed or kept, and never claimed again after a 200', async () => {
  const queue = queueOn(apiOn(shared))
  const [LANES, ROUNDS] = [10, 200]
  await queue.post('jobs', { jobs: Array.from({ length: ROUNDS }, (_, payload) => ({ payload })) })
  const outcomes: (ClaimedJob & { status: number; text: string })[] = []
  const lane = async (_: unknown, first: number): Promise<void> => {
    for (let round = first; round < ROUNDS; round += LANES) {
      const [held] = await queue.claim({ limit: 1, leaseMs: 50 })
      // A job that lapsed a second time waits for its backoff: there may be none left for this round.
      if (held === undefined) continue
      await setTimeout(49 + (round % 3))
      const [completed] = await Promise.all([
        queue.post(`jobs/${held.id}/complete`, { token: held.token }),
        queue.post('reap', { limit: 1000 }),
      ])
      outcomes.push({ ...held, status: completed.status, text: completed.text })
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  expect(outcomes.length).toBeGreaterThan(ROUNDS / 2)
  for (const { status, text } of outcomes) expect([200, 409, 410], text).toContain(status)
  // A consumer that received 200 is the last one of its job: no further claim returns it.
  const done = new Set(outcomes.filter(({ status }) => status === 200).map(({ id }) => id))
  expect(done.size).toBe(outcomes.filter(({ status }) => status === 200).length)
  await expectConsistent(raw.port, queue.name)
  const { counts, completed } = await queue.stats()
  expect(completed).toBe(done.size)
  expect(counts.pending + counts.active + counts.scheduled + counts.dead).toBe(ROUNDS - done.size)
  for (const state of ['pending', 'active', 'scheduled', 'dead']) {
    const { jobs } = (await queue.get(`jobs?state=${state}&limit=200`)).json
    for (const { id } of jobs) expect(done.has(id)).toBe(false)
  }
})

test('28: jobs with long delays stay scheduled through promote, reap and claims', async () => {
  const queue = queueOn(apiOn(shared))
  const delayed = await queue.enqueue({ delayMs: 7_200_000 })
  const retried = await queue.enqueue()
  await queue.claim({ limit: 1, leaseMs: 10 })
  await queue.post(`jobs/${retried}/retry`, { token: 1, delayMs: 7_200_000 })
  for (let round = 0; round < 20; round++) {
    expect((await queue.post('promote')).json.promoted).toBe(0)
    expect((await queue.post('reap')).json.reaped).toBe(0)
    expect(await queue.claim(round % 2 === 0 ? {} : { limit: 1 })).toEqual([])
  }
  expect(await queue.job(delayed)).toMatchObject({ state: 'scheduled', attempts: 0 })
  expect(await queue.job(retried)).toMatchObject({ state: 'scheduled', attempts: 1 })
  for (const id of [delayed, retried])
    expect(Math.abs(Date.parse((await queue.job(id)).runAt) - Date.now() - 7_200_000)).toBeLessThan(20_000)
  await expectConsistent(raw.port, queue.name)
})

/** The time until the lease of a job lapses, by the clock of the server. */
async function leaseLeft(queue: TestQueue, id: string): Promise<number> {
  return Date.parse((await queue.job(id)).leaseUntil) - (await serverNow(raw.port))
}

/** An isolate whose clock a test can set back by ten minutes. */
function settable() {
  let offMs = 0
  return {
    api: apiOn(shared, {}, { now: () => Date.now() + offMs }),
    setBack: () => {
      offMs -= 600_000
    },
  }
}
