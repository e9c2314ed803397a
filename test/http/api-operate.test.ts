/** Operating over HTTP: pumps, maintenance, redrive, reschedule, remove, drain, settings. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const ID = 'JOB0KHTOWnGLuC'
type Job = { id: string; token: number }

const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const put = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('PUT', `/v1/queues/${queue}/${path}`, body)
const remove = (api: Api, queue: string, id: string) => api.call('DELETE', `/v1/queues/${queue}/jobs/${id}`)
const fill = async (api: Api, queue: string, jobs: object[]): Promise<string[]> =>
  (await post(api, queue, 'jobs', { jobs })).json.results.map(({ id }: Job) => id)
const plain = (count: number, more: object = {}): object[] =>
  Array.from({ length: count }, (_, payload) => ({ payload, ...more }))
const claim = async (api: Api, queue: string, body: object = { limit: 100 }): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const job = async (api: Api, queue: string, id: string) =>
  (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const lapseAll = (api: Api, queue: string) =>
  until(
    async () =>
      (await raw.run('ZCOUNT', keyspace(queue).active, '-inf', Date.now() - 1)) ===
      (await stats(api, queue)).counts.active,
  )

/** Dead jobs, each with its own error. */
async function bury(api: Api, queue: string, count: number): Promise<string[]> {
  const ids = await fill(api, queue, plain(count))
  for (let left = count; left > 0; left -= 100) {
    const items = (await claim(api, queue)).map(({ id, token }) => ({
      ...{ id, token, action: 'fail' },
      error: `error of ${ids.indexOf(id)}.`,
    }))
    await post(api, queue, 'settle', { items })
  }
  return ids
}

const onlyFor = (queues: string[]) => ({
  EMQ_TOKENS: JSON.stringify([
    { name: 'x', sha256: createHash('sha256').update('x').digest('hex'), scopes: ['operate'], queues },
  ]),
})

describe('the pumps', () => {
  test('promote moves what is due, bounded, and says whether there is more', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await fill(api, queue, plain(7, { delayMs: 1 }))
    await fill(api, queue, plain(1, { delayMs: 60_000 }))
    await until(async () => (await raw.run('ZCOUNT', keyspace(queue).schedule, '-inf', Date.now() - 1)) === 7)
    await shared.bridge.reset()
    expect((await post(api, queue, 'promote', { limit: 5 })).json).toEqual({ promoted: 5, more: true })
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await post(api, queue, 'promote')).json).toEqual({ promoted: 2, more: false })
    expect((await post(api, queue, 'promote')).json).toEqual({ promoted: 0, more: false })
    expect((await stats(api, queue)).counts).toEqual({ pending: 7, active: 0, scheduled: 1, dead: 0 })
    await clean(queue)
  })

  test('reap takes back what has lapsed, bounded, and counts what died', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await fill(api, queue, [...plain(5), ...plain(2, { maxAttempts: 1 })])
    await claim(api, queue, { limit: 100, leaseMs: 10 })
    await lapseAll(api, queue)
    expect((await post(api, queue, 'reap', { limit: 3 })).json).toEqual({ reaped: 3, dead: 0, more: true })
    expect((await post(api, queue, 'reap')).json).toEqual({ reaped: 4, dead: 2, more: false })
    expect((await post(api, queue, 'reap')).json).toEqual({ reaped: 0, dead: 0, more: false })
    expect((await stats(api, queue)).counts).toEqual({ pending: 5, active: 0, scheduled: 0, dead: 2 })
    await clean(queue)
  })
})

describe('maintenance', () => {
  test('does what the cron does, for the queues of the token only', async () => {
    const api = apiOn(shared)
    const mine = freshQueue()
    const other = freshQueue()
    for (const queue of [mine, other]) {
      await fill(api, queue, plain(3, { delayMs: 1 }))
      await fill(api, queue, plain(2))
      await raw.run('ZADD', keyspace(queue).active, 1, ID)
      await claim(api, queue, { limit: 2, leaseMs: 10 })
      await lapseAll(api, queue)
    }
    const scoped = apiOn(shared, onlyFor([mine]))
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
    expect((await stats(api, mine)).counts).toMatchObject({ active: 0, scheduled: 0 })
    expect((await stats(api, other)).counts.active).toBeGreaterThan(0)
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).toBeNull()

    const all = (await api.call('POST', '/v1/maintenance', {})).json
    expect(all.queues).toBeGreaterThan(0)
    expect((await stats(api, other)).counts).toMatchObject({ active: 0, scheduled: 0 })
    expect(Math.abs(Number(await raw.run('GET', GLOBAL_KEYS.maintenance)) - Date.now())).toBeLessThan(5_000)
    await clean(mine)
    await clean(other)
  })

  test('visits the queues that are always maintained, though nobody registered them', async () => {
    const queue = freshQueue()
    const key = keyspace(queue)
    await raw.run('HSET', key.job(ID), 'state', 'scheduled', 'attempts', '0', 'payload', '1')
    await raw.run('ZADD', key.schedule, 1, ID)
    const api = apiOn(shared, { ...onlyFor([queue]), EMQ_QUEUES: queue })
    expect((await api.call('POST', '/v1/maintenance', {}, { token: 'x' })).json).toMatchObject({
      queues: 1,
      promoted: 1,
    })
    await clean(queue)
  })
})

