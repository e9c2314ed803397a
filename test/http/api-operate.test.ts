/** Operating over HTTP: promote, reap, maintenance, redrive, reschedule, remove, purge, settings. */
import { describe, expect, test } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { apiOn, freshQueue, tokenEntry } from '../support/api.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'

describe('promote and reap', () => {
  test('promote moves due jobs up to its limit and reports whether there are more', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(7, { delayMs: 1 })
    await queue.enqueueMany(1, { delayMs: 60_000 })
    await until(async () => (await raw.run('ZCOUNT', queue.keys.schedule, '-inf', Date.now() - 1)) === 7)
    await shared.bridge.reset()
    expect((await queue.post('promote', { limit: 5 })).json).toEqual({ promoted: 5, more: true })
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await queue.post('promote')).json).toEqual({ promoted: 2, more: false })
    expect((await queue.post('promote')).json).toEqual({ promoted: 0, more: false })
    expect(await queue.counts()).toEqual({ pending: 7, active: 0, scheduled: 1, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })

  test('reap takes lapsed jobs up to its limit and reports how many are dead', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(5)
    await queue.enqueueMany(2, { maxAttempts: 1 })
    await queue.claim({ limit: 100, leaseMs: 10 })
    await untilLapsed(queue)
    expect((await queue.post('reap', { limit: 3 })).json).toEqual({ reaped: 3, dead: 0, more: true })
    expect((await queue.post('reap')).json).toEqual({ reaped: 4, dead: 2, more: false })
    expect((await queue.post('reap')).json).toEqual({ reaped: 0, dead: 0, more: false })
    expect(await queue.counts()).toEqual({ pending: 5, active: 0, scheduled: 0, dead: 2 })
    await expectConsistent(raw.port, queue.name)
  })
})

describe('maintenance', () => {
  test('maintenance does what the cron does, for the queues of the token only', async () => {
    const api = apiOn(shared)
    const mine = queueOn(api)
    const other = queueOn(api)
    for (const queue of [mine, other]) {
      await queue.enqueueMany(3, { delayMs: 1 })
      await queue.enqueueMany(2)
      await raw.run('ZADD', queue.keys.active, 1, ID)
      await queue.claim({ limit: 2, leaseMs: 10 })
      await untilLapsed(queue)
    }
    const scoped = apiOn(shared, onlyFor(mine.name))
    const report = (await scoped.call('POST', '/v1/maintenance', undefined, { token: 'x' })).json
    expect(report).toMatchObject({ queues: 1, dead: 0, remaining: [] })
    expect(Object.keys(report).sort()).toEqual([
      'dead',
      'ghosts',
      'promoted',
      'queues',
      'reaped',
      'remaining',
    ])
    expect(await mine.counts()).toMatchObject({ active: 0, scheduled: 0 })
    expect((await other.counts()).active).toBe(2)
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).toBeNull()

    expect((await api.call('POST', '/v1/maintenance', {})).json).toMatchObject({ reaped: 2, remaining: [] })
    expect(await other.counts()).toMatchObject({ active: 0, scheduled: 0 })
    expect(Math.abs(Number(await raw.run('GET', GLOBAL_KEYS.maintenance)) - Date.now())).toBeLessThan(5_000)
    await expectConsistent(raw.port, mine.name, other.name)
  })

  test('maintenance sweeps the queues of EMQ_QUEUES even if the registry does not list them', async () => {
    const name = freshQueue()
    const api = apiOn(shared, { ...onlyFor(name), EMQ_QUEUES: name })
    const { keys } = queueOn(api, name)
    await raw.run('HSET', keys.job(ID), 'state', 'scheduled', 'attempts', '0', 'payload', '1')
    await raw.run('ZADD', keys.schedule, 1, ID)
    expect((await api.call('POST', '/v1/maintenance', {}, { token: 'x' })).json).toMatchObject({
      queues: 1,
      promoted: 1,
    })
    await expectConsistent(raw.port, name)
  })
})

