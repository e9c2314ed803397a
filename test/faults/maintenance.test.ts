/** Faults 56, 58, 59 and 62, and 60 in this runtime: maintenance, lost scripts, replicas that lag, changed text modules. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
const log = capturedLog()
afterEach(() => shared.bridge.reset())

type Job = { id: string; token: number }
const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const stats = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])
const many = async (api: Api, queue: string, count: number, more: object = {}): Promise<void> => {
  await post(api, queue, 'jobs', { jobs: Array(count).fill({ payload: 1, ...more }) })
}

const MAKE_OLD =
  "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, id) end"

/** As many jobs that are due as jobs whose lease has lapsed. */
async function backlog(api: Api, queue: string, count: number): Promise<void> {
  await many(api, queue, count)
  for (let left = count; left > 0; left -= 100)
    await post(api, queue, 'claim', { limit: Math.min(100, left) })
  await many(api, queue, count, { delayMs: 60_000 })
  for (const set of ['active', 'schedule'] as const) await raw.run('EVAL', MAKE_OLD, 1, keyspace(queue)[set])
}

describe('56: a queue that fails', () => {
  test('stops no other, and the next run takes what was left', async () => {
    const api = apiOn(shared)
    const queues = [freshQueue(), freshQueue(), freshQueue()]
    const [broken = ''] = queues
    for (const queue of queues) await backlog(api, queue, 3)
    await raw.run('RENAME', keyspace(broken).schedule, 'aside')
    await raw.run('SET', keyspace(broken).schedule, 'not a set')
    const first = (await api.call('POST', '/v1/maintenance', {})).json
    expect(first).toMatchObject({ queues: 2, promoted: 6, reaped: 6, remaining: [broken] })
    for (const queue of queues.slice(1)) {
      expect((await stats(api, queue)).counts).toEqual({ pending: 6, active: 0, scheduled: 0, dead: 0 })
      await clean(queue)
    }
    await raw.run('RENAME', 'aside', keyspace(broken).schedule)
    const second = (await api.call('POST', '/v1/maintenance', {})).json
    expect(second).toMatchObject({ promoted: 3, reaped: 3, remaining: [] })
    await clean(broken)
  })

  test('is named among the remaining ones, and its reason is logged without what the upstream said', async () => {
    const api = apiOn(shared)
    const [broken, good] = [freshQueue(), freshQueue()]
    for (const queue of [broken, good]) await backlog(api, queue, 2)
    shared.bridge.answer(
      { status: 500, body: '{"error":"ERR boom SECRET-1"}' },
      { times: Number.POSITIVE_INFINITY, match: `{${broken}}` },
    )
    const answer = await api.call('POST', '/v1/maintenance', {})
    await shared.bridge.reset()
    expect(answer.status).toBe(200)
    expect(answer.json.remaining).toEqual([broken])
    expect((await stats(api, good)).counts.pending).toBe(4)
    expect(log.text).toContain('maintenance')
    expect(answer.text + log.text).not.toContain('SECRET-1')
  })

  test('when the whole plan cannot be read the answer is 503', async () => {
    const api = apiOn(shared)
    await api.call('POST', '/v1/maintenance', {})
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    expect((await api.call('POST', '/v1/maintenance', {})).status).toBe(503)
  })

  test('what stands in the registry and is no queue at all is passed by', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await backlog(api, queue, 2)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 0, 'a}b', 0, 'emq', 0, '')
    const { json } = await api.call('POST', '/v1/maintenance', {})
    expect(json).toMatchObject({ promoted: 2, reaped: 2, remaining: [] })
    await raw.run('ZREM', GLOBAL_KEYS.queues, 'a}b', 'emq', '')
  })
})

describe('58: two schedulers at once, or none for long', () => {
  test('ticks in parallel count nothing twice, and the census is clean', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await backlog(api, queue, 500)
    const ticks = await Promise.all(
      Array.from({ length: 2 }, () =>
        apiOn(shared, { EMQ_QUEUES: queue }).call('POST', '/v1/maintenance', {}),
      ),
    )
    const sum = (field: string) => ticks.reduce((total, { json }) => total + json[field], 0)
    expect([sum('promoted'), sum('reaped'), sum('dead'), sum('ghosts')]).toEqual([500, 500, 0, 0])
    expect((await stats(api, queue)).counts).toEqual({ pending: 1000, active: 0, scheduled: 0, dead: 0 })
    await clean(queue)
  })

  test('readiness tells how long ago the last run was', async () => {
    const api = apiOn(shared)
    await raw.run('SET', GLOBAL_KEYS.maintenance, Date.now() - 600_000)
    const age = async () =>
      (await api.call('GET', '/readyz', undefined, { token: null })).json.checks.maintenance.ageMs
    expect(Math.abs((await age()) - 600_000)).toBeLessThan(10_000)
    await apiOn(shared).call('POST', '/v1/maintenance', {})
    expect(await age()).toBeLessThan(10_000)
  })
})