describe('redrive', () => {
  test('brings one dead job back: same id and payload, a fresh budget, a token that goes on rising', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await bury(api, queue, 1)
    await shared.bridge.reset()
    const answer = await post(api, queue, `jobs/${id}/redrive`)
    expect([answer.status, answer.json]).toEqual([200, { id, status: 'pending' }])
    expect((await shared.bridge.counts()).requests).toBe(1)
    const again = await post(api, queue, `jobs/${id}/redrive`)
    expect(again.json).toMatchObject({ status: 409, code: 'wrong_state', state: 'pending' })
    expect((await post(api, queue, `jobs/${id}/complete`, { token: 1 })).json).toMatchObject({
      reason: 'released',
    })
    expect(await claim(api, queue, { limit: 1 })).toMatchObject([{ id, token: 2, payload: 0 }])
    expect((await post(api, queue, `jobs/${id}/redrive`)).json).toMatchObject({
      code: 'wrong_state',
      state: 'active',
    })
    await post(api, queue, `jobs/${id}/retry`, { token: 2, delayMs: 60_000 })
    expect((await post(api, queue, `jobs/${id}/redrive`)).json).toMatchObject({ state: 'scheduled' })
    expect((await post(api, queue, `jobs/${ID}/redrive`)).json).toMatchObject({ status: 410, code: 'gone' })
    await clean(queue)
  })

  test('of many is bounded, oldest first, and goes on', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await bury(api, queue, 250)
    await shared.bridge.reset()
    const first = (await post(api, queue, 'redrive')).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(first).toEqual({ redriven: 100, more: true, cursor: ids[99] })
    expect((await post(api, queue, 'redrive', { limit: 100, cursor: first.cursor })).json.redriven).toBe(100)
    expect((await post(api, queue, 'redrive', { limit: 1000 })).json).toEqual({ redriven: 50, more: false })
    expect((await stats(api, queue)).counts).toEqual({ pending: 250, active: 0, scheduled: 0, dead: 0 })
    await clean(queue)
  })

  test('selects by mint time and by error text, and a dry run changes nothing', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await bury(api, queue, 25)
    const of2 = { errorContains: 'error of 2' }
    expect((await post(api, queue, 'redrive', { ...of2, dryRun: true })).json.redriven).toBe(6)
    expect((await stats(api, queue)).counts.dead).toBe(25)
    expect((await post(api, queue, 'redrive', { errorContains: '%d*.' })).json.redriven).toBe(0)
    expect((await post(api, queue, 'redrive', { errorContains: 'of 2.' })).json.redriven).toBe(1)
    expect((await job(api, queue, ids[2] ?? '')).state).toBe('pending')
    const minted = Date.parse((await job(api, queue, ids[0] ?? '')).enqueuedAt)
    expect((await post(api, queue, 'redrive', { to: minted })).json.redriven).toBe(0)
    expect((await post(api, queue, 'redrive', { from: minted + 60_000 })).json.redriven).toBe(0)
    const day = { from: new Date(minted).toISOString(), to: minted + 60_000 }
    expect((await post(api, queue, 'redrive', { ...day, ...of2 })).json.redriven).toBe(5)
    expect((await post(api, queue, 'redrive', day)).json.redriven).toBe(19)
    await clean(queue)
  })
})

describe('schedule', () => {
  test('moves a scheduled job to another time, and 0 is now', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await fill(api, queue, plain(1, { delayMs: 60_000 }))
    const runAt = Date.now() + 3_600_000
    for (const when of [{ runAt }, { runAt: new Date(runAt).toISOString() }, { delayMs: 3_600_000 }]) {
      const answer = await put(api, queue, `jobs/${id}/schedule`, when)
      expect([answer.status, answer.json]).toEqual([200, { id, status: 'scheduled' }])
      expect(Math.abs(Date.parse((await job(api, queue, id)).runAt) - runAt)).toBeLessThan(5_000)
    }
    expect((await put(api, queue, `jobs/${id}/schedule`, { delayMs: 0 })).json).toEqual({
      id,
      status: 'pending',
    })
    expect(await claim(api, queue, { limit: 1 })).toMatchObject([{ id, token: 1 }])
    await clean(queue)
  })

  test('with a time that has passed is now; of a job that is not scheduled is the wrong state', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await fill(api, queue, plain(1, { delayMs: 60_000 }))
    expect((await put(api, queue, `jobs/${id}/schedule`, { runAt: 0 })).json.status).toBe('pending')
    for (const state of ['pending', 'active', 'dead']) {
      const refused = await put(api, queue, `jobs/${id}/schedule`, { delayMs: 5 })
      expect([refused.status, refused.json.code, refused.json.state]).toEqual([409, 'wrong_state', state])
      if (state === 'pending') await claim(api, queue, { limit: 1 })
      if (state === 'active') await post(api, queue, `jobs/${id}/fail`, { token: 1 })
    }
    expect((await put(api, queue, `jobs/${ID}/schedule`, { delayMs: 5 })).json).toMatchObject({
      status: 410,
      code: 'gone',
    })
    await clean(queue)
  })
})

