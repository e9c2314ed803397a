/** Faults 29 to 33: poison jobs and dead letters. */
import { describe, expect, test } from 'vitest'
import { apiOn } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('29: a job that kills its worker', () => {
  test.each([{ leaseMs: 10 }, { limit: 1, leaseMs: 10 }])(
    'a job that kills its worker is dead when its budget is spent, claimed with %j',
    async (body) => {
      const queue = queueOn(apiOn(shared))
      const id = await queue.enqueue({ maxAttempts: 3 })
      for (const token of [1, 2, 3]) expect(await crash(queue, id, body)).toBe(token)
      const dead = await queue.job(id)
      expect(dead).toMatchObject({ state: 'dead', attempts: 3, lapses: 3 })
      expect(dead.lastError).toMatch(/lease expired.*3 of 3/)
      expect(await queue.claim(body)).toEqual([])
      expect((await queue.stats()).failed).toBe(1)
      await expectConsistent(raw.port, queue.name)
    },
  )

  test('a claim and maintenance move a lapsed job to dead when the budget of the queue is spent', async () => {
    const api = apiOn(shared)
    for (const sweep of ['claim', 'maintenance']) {
      const queue = queueOn(api)
      await queue.put('settings', { maxAttempts: 1 })
      const id = await queue.enqueue()
      await queue.claim({ limit: 1, leaseMs: 10 })
      await until(async () => {
        if (sweep === 'claim') expect(await queue.claim()).toEqual([])
        else await api.call('POST', '/v1/maintenance', {})
        return (await queue.job(id)).state === 'dead'
      })
      await expectConsistent(raw.port, queue.name)
    }
  })

  test('a job that kills its worker is retried forever with maxAttempts 0', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ maxAttempts: 0 })
    for (let token = 1; token <= 8; token++)
      expect(await crash(queue, id, { limit: 1, leaseMs: 10 })).toBe(token)
    expect(await queue.job(id)).toMatchObject({ attempts: 8, lapses: 8 })
    await expectConsistent(raw.port, queue.name)
  })
})

describe('30: a poison job in front of healthy ones', () => {
  test.each([{ leaseMs: 10 }, { limit: 1, leaseMs: 10 }])(
    'a poison job does not starve two others: both are claimed within four claims of %j',
    async (body) => {
      const queue = queueOn(apiOn(shared))
      const poison = await queue.enqueue({ payload: 'poison' })
      await queue.enqueue({ payload: 'good 1' })
      await queue.enqueue({ payload: 'good 2' })
      const served: unknown[] = []
      for (let nth = 0; nth < 4; nth++) {
        const [held] = await queue.claim(body)
        served.push(held?.payload)
        if (held?.id === poison) await queue.reapOne()
        else if (held !== undefined) await queue.post(`jobs/${held.id}/complete`, { token: held.token })
      }
      expect(served).toContain('good 1')
      expect(served).toContain('good 2')
      await expectConsistent(raw.port, queue.name)
    },
  )
})

describe('31: a redriven job and its old token', () => {
  test('a redriven job rejects its old token and has a fresh budget', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ maxAttempts: 3 })
    const lease = { limit: 1, leaseMs: 10 }
    for (const _ of [1, 2, 3]) await crash(queue, id, lease)
    expect((await queue.job(id)).state).toBe('dead')
    await queue.post(`jobs/${id}/redrive`)
    const early = await queue.post(`jobs/${id}/complete`, { token: 3 })
    expect(early.json).toMatchObject({ code: 'stale', reason: 'released' })
    expect(await queue.claim()).toMatchObject([{ id, token: 4 }])
    const late = await queue.post(`jobs/${id}/complete`, { token: 3 })
    expect(late.json).toMatchObject({ code: 'stale', reason: 'superseded' })
    await queue.post(`jobs/${id}/retry`, { token: 4, delayMs: 0 })
    await queue.post('promote')
    expect(await crash(queue, id, lease)).toBe(5)
    expect((await queue.job(id)).state).toBe('pending')
    expect(await queue.claim()).toMatchObject([{ token: 6 }])
    expect((await queue.post(`jobs/${id}/retry`, { token: 6, delayMs: 0 })).json.status).toBe('dead')
    await expectConsistent(raw.port, queue.name)
  })

  test('a job of a mass redrive rejects its old token and has a fresh budget', async () => {
    const queue = queueOn(apiOn(shared))
    const id = await queue.enqueue({ maxAttempts: 1 })
    await crash(queue, id, { limit: 1, leaseMs: 10 })
    expect((await queue.post('redrive')).json.redriven).toBe(1)
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).json.reason).toBe('released')
    expect((await queue.job(id)).lapses).toBeUndefined()
    expect(await queue.claim()).toMatchObject([{ token: 2 }])
    await expectConsistent(raw.port, queue.name)
  })
})

test('32: redrive with a limit of 100 and no cursor moves all of 250 dead jobs', async () => {
  const queue = queueOn(apiOn(shared))
  await queue.post('jobs', { jobs: Array(250).fill({ payload: 1 }) })
  for (
    let held = await queue.claim({ limit: 100 });
    held.length > 0;
    held = await queue.claim({ limit: 100 })
  )
    await queue.post('settle', { items: held.map(({ id, token }) => ({ id, token, action: 'fail' })) })
  expect((await queue.counts()).dead).toBe(250)
  const steps: number[] = []
  for (let more = true; more; ) {
    const { json } = await queue.post('redrive', { limit: 100 })
    steps.push(json.redriven)
    more = json.more
  }
  expect(steps).toEqual([100, 100, 50])
  expect(await queue.counts()).toEqual({ pending: 250, active: 0, scheduled: 0, dead: 0 })
  await expectConsistent(raw.port, queue.name)
})

test('33: a redriven job has the same id and exactly the same payload', async () => {
  const queue = queueOn(apiOn(shared))
  const id = await queue.enqueue({ payload: { a: 1 } })
  await queue.claim()
  await queue.post(`jobs/${id}/fail`, { token: 1, error: 'e' })
  await queue.post(`jobs/${id}/redrive`)
  expect(await queue.claim()).toMatchObject([{ id, token: 2, payload: { a: 1 } }])
  expect(await raw.run('HGET', queue.keys.job(id), 'payload')).toBe('{"a":1}')
  await expectConsistent(raw.port, queue.name)
})

/** Claims the job and lets its lease lapse. Returns the token. */
async function crash(queue: TestQueue, id: string, body: object): Promise<number | undefined> {
  if ((await queue.job(id)).state === 'scheduled') await queue.put(`jobs/${id}/schedule`, { delayMs: 0 })
  const [held] = await queue.claim(body)
  expect(held?.id).toBe(id)
  await queue.reapOne()
  return held?.token
}
