/** Faults 56, 58 to 60 and 62: maintenance, lost scripts, changed text modules, replicas that lag. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { apiOn } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)
const log = capturedLog()
afterEach(() => shared.bridge.reset())

describe('56: a queue that fails', () => {
  test('a queue that fails does not stop the others, and the next run sweeps it', async () => {
    const api = apiOn(shared)
    const broken = queueOn(api)
    const others = [queueOn(api), queueOn(api)]
    for (const queue of [broken, ...others]) await backlog(queue, 3)
    await raw.run('RENAME', broken.keys.schedule, 'aside')
    await raw.run('SET', broken.keys.schedule, 'not a set')
    const first = (await api.call('POST', '/v1/maintenance', {})).json
    expect(first).toMatchObject({ queues: 2, promoted: 6, reaped: 6, remaining: [broken.name] })
    for (const queue of others) {
      expect(await queue.counts()).toEqual({ pending: 6, active: 0, scheduled: 0, dead: 0 })
      await expectConsistent(raw.port, queue.name)
    }
    await raw.run('RENAME', 'aside', broken.keys.schedule)
    const second = (await api.call('POST', '/v1/maintenance', {})).json
    expect(second).toMatchObject({ promoted: 3, reaped: 3, remaining: [] })
    await expectConsistent(raw.port, broken.name)
  })

  test('a queue that fails is listed as remaining, and the log has the reason without the text of the upstream', async () => {
    const api = apiOn(shared)
    const [broken, good] = [queueOn(api), queueOn(api)]
    for (const queue of [broken, good]) await backlog(queue, 2)
    shared.bridge.answer(
      { status: 500, body: '{"error":"ERR boom SECRET-1"}' },
      { times: Number.POSITIVE_INFINITY, match: `{${broken.name}}` },
    )
    const answer = await api.call('POST', '/v1/maintenance', {})
    await shared.bridge.reset()
    expect(answer.status).toBe(200)
    expect(answer.json.remaining).toEqual([broken.name])
    expect((await good.counts()).pending).toBe(4)
    expect(log.text).toContain('maintenance')
    expect(answer.text + log.text).not.toContain('SECRET-1')
  })

  test('maintenance returns 503 when the registry cannot be read', async () => {
    const api = apiOn(shared)
    await api.call('POST', '/v1/maintenance', {})
    shared.bridge.hangUp({ times: Number.POSITIVE_INFINITY })
    expect((await api.call('POST', '/v1/maintenance', {})).status).toBe(503)
  })

  test('maintenance skips names in the registry that are not queue names', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    await backlog(queue, 2)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 0, 'a}b', 0, 'emq', 0, '')
    const { json } = await api.call('POST', '/v1/maintenance', {})
    expect(json).toMatchObject({ promoted: 2, reaped: 2, remaining: [] })
    await raw.run('ZREM', GLOBAL_KEYS.queues, 'a}b', 'emq', '')
  })
})

describe('58: two schedulers at once, or none for long', () => {
  test('parallel maintenance runs count nothing twice, and the census is clean', async () => {
    const queue = queueOn(apiOn(shared))
    await backlog(queue, 500)
    const ticks = await Promise.all(
      Array.from({ length: 2 }, () =>
        apiOn(shared, { EMQ_QUEUES: queue.name }).call('POST', '/v1/maintenance', {}),
      ),
    )
    const sum = (field: string) => ticks.reduce((total, { json }) => total + json[field], 0)
    expect([sum('promoted'), sum('reaped'), sum('dead'), sum('ghosts')]).toEqual([500, 500, 0, 0])
    expect(await queue.counts()).toEqual({ pending: 1000, active: 0, scheduled: 0, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })

  test('readiness reports how long ago maintenance ran', async () => {
    await raw.run('SET', GLOBAL_KEYS.maintenance, Date.now() - 600_000)
    // Each isolate repeats its report for five seconds.
    const age = async () =>
      (await apiOn(shared).call('GET', '/readyz', undefined, { token: null })).json.checks.maintenance.ageMs
    expect(Math.abs((await age()) - 600_000)).toBeLessThan(10_000)
    await apiOn(shared).call('POST', '/v1/maintenance', {})
    expect(await age()).toBeLessThan(10_000)
  })
})

describe('59: the script cache is lost', () => {
  test('20 parallel enqueues succeed after the script cache was lost', async () => {
    const queue = queueOn(apiOn(shared))
    await raw.run('SCRIPT', 'FLUSH')
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => queue.post('jobs', { payload })),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(201))
    expect((await queue.counts()).pending).toBe(20)
    await expectConsistent(raw.port, queue.name)
  })

  test('every move succeeds if the script cache is lost before every command', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    shared.bridge.flushScripts(true)
    await queue.enqueueMany(9)
    const [first] = await queue.claim({})
    const jobs = [first, ...(await queue.claim({ limit: 8, leaseMs: 50 }))]
    const [a, b, c, d, e, f, g] = jobs.map((found) => found?.id ?? '')
    const move = async (path: string, body: object) => {
      const answer = await queue.post(path, body)
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
    expect((await queue.put(`jobs/${b}/schedule`, { delayMs: 0 })).status).toBe(200)
    expect((await queue.remove(b ?? '')).status).toBe(204)
    expect((await queue.get('jobs')).status).toBe(200)
    expect((await api.call('POST', '/v1/maintenance', {})).status).toBe(200)
    await move('purge', { state: 'pending' })
    expect(g).not.toBe('')
    shared.bridge.flushScripts(false)
    await expectConsistent(raw.port, queue.name)
  })

  test('a claim whose script was lost returns one job', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.enqueueMany(3)
    await queue.post('claim', {})
    await raw.run('SCRIPT', 'FLUSH')
    await shared.bridge.reset()
    expect((await queue.post('claim', {})).json.jobs).toHaveLength(1)
    expect((await shared.bridge.counts()).requests).toBe(3)
    expect(await queue.counts()).toMatchObject({ pending: 1, active: 2 })
  })
})

describe('60: text modules', () => {
  test('every script has its pinned SHA-1 and the bytes of its file', () => {
    expect(Object.keys(SCRIPTS).length).toBeGreaterThan(10)
    for (const [name, { source, sha1 }] of Object.entries(SCRIPTS)) {
      expect(createHash('sha1').update(source).digest('hex'), name).toBe(sha1)
      expect(source, name).toBe(readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8'))
      expect(source, name).not.toContain('\r')
    }
    expect(SCRIPTS.claim.sha1).toBe('2319de1e94e21dd355032c7a25b90636b53f36cd')
  })

  test('a checkout keeps the line ends of the scripts', () => {
    const attributes = readFileSync(new URL('../../.gitattributes', import.meta.url), 'utf8')
    expect(attributes).toMatch(/^\*\.lua text eol=lf$/m)
  })
})

describe('62: reading one’s own write', () => {
  test('a read after a write is not answered by a replica that lags', async () => {
    const queue = queueOn(apiOn(shared))
    const { id: old } = (await queue.post('jobs', { payload: 'old' })).json
    await shared.bridge.staleReads(true)
    const { id } = (await queue.post('jobs', { payload: 'new' })).json
    const read = await queue.get(`jobs/${id}`)
    expect([read.status, read.json.payload]).toEqual([200, 'new'])
    expect((await queue.counts()).pending).toBe(2)
    await queue.post(`claim`, { limit: 1 })
    expect((await queue.get(`jobs/${old}`)).json.state).toBe('active')
    await queue.put('settings', { leaseMs: 50 })
    expect((await queue.stats()).settings.leaseMs).toBe(50)
  })
})

const MAKE_OLD =
  "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, id) end"

/** Adds as many due jobs as lapsed ones. */
async function backlog(queue: TestQueue, count: number): Promise<void> {
  await queue.enqueueMany(count)
  for (let left = count; left > 0; left -= 100) await queue.claim({ limit: Math.min(100, left) })
  await queue.enqueueMany(count, { delayMs: 60_000 })
  for (const set of ['active', 'schedule'] as const) await raw.run('EVAL', MAKE_OLD, 1, queue.keys[set])
}