describe('redrive', () => {
  test('redrive moves a dead job to pending with its id, its payload, a fresh budget and the next token', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await deadJobs(queue, 1)
    await shared.bridge.reset()
    const answer = await queue.post(`jobs/${id}/redrive`)
    expect([answer.status, answer.json]).toEqual([200, { id, status: 'pending' }])
    expect((await shared.bridge.counts()).requests).toBe(1)
    const again = await queue.post(`jobs/${id}/redrive`)
    expect(again.json).toMatchObject({ status: 409, code: 'wrong_state', state: 'pending' })
    expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).json).toMatchObject({
      reason: 'released',
    })
    expect(await queue.claim({ limit: 1 })).toMatchObject([{ id, token: 2, payload: 0 }])
    expect((await queue.post(`jobs/${id}/redrive`)).json).toMatchObject({
      code: 'wrong_state',
      state: 'active',
    })
    await queue.post(`jobs/${id}/retry`, { token: 2, delayMs: 60_000 })
    expect((await queue.post(`jobs/${id}/redrive`)).json).toMatchObject({ state: 'scheduled' })
    expect((await queue.post(`jobs/${ID}/redrive`)).json).toMatchObject({ status: 410, code: 'gone' })
    await expectConsistent(raw.port, queue.name)
  })

  test('redrive of many jobs is limited, starts with the oldest and continues at its cursor', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await deadJobs(queue, 250)
    await shared.bridge.reset()
    const first = (await queue.post('redrive')).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(first).toEqual({ redriven: 100, more: true, cursor: ids[99] })
    expect((await queue.post('redrive', { limit: 100, cursor: first.cursor })).json.redriven).toBe(100)
    expect((await queue.post('redrive', { limit: 1000 })).json).toEqual({ redriven: 50, more: false })
    expect(await queue.counts()).toEqual({ pending: 250, active: 0, scheduled: 0, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })

  test('redrive selects by mint time and error text, and a dry run changes nothing', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await deadJobs(queue, 25)
    const of2 = { errorContains: 'error of 2' }
    expect((await queue.post('redrive', { ...of2, dryRun: true })).json.redriven).toBe(6)
    expect((await queue.counts()).dead).toBe(25)
    expect((await queue.post('redrive', { errorContains: '%d*.' })).json.redriven).toBe(0)
    expect((await queue.post('redrive', { errorContains: 'of 2.' })).json.redriven).toBe(1)
    expect((await queue.job(ids[2] ?? '')).state).toBe('pending')
    const minted = Date.parse((await queue.job(ids[0] ?? '')).enqueuedAt)
    expect((await queue.post('redrive', { to: minted })).json.redriven).toBe(0)
    expect((await queue.post('redrive', { from: minted + 60_000 })).json.redriven).toBe(0)
    const day = { from: new Date(minted).toISOString(), to: minted + 60_000 }
    expect((await queue.post('redrive', { ...day, ...of2 })).json.redriven).toBe(5)
    expect((await queue.post('redrive', day)).json.redriven).toBe(19)
    await expectConsistent(raw.port, queue.name)
  })
})

describe('schedule', () => {
  test('schedule moves a scheduled job to another time, and a delay of 0 makes it pending', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await queue.enqueueMany(1, { delayMs: 60_000 })
    const runAt = Date.now() + 3_600_000
    for (const when of [{ runAt }, { runAt: new Date(runAt).toISOString() }, { delayMs: 3_600_000 }]) {
      const answer = await queue.put(`jobs/${id}/schedule`, when)
      expect([answer.status, answer.json]).toEqual([200, { id, status: 'scheduled' }])
      expect(Math.abs(Date.parse((await queue.job(id)).runAt) - runAt)).toBeLessThan(5_000)
    }
    expect((await queue.put(`jobs/${id}/schedule`, { delayMs: 0 })).json).toEqual({
      id,
      status: 'pending',
    })
    expect(await queue.claim({ limit: 1 })).toMatchObject([{ id, token: 1 }])
    await expectConsistent(raw.port, queue.name)
  })

  test('schedule with a past time makes a job pending and rejects a job that is not scheduled', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await queue.enqueueMany(1, { delayMs: 60_000 })
    expect((await queue.put(`jobs/${id}/schedule`, { runAt: 0 })).json.status).toBe('pending')
    for (const state of ['pending', 'active', 'dead']) {
      const refused = await queue.put(`jobs/${id}/schedule`, { delayMs: 5 })
      expect([refused.status, refused.json.code, refused.json.state]).toEqual([409, 'wrong_state', state])
      if (state === 'pending') await queue.claim({ limit: 1 })
      if (state === 'active') await queue.post(`jobs/${id}/fail`, { token: 1 })
    }
    expect((await queue.put(`jobs/${ID}/schedule`, { delayMs: 5 })).json).toMatchObject({
      status: 410,
      code: 'gone',
    })
    await expectConsistent(raw.port, queue.name)
  })
})

describe('remove', () => {
  test('remove deletes a job in any state unless its lease is live', async () => {
    const queue = queueOn(apiOn(shared))
    const startBy = Date.now() + 600_000
    const [pending = '', active = '', dead = ''] = await queue.enqueueMany(3, { startBy })
    const [scheduled = ''] = await queue.enqueueMany(1, { delayMs: 60_000 })
    await queue.claim({ limit: 1 })
    await queue.post(`jobs/${pending}/release`, { token: 1 })
    await queue.claim({ limit: 3 })
    await queue.post(`jobs/${pending}/release`, { token: 2 })
    await queue.post(`jobs/${dead}/fail`, { token: 1 })

    const locked = await queue.remove(active)
    expect([locked.status, locked.json.code]).toEqual([409, 'locked'])
    expect((await queue.job(active)).state).toBe('active')
    for (const id of [pending, scheduled, dead]) {
      const answer = await queue.remove(id)
      expect([answer.status, answer.text]).toEqual([204, ''])
      expect((await queue.remove(id)).json).toMatchObject({ status: 410, code: 'gone' })
    }
    await queue.post(`jobs/${active}/extend`, { token: 1, leaseMs: 10 })
    await untilLapsed(queue)
    expect((await queue.remove(active)).status).toBe(204)
    expect(await keysOf(raw.port, queue.name)).toEqual([queue.keys.failed])
  })
})