describe('remove', () => {
  test('deletes from any state, but not what a live lease holds', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const startBy = Date.now() + 600_000
    const [pending = '', active = '', dead = ''] = await fill(api, queue, plain(3, { startBy }))
    const [scheduled = ''] = await fill(api, queue, plain(1, { delayMs: 60_000 }))
    await claim(api, queue, { limit: 1 })
    await post(api, queue, `jobs/${pending}/release`, { token: 1 })
    await claim(api, queue, { limit: 3 })
    await post(api, queue, `jobs/${pending}/release`, { token: 2 })
    await post(api, queue, `jobs/${dead}/fail`, { token: 1 })

    const locked = await remove(api, queue, active)
    expect([locked.status, locked.json.code]).toEqual([409, 'locked'])
    expect((await job(api, queue, active)).state).toBe('active')
    for (const id of [pending, scheduled, dead]) {
      const answer = await remove(api, queue, id)
      expect([answer.status, answer.text]).toEqual([204, ''])
      expect((await remove(api, queue, id)).json).toMatchObject({ status: 410, code: 'gone' })
    }
    await post(api, queue, `jobs/${active}/extend`, { token: 1, leaseMs: 10 })
    await lapseAll(api, queue)
    expect((await remove(api, queue, active)).status).toBe(204)
    expect(await keysOf(raw.port, queue)).toEqual([keyspace(queue).failed])
  })
})

describe('purge', () => {
  test.each(['pending', 'scheduled', 'dead'] as const)(
    'deletes %s only, oldest first, bounded',
    async (state) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      await bury(api, queue, 5)
      await fill(api, queue, plain(5, { delayMs: 60_000, startBy: Date.now() + 600_000 }))
      const ids = await fill(api, queue, plain(5))
      await shared.bridge.reset()
      expect((await post(api, queue, 'purge', { state, limit: 3 })).json).toEqual({ removed: 3, more: true })
      expect((await shared.bridge.counts()).requests).toBe(1)
      if (state === 'pending') expect((await job(api, queue, ids[3] ?? '')).state).toBe('pending')
      expect((await post(api, queue, 'purge', { state })).json).toEqual({ removed: 2, more: false })
      expect((await post(api, queue, 'purge', { state })).json).toEqual({ removed: 0, more: false })
      expect((await stats(api, queue)).counts).toEqual({
        pending: 5,
        active: 0,
        scheduled: 5,
        dead: 5,
        [state]: 0,
      })
      await clean(queue)
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

  test('are merged, null takes one back, and the answer is what is in force', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const set = async (body: object) => {
      const answer = await put(api, queue, 'settings', body)
      expect(answer.status).toBe(200)
      expect((await stats(api, queue)).settings).toEqual(answer.json)
      return answer.json
    }
    expect((await put(api, queue, 'settings', {})).json).toEqual(DEFAULTS)
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
    expect(await keysOf(raw.port, queue)).toEqual([])
  })

  test('take one subrequest, and do not touch the pause', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await post(api, queue, 'pause')
    await shared.bridge.reset()
    await put(api, queue, 'settings', { leaseMs: 50, maxActive: null })
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await stats(api, queue)).paused).toBe(true)
    await shared.bridge.reset()
    await post(api, queue, 'resume')
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect((await stats(api, queue)).paused).toBe(false)
  })
})

test('every route under a path of a queue is for its own queue only', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const near = `${queue}x`
  const [id = ''] = await bury(api, queue, 1)
  for (const [method, path, body] of [
    ['POST', `jobs/${id}/redrive`, {}],
    ['PUT', `jobs/${id}/schedule`, { delayMs: 0 }],
    ['DELETE', `jobs/${id}`, undefined],
    ['POST', `jobs/${id}/complete`, { token: 1 }],
  ] as const)
    expect((await api.call(method, `/v1/queues/${near}/${path}`, body)).status, path).toBe(410)
  for (const [path, body] of [
    ['redrive', {}],
    ['purge', { state: 'dead' }],
    ['reap', {}],
  ] as const)
    await post(api, near, path, body)
  expect((await job(api, queue, id)).state).toBe('dead')
  expect(
    (await api.call('GET', `/v1/queues/${queue}`, undefined, { token: TOKENS.counter })).json.counts.dead,
  ).toBe(1)
})
