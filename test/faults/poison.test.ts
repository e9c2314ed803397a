/** Faults 29 to 33: poison jobs and dead letters. */
import { describe, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

type Job = { id: string; token: number; payload: unknown }
const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const put = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('PUT', `/v1/queues/${queue}/${path}`, body)
const enqueue = async (api: Api, queue: string, body: object = {}): Promise<string> =>
  (await post(api, queue, 'jobs', { payload: 1, ...body })).json.id
const claim = async (api: Api, queue: string, body: object = { limit: 1 }): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs
const job = async (api: Api, queue: string, id: string) =>
  (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const reapOne = (api: Api, queue: string) =>
  until(async () => {
    const { json } = await post(api, queue, 'reap')
    return json.reaped === 1 && json
  })

/** A holder that takes the job and is never heard of again. */
async function crash(api: Api, queue: string, id: string, body: object): Promise<number> {
  if ((await job(api, queue, id)).state === 'scheduled')
    await put(api, queue, `jobs/${id}/schedule`, { delayMs: 0 })
  const [held] = await claim(api, queue, body)
  expect(held?.id).toBe(id)
  await reapOne(api, queue)
  return held?.token ?? 0
}

describe('29: a job that kills its worker', () => {
  test.each([{ leaseMs: 10 }, { limit: 1, leaseMs: 10 }])(
    'is dead when its budget is spent, claimed with %j',
    async (body) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const id = await enqueue(api, queue, { maxAttempts: 3 })
      for (const token of [1, 2, 3]) expect(await crash(api, queue, id, body)).toBe(token)
      const dead = await job(api, queue, id)
      expect(dead).toMatchObject({ state: 'dead', attempts: 3, lapses: 3 })
      expect(dead.lastError).toMatch(/lease expired.*3 of 3/)
      expect(await claim(api, queue, body)).toEqual([])
      expect((await stats(api, queue)).failed).toBe(1)
      await clean(queue)
    },
  )

  test('by the queue’s setting as well, reaped by a claim or by maintenance', async () => {
    const api = apiOn(shared)
    for (const sweep of ['claim', 'maintenance']) {
      const queue = freshQueue()
      await put(api, queue, 'settings', { maxAttempts: 1 })
      const id = await enqueue(api, queue)
      await claim(api, queue, { limit: 1, leaseMs: 10 })
      await until(async () => {
        if (sweep === 'claim') expect(await claim(api, queue)).toEqual([])
        else await api.call('POST', '/v1/maintenance', {})
        return (await job(api, queue, id)).state === 'dead'
      })
      await clean(queue)
    }
  })

  test('lives on without a limit', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { maxAttempts: 0 })
    for (let token = 1; token <= 8; token++)
      expect(await crash(api, queue, id, { limit: 1, leaseMs: 10 })).toBe(token)
    expect(await job(api, queue, id)).toMatchObject({ attempts: 8, lapses: 8 })
    await clean(queue)
  })
})

describe('30: a poison job in front of healthy ones', () => {
  test.each([{ leaseMs: 10 }, { limit: 1, leaseMs: 10 }])(
    'cannot starve them: both are served within four claims of %j',
    async (body) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const poison = await enqueue(api, queue, { payload: 'poison' })
      await enqueue(api, queue, { payload: 'good 1' })
      await enqueue(api, queue, { payload: 'good 2' })
      const served: unknown[] = []
      for (let nth = 0; nth < 4; nth++) {
        const [held] = await claim(api, queue, body)
        served.push(held?.payload)
        if (held?.id === poison) await reapOne(api, queue)
        else if (held !== undefined) await post(api, queue, `jobs/${held.id}/complete`, { token: held.token })
      }
      expect(served).toContain('good 1')
      expect(served).toContain('good 2')
      await clean(queue)
    },
  )
})

describe('31: a redriven job whose old holder comes back', () => {
  test('refuses it, and has a fresh budget of its own', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { maxAttempts: 3 })
    const lease = { limit: 1, leaseMs: 10 }
    for (const _ of [1, 2, 3]) await crash(api, queue, id, lease)
    expect((await job(api, queue, id)).state).toBe('dead')
    await post(api, queue, `jobs/${id}/redrive`)
    const early = await post(api, queue, `jobs/${id}/complete`, { token: 3 })
    expect(early.json).toMatchObject({ code: 'stale', reason: 'released' })
    expect(await claim(api, queue)).toMatchObject([{ id, token: 4 }])
    const late = await post(api, queue, `jobs/${id}/complete`, { token: 3 })
    expect(late.json).toMatchObject({ code: 'stale', reason: 'superseded' })
    await post(api, queue, `jobs/${id}/retry`, { token: 4, delayMs: 0 })
    await post(api, queue, 'promote')
    expect(await crash(api, queue, id, lease)).toBe(5)
    expect((await job(api, queue, id)).state).toBe('pending')
    expect(await claim(api, queue)).toMatchObject([{ token: 6 }])
    expect((await post(api, queue, `jobs/${id}/retry`, { token: 6, delayMs: 0 })).json.status).toBe('dead')
    await clean(queue)
  })

  test('after a mass redrive as well', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = await enqueue(api, queue, { maxAttempts: 1 })
    await crash(api, queue, id, { limit: 1, leaseMs: 10 })
    expect((await post(api, queue, 'redrive')).json.redriven).toBe(1)
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).json.reason).toBe('released')
    expect((await job(api, queue, id)).lapses).toBeUndefined()
    expect(await claim(api, queue)).toMatchObject([{ token: 2 }])
    await clean(queue)
  })
})

test('32: 250 dead jobs are all redriven, with a limit of 100 and no cursor', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  await post(api, queue, 'jobs', { jobs: Array(250).fill({ payload: 1 }) })
  for (
    let held = await claim(api, queue, { limit: 100 });
    held.length > 0;
    held = await claim(api, queue, { limit: 100 })
  )
    await post(api, queue, 'settle', { items: held.map(({ id, token }) => ({ id, token, action: 'fail' })) })
  expect((await stats(api, queue)).counts.dead).toBe(250)
  const steps: number[] = []
  for (let more = true; more; ) {
    const { json } = await post(api, queue, 'redrive', { limit: 100 })
    steps.push(json.redriven)
    more = json.more
  }
  expect(steps).toEqual([100, 100, 50])
  expect((await stats(api, queue)).counts).toEqual({ pending: 250, active: 0, scheduled: 0, dead: 0 })
  await clean(queue)
})

test('33: a redriven job is the same job: same id, same payload, nothing around it', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const id = await enqueue(api, queue, { payload: { a: 1 } })
  await claim(api, queue)
  await post(api, queue, `jobs/${id}/fail`, { token: 1, error: 'e' })
  await post(api, queue, `jobs/${id}/redrive`)
  expect(await claim(api, queue)).toMatchObject([{ id, token: 2, payload: { a: 1 } }])
  expect(await raw.run('HGET', keyspace(queue).job(id), 'payload')).toBe('{"a":1}')
  await clean(queue)
})