describe('59: the script cache is lost', () => {
  test('before 20 parallel enqueues: all succeed, 20 jobs', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await raw.run('SCRIPT', 'FLUSH')
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => post(api, queue, 'jobs', { payload })),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(201))
    expect((await stats(api, queue)).counts.pending).toBe(20)
    await clean(queue)
  })

  test('before every request, also between load and run: every move works', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    shared.bridge.flushScripts(true)
    await many(api, queue, 9)
    const [first] = (await post(api, queue, 'claim', {})).json.jobs as Job[]
    const jobs = [first, ...((await post(api, queue, 'claim', { limit: 8, leaseMs: 50 })).json.jobs as Job[])]
    const [a, b, c, d, e, f, g] = jobs.map((found) => found?.id ?? '')
    const move = async (path: string, body: object) => {
      const answer = await post(api, queue, path, body)
      expect(answer.status, path).toBe(200)
    }
    await move(`jobs/${a}/complete`, { token: 1 })
    await move(`jobs/${b}/retry`, { token: 1, delayMs: 60_000 })
    await move(`jobs/${c}/fail`, { token: 1 })
    await move(`jobs/${d}/release`, { token: 1 })
    await move(`jobs/${e}/extend`, { token: 1, leaseMs: 60_000 })
    await move('settle', { items: [{ id: f, action: 'complete', token: 1 }], claim: { limit: 1 } })
    await move(`jobs/${c}/redrive`, {})
    await move('redrive', {})
    await move('promote', {})
    await move('reap', {})
    await move('audit', {})
    expect((await api.call('PUT', `/v1/queues/${queue}/jobs/${b}/schedule`, { delayMs: 0 })).status).toBe(200)
    expect((await api.call('DELETE', `/v1/queues/${queue}/jobs/${b}`)).status).toBe(204)
    expect((await api.call('GET', `/v1/queues/${queue}/jobs`)).status).toBe(200)
    expect((await api.call('POST', '/v1/maintenance', {})).status).toBe(200)
    await move('purge', { state: 'pending' })
    expect(g).not.toBe('')
    shared.bridge.flushScripts(false)
    await clean(queue)
  })

  test('costs nothing twice: a claim whose script was lost hands out one job', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await many(api, queue, 3)
    await post(api, queue, 'claim', {})
    await raw.run('SCRIPT', 'FLUSH')
    await shared.bridge.reset()
    expect((await post(api, queue, 'claim', {})).json.jobs).toHaveLength(1)
    expect((await shared.bridge.counts()).requests).toBe(3)
    expect((await stats(api, queue)).counts).toMatchObject({ pending: 1, active: 2 })
  })
})

describe('60: text modules', () => {
  test('every script of this runtime has its pinned SHA-1 and the bytes of its file', () => {
    expect(Object.keys(SCRIPTS).length).toBeGreaterThan(10)
    for (const [name, { source, sha1 }] of Object.entries(SCRIPTS)) {
      expect(createHash('sha1').update(source).digest('hex'), name).toBe(sha1)
      expect(source, name).toBe(readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8'))
      expect(source, name).not.toContain('\r')
    }
    expect(SCRIPTS.claim.sha1).toBe('2319de1e94e21dd355032c7a25b90636b53f36cd')
  })

  test('a checkout keeps its line ends', () => {
    const attributes = readFileSync(new URL('../../.gitattributes', import.meta.url), 'utf8')
    expect(attributes).toMatch(/^\*\.lua text eol=lf$/m)
  })
})

describe('62: reading one’s own write', () => {
  test('a replica that lags is not asked for what was just written', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id: old } = (await post(api, queue, 'jobs', { payload: 'old' })).json
    await shared.bridge.staleReads(true)
    const { id } = (await post(api, queue, 'jobs', { payload: 'new' })).json
    const read = await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)
    expect([read.status, read.json.payload]).toEqual([200, 'new'])
    expect((await stats(api, queue)).counts.pending).toBe(2)
    await post(api, queue, `claim`, { limit: 1 })
    expect((await api.call('GET', `/v1/queues/${queue}/jobs/${old}`)).json.state).toBe('active')
    await api.call('PUT', `/v1/queues/${queue}/settings`, { leaseMs: 50 })
    expect((await stats(api, queue)).settings.leaseMs).toBe(50)
  })
})