describe('purge', () => {
  test.each(['pending', 'scheduled', 'dead'] as const)(
    'purge deletes only %s jobs, oldest first, up to its limit',
    async (state) => {
      const queue = queueOn(apiOn(shared))
      await deadJobs(queue, 5)
      await queue.enqueueMany(5, { delayMs: 60_000, startBy: Date.now() + 600_000 })
      const ids = await queue.enqueueMany(5)
      await shared.bridge.reset()
      expect((await queue.post('purge', { state, limit: 3 })).json).toEqual({ removed: 3, more: true })
      expect((await shared.bridge.counts()).requests).toBe(1)
      if (state === 'pending') expect((await queue.job(ids[3] ?? '')).state).toBe('pending')
      expect((await queue.post('purge', { state })).json).toEqual({ removed: 2, more: false })
      expect((await queue.post('purge', { state })).json).toEqual({ removed: 0, more: false })
      expect(await queue.counts()).toEqual({
        pending: 5,
        active: 0,
        scheduled: 5,
        dead: 5,
        [state]: 0,
      })
      await expectConsistent(raw.port, queue.name)
    },
  )
})

describe('settings', () => {
  const DEFAULTS = {
    maxAttempts: 5,
    backoff: { baseMs: 1000, maxMs: 600_000 },
    leaseMs: 30_000,
    maxActive: 0,
    maxPending: 0,
  }

  test('settings are merged, null resets one, and the response is the settings in force', async () => {
    const queue = queueOn(apiOn(shared))
    const set = async (body: object) => {
      const answer = await queue.put('settings', body)
      expect(answer.status).toBe(200)
      expect((await queue.stats()).settings).toEqual(answer.json)
      return answer.json
    }
    expect((await queue.put('settings', {})).json).toEqual(DEFAULTS)
    expect(await set({ maxAttempts: 0, backoff: { baseMs: 5 } })).toEqual({
      ...DEFAULTS,
      maxAttempts: 0,
      backoff: { baseMs: 5, maxMs: 600_000 },
    })
    expect(await set({ backoff: { maxMs: 50 }, leaseMs: 10, maxActive: 3, maxPending: 4 })).toEqual({
      maxAttempts: 0,
      backoff: { baseMs: 5, maxMs: 50 },
      leaseMs: 10,
      maxActive: 3,
      maxPending: 4,
    })
    expect(await set({ backoff: { baseMs: null }, maxActive: null, leaseMs: null })).toEqual({
      ...DEFAULTS,
      maxAttempts: 0,
      backoff: { baseMs: 1000, maxMs: 50 },
      maxPending: 4,
    })
    expect(await set({ backoff: null, maxAttempts: null, maxPending: null })).toEqual(DEFAULTS)
    expect(await keysOf(raw.port, queue.name)).toEqual([])
  })

  test('a change of settings takes one subrequest and does not change the pause', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.post('pause')
    await shared.bridge.reset()
    await queue.put('settings', { leaseMs: 50, maxActive: null })
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await queue.stats()).paused).toBe(true)
    await shared.bridge.reset()
    await queue.post('resume')
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await queue.stats()).paused).toBe(false)
  })
})

test('every route of a queue changes only that queue', async () => {
  const api = apiOn(shared)
  const queue = queueOn(api)
  const near = queueOn(api, `${queue.name}x`)
  const [id = ''] = await deadJobs(queue, 1)
  for (const [method, path, body] of [
    ['POST', `jobs/${id}/redrive`, {}],
    ['PUT', `jobs/${id}/schedule`, { delayMs: 0 }],
    ['DELETE', `jobs/${id}`, undefined],
    ['POST', `jobs/${id}/complete`, { token: 1 }],
  ] as const)
    expect((await api.call(method, `${near.path}/${path}`, body)).status, path).toBe(410)
  for (const [path, body] of [
    ['redrive', {}],
    ['purge', { state: 'dead' }],
    ['reap', {}],
  ] as const)
    expect((await near.post(path, body)).status, path).toBe(200)
  expect((await queue.job(id)).state).toBe('dead')
  expect(await queue.counts()).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 1 })
})

/** Waits until the lease of every active job has lapsed. */
function untilLapsed(queue: TestQueue): Promise<boolean> {
  return until(async () => {
    const lapsed = await raw.run('ZCOUNT', queue.keys.active, '-inf', Date.now() - 1)
    return lapsed === (await queue.counts()).active
  })
}

/** Enqueues jobs and fails them, each with an error of its own. Returns their ids. */
async function deadJobs(queue: TestQueue, count: number): Promise<string[]> {
  const ids = await queue.enqueueMany(count)
  for (let left = count; left > 0; left -= 100) {
    const items = (await queue.claim({ limit: 100 })).map(({ id, token }) => ({
      ...{ id, token, action: 'fail' },
      error: `error of ${ids.indexOf(id)}.`,
    }))
    await queue.post('settle', { items })
  }
  return ids
}

/** The settings under which the token `x` may operate these queues only. */
function onlyFor(...queues: string[]) {
  return { EMQ_TOKENS: JSON.stringify([tokenEntry('x', ['operate'], queues)]) }
}
