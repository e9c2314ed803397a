/** Observing over HTTP: stats, pages in both directions, single jobs, who sees payloads, and metrics. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

type Job = { id: string; token: number; state: string }
type Page = { jobs: Job[]; cursor?: string }

const get = (api: Api, path: string, token?: string) =>
  api.call('GET', path, undefined, token === undefined ? {} : { token })
const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const fill = async (api: Api, queue: string, jobs: object[]): Promise<string[]> =>
  (await post(api, queue, 'jobs', { jobs })).json.results.map(({ id }: Job) => id)
const plain = (count: number): object[] => Array.from({ length: count }, (_, payload) => ({ payload }))
const claim = async (api: Api, queue: string, body: object): Promise<Job[]> =>
  (await post(api, queue, 'claim', body)).json.jobs

/** All ids of a list, page by page. */
async function pages(api: Api, queue: string, query: string): Promise<string[][]> {
  const found: string[][] = []
  let cursor: string | undefined
  do {
    const more: string = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const answer = await get(api, `/v1/queues/${queue}/jobs?${query}${more}`)
    expect(answer.status, answer.text).toBe(200)
    const page = answer.json as Page
    found.push(page.jobs.map(({ id }) => id))
    cursor = page.cursor
    expect(found.length).toBeLessThan(100)
  } while (cursor !== undefined)
  return found
}

/** Dead, active, scheduled and pending jobs in one queue: ten of each, oldest first. */
async function everyState(api: Api, queue: string) {
  const dead = await fill(api, queue, plain(10))
  const items = (await claim(api, queue, { limit: 10 })).map(({ id, token }) => ({
    id,
    token,
    action: 'fail',
    error: 'SECRET-2',
  }))
  await post(api, queue, 'settle', { items })
  const active = await fill(api, queue, plain(10))
  await claim(api, queue, { limit: 10, leaseMs: 600_000 })
  const scheduled = await fill(
    api,
    queue,
    plain(10).map((job, nth) => ({ ...job, delayMs: 60_000 + nth * 1000 })),
  )
  const pending = await fill(
    api,
    queue,
    plain(10).map((job) => ({ ...job, payload: 'SECRET-1' })),
  )
  return { dead, active, scheduled, pending }
}

describe('stats', () => {
  test('tell counts, ages, counters and settings in one subrequest', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { pending } = await everyState(api, queue)
    await shared.bridge.reset()
    const answer = await get(api, `/v1/queues/${queue}`)
    expect((await shared.bridge.counts()).requests).toBe(1)
    const { oldestPendingAt, nextDueAt, nextLapseAt, ...rest } = answer.json
    expect(rest).toEqual({
      queue,
      counts: { pending: 10, active: 10, scheduled: 10, dead: 10 },
      paused: false,
      completed: 0,
      failed: 10,
      ghosts: 0,
      settings: {
        maxAttempts: 5,
        backoff: { baseMs: 1000, maxMs: 600_000 },
        leaseMs: 30_000,
        maxActive: 0,
        maxPending: 0,
      },
    })
    const oldest = (await get(api, `/v1/queues/${queue}/jobs/${pending[0]}`)).json
    expect(oldestPendingAt).toBe(oldest.enqueuedAt)
    expect(Math.abs(Date.parse(nextDueAt) - Date.now() - 60_000)).toBeLessThan(5_000)
    expect(Math.abs(Date.parse(nextLapseAt) - Date.now() - 600_000)).toBeLessThan(5_000)
  })

  test('of a queue that was never used are not found; one that is drained is known', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    expect((await get(api, `/v1/queues/${queue}`)).json).toMatchObject({ status: 404, code: 'not_found' })
    expect((await get(api, `/v1/queues/${queue}/jobs`)).json).toEqual({ jobs: [] })
    await fill(api, queue, plain(1))
    await post(api, queue, 'purge', { state: 'pending' })
    const { counts, ...rest } = (await get(api, `/v1/queues/${queue}`)).json
    expect(counts).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 0 })
    for (const field of ['oldestPendingAt', 'nextDueAt', 'nextLapseAt'])
      expect(rest).not.toHaveProperty(field)
  })

  test('of a queue that only another client used are found', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await raw.run('HSET', keyspace(queue).completed, 'count', 3)
    expect((await get(api, `/v1/queues/${queue}`)).json.completed).toBe(3)
  })
})

describe('the list of queues', () => {
  const one = (queues: string[]) => ({
    EMQ_TOKENS: JSON.stringify([
      { name: 'x', sha256: createHash('sha256').update('x').digest('hex'), scopes: ['observe'], queues },
    ]),
  })

  test('comes by name in pages, each queue with its stats, only those that the token may see', async () => {
    const prefix = freshQueue()
    const names = ['a', 'B', 'b', 'a.1', 'a-1', '_'].map((end) => `${prefix}${end}`)
    for (const name of names) await fill(apiOn(shared), name, plain(1))
    const api = apiOn(shared, one([`${prefix}*`]))
    const found: string[] = []
    let cursor = ''
    for (let page = 1; ; page++) {
      const answer = (await get(api, `/v1/queues?limit=2${cursor}`, 'x')).json
      for (const stats of answer.queues) {
        expect(stats.counts.pending).toBe(1)
        found.push(stats.queue)
      }
      if (answer.cursor === undefined) {
        expect(page).toBe(3)
        break
      }
      expect(answer.queues).toHaveLength(2)
      cursor = `&cursor=${answer.cursor}`
    }
    expect(found).toEqual([...names].sort())
    const other = apiOn(shared, one([`${prefix}a.1`]))
    expect(
      (await get(other, '/v1/queues', 'x')).json.queues.map(({ queue }: { queue: string }) => queue),
    ).toEqual([`${prefix}a.1`])
    expect((await get(apiOn(shared, one(['nobody'])), '/v1/queues', 'x')).json).toEqual({ queues: [] })
  })

  test('has the queues that are always maintained, too', async () => {
    const queue = freshQueue()
    const api = apiOn(shared, { ...one([queue]), EMQ_QUEUES: queue })
    const [stats] = (await get(api, '/v1/queues', 'x')).json.queues
    expect(stats).toMatchObject({ queue, counts: { pending: 0 } })
  })
})

describe('a list of jobs', () => {
  test('is of pending, newest first, fifty, unless said otherwise', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, plain(60))
    await shared.bridge.reset()
    const { jobs, cursor } = (await get(api, `/v1/queues/${queue}/jobs`)).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(jobs.map(({ id }: Job) => id)).toEqual([...ids].reverse().slice(0, 50))
    expect(cursor).toEqual(expect.any(String))
    expect(jobs[0]).toEqual({
      id: ids[59],
      queue,
      state: 'pending',
      attempts: 0,
      enqueuedAt: expect.any(String),
    })
  })

  test.each(['pending', 'dead', 'active', 'scheduled'] as const)(
    'of %s comes whole, both ways, at any size',
    async (state) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const ids = (await everyState(api, queue))[state]
      for (const limit of [1, 3, 5, 9, 10, 11, 200]) {
        const oldest = await pages(api, queue, `state=${state}&order=oldest&limit=${limit}`)
        const newest = await pages(api, queue, `state=${state}&order=newest&limit=${limit}`)
        expect(oldest.flat(), `oldest ${limit}`).toEqual(ids)
        expect(newest.flat(), `newest ${limit}`).toEqual([...ids].reverse())
        expect(oldest).toHaveLength(Math.ceil(10 / limit))
      }
    },
  )

  test.each(['active', 'scheduled'] as const)(
    'of %s pages over jobs that share an instant',
    async (state) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const runAt = Date.now() + 3_600_000
      const when = (nth: number) => (state === 'scheduled' ? { runAt: runAt + Math.floor(nth / 17) } : {})
      const ids = await fill(
        api,
        queue,
        plain(50).map((job, nth) => ({ ...job, ...when(nth) })),
      )
      if (state === 'active') await claim(api, queue, { limit: 50, leaseMs: 600_000 })
      for (const limit of [1, 4, 16, 17, 18, 49, 50]) {
        expect((await pages(api, queue, `state=${state}&order=oldest&limit=${limit}`)).flat()).toEqual(ids)
        expect((await pages(api, queue, `state=${state}&order=newest&limit=${limit}`)).flat()).toEqual(
          [...ids].reverse(),
        )
      }
    },
  )

  test('goes on from its cursor when the jobs before it are gone', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const at = Date.now() + 3_600_000
    for (const state of ['pending', 'scheduled']) {
      const when = state === 'scheduled' ? { runAt: at } : {}
      const ids = await fill(
        api,
        queue,
        plain(10).map((job) => ({ ...job, ...when })),
      )
      const path = `/v1/queues/${queue}/jobs?state=${state}&order=oldest&limit=4`
      const first = (await get(api, path)).json
      for (const id of ids.slice(0, 4)) await api.call('DELETE', `/v1/queues/${queue}/jobs/${id}`)
      const second = (await get(api, `${path}&cursor=${encodeURIComponent(first.cursor)}`)).json
      expect(
        second.jobs.map(({ id }: Job) => id),
        state,
      ).toEqual(ids.slice(4, 8))
    }
  })

  test('selects by mint time: from is in it, to is not', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const base = Date.now() - 10_000
    const ids: string[] = []
    for (const nth of [0, 1, 2, 3, 4]) {
      const then = apiOn(shared, {}, { now: () => base + nth * 1000 })
      ids.push(...(await fill(then, queue, plain(2))))
    }
    const between = async (query: string) => (await pages(api, queue, `order=oldest&limit=3&${query}`)).flat()
    const iso = (nth: number) => encodeURIComponent(new Date(base + nth * 1000).toISOString())
    expect(await between(`from=${base}&to=${base + 5000}`)).toEqual(ids)
    expect(await between(`from=${base + 1000}&to=${base + 3000}`)).toEqual(ids.slice(2, 6))
    expect(await between(`from=${iso(1)}&to=${iso(3)}`)).toEqual(ids.slice(2, 6))
    expect(await between(`from=${base + 1001}`)).toEqual(ids.slice(4))
    expect(await between(`to=${base + 1}`)).toEqual(ids.slice(0, 2))
    expect(await between(`from=${base + 1000}&to=${base + 1000}`)).toEqual([])
    expect(await between('from=0&to=1')).toEqual([])
    expect(await between('from=253402300799999')).toEqual([])
    const newest = (
      await pages(api, queue, `order=newest&limit=1&from=${base + 1000}&to=${base + 3000}`)
    ).flat()
    expect(newest).toEqual(ids.slice(2, 6).reverse())
  })

  test('has payloads only when asked, and never more than 8 MiB of them', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, plain(4))
    const grow = "return redis.call('HSET', KEYS[1], 'payload', string.rep('x', 3000000))"
    for (const id of ids) await raw.run('EVAL', grow, 1, keyspace(queue).job(id))
    expect((await get(api, `/v1/queues/${queue}/jobs`)).text.length).toBeLessThan(2_000)
    const all = await pages(api, queue, 'payload=true&order=oldest')
    expect(all.flat()).toEqual(ids)
    expect(all.length).toBeGreaterThan(1)
  })

  test('leaves ghosts out, and finds what is behind them', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ids = await fill(api, queue, plain(2))
    for (const nth of [0, 1, 2, 3]) await raw.run('ZADD', keyspace(queue).pending, 0, `JOB0000000000${nth}`)
    expect((await pages(api, queue, 'order=oldest&limit=2')).flat()).toEqual(ids)
  })
})

describe('one job', () => {
  test('comes whole in one subrequest, or is not found', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const startBy = new Date(Date.now() + 600_000).toISOString()
    const [id = ''] = await fill(api, queue, [{ payload: [1], maxAttempts: 3, startBy }])
    await claim(api, queue, { limit: 1, leaseMs: 600_000 })
    await shared.bridge.reset()
    const { enqueuedAt, leaseUntil, ...rest } = (await get(api, `/v1/queues/${queue}/jobs/${id}`)).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(rest).toEqual({ id, queue, state: 'active', attempts: 1, maxAttempts: 3, startBy, payload: [1] })
    expect(Date.parse(leaseUntil) - Date.parse(enqueuedAt)).toBeGreaterThan(500_000)
    const missing = await get(api, `/v1/queues/${queue}/jobs/JOB0KHTOWnGLuC`)
    expect([missing.status, missing.json.code]).toEqual([404, 'not_found'])
    const elsewhere = await get(api, `/v1/queues/${freshQueue()}/jobs/${id}`)
    expect(elsewhere.status).toBe(404)
  })

  test('tells the last five errors, with attempt and time, once there is more than one', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await fill(api, queue, [{ payload: 1, maxAttempts: 0 }])
    const startedAt = Date.now()
    for (let attempt = 1; attempt <= 7; attempt++) {
      await claim(api, queue, { limit: 1 })
      await post(api, queue, `jobs/${id}/retry`, {
        token: attempt,
        delayMs: 0,
        error: `error ${attempt} of it`,
      })
      await post(api, queue, 'promote')
      const { lastError, history } = (await get(api, `/v1/queues/${queue}/jobs/${id}`)).json
      expect(lastError).toBe(`error ${attempt} of it`)
      if (attempt === 1) {
        expect(history).toBeUndefined()
        continue
      }
      expect(
        history.map((entry: { attempt: number; error: string }) => [entry.attempt, entry.error]),
      ).toEqual(
        Array.from(
          { length: Math.min(attempt, 5) },
          (_, nth) => attempt - Math.min(attempt, 5) + 1 + nth,
        ).map((nth) => [nth, `error ${nth} of it`]),
      )
      for (const { at } of history) expect(Math.abs(Date.parse(at) - startedAt)).toBeLessThan(60_000)
    }
    const listed = (await get(api, `/v1/queues/${queue}/jobs`)).json.jobs[0]
    expect(listed.lastError).toBe('error 7 of it')
    expect(listed).not.toHaveProperty('history')
  })

  test('tells how often its lease lapsed', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const [id = ''] = await fill(api, queue, plain(1))
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    await until(async () => (await post(api, queue, 'reap')).json.reaped === 1)
    expect((await get(api, `/v1/queues/${queue}/jobs/${id}`)).json).toMatchObject({
      state: 'pending',
      lapses: 1,
    })
  })
})

describe('payloads and error texts (fault 48)', () => {
  test('are for those with observe:payload only, and asking for them without it is forbidden', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { dead, pending } = await everyState(api, queue)
    const list = `/v1/queues/${queue}/jobs`
    const reads = [
      ...[`${list}?state=dead`, `${list}?state=pending`, `${list}?payload=false`, `${list}/${dead[0]}`],
      ...[`${list}/${pending[0]}`, `${list}/${dead[0]}?payload=false`, `${list}/${dead[0]}?as=text`],
      ...[`/v1/queues/${queue}`, '/v1/queues?limit=200', '/metrics'],
    ]
    for (const path of reads) {
      const answer = await get(api, path, TOKENS.counter)
      expect(answer.status, path).toBe(200)
      expect(answer.text, path).not.toMatch(/SECRET-[12]|payload|lastError|history|"text"/)
    }
    const before = (await shared.bridge.counts()).requests
    for (const path of [`${list}?payload=true`, `${list}/${dead[0]}?payload=true`]) {
      const answer = await get(apiOn(shared), path, TOKENS.counter)
      expect([answer.status, answer.json.code], path).toEqual([403, 'forbidden'])
    }
    expect((await shared.bridge.counts()).requests).toBe(before)

    for (const token of [TOKENS.observer, TOKENS.operator]) {
      expect((await get(api, `${list}?state=dead`, token)).json.jobs[0]).toMatchObject({
        lastError: 'SECRET-2',
      })
      expect((await get(api, `${list}?state=dead`, token)).text).not.toContain('"payload"')
      expect((await get(api, `${list}?payload=true`, token)).json.jobs[0].payload).toBe('SECRET-1')
      expect((await get(api, `${list}/${pending[0]}`, token)).json.payload).toBe('SECRET-1')
      expect((await get(api, `${list}/${pending[0]}?payload=false`, token)).text).not.toContain('SECRET-1')
    }
  })
})

describe('metrics', () => {
  /** Reads the text format strictly: https://prometheus.io/docs/instrumenting/exposition_formats/ */
  function parse(text: string) {
    expect(text.endsWith('\n')).toBe(true)
    const types = new Map<string, string>()
    const helped = new Set<string>()
    const samples = new Map<string, number>()
    let family = ''
    for (const line of text.slice(0, -1).split('\n')) {
      const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line)
      if (comment !== null) {
        const [, kind, name = '', rest = ''] = comment
        if (kind === 'HELP') {
          expect(helped.has(name), name).toBe(false)
          helped.add(name)
          family = name
        } else {
          expect(['gauge', 'counter']).toContain(rest)
          expect(name).toBe(family)
          types.set(name, rest)
        }
        continue
      }
      const sample = /^([a-z_]+)(\{(?:[a-z_]+="[^"\\\n]*",?)*\}) (-?\d+(?:\.\d+)?(?:e[+-]\d+)?)$/.exec(line)
      expect(sample, line).not.toBeNull()
      const [, name = '', labels = '', value] = sample ?? []
      expect(name).toBe(family)
      expect(types.has(name)).toBe(true)
      if (types.get(name) === 'counter') expect(name).toMatch(/_total$/)
      expect(samples.has(name + labels), line).toBe(false)
      samples.set(name + labels, Number(value))
    }
    return samples
  }

  test('are Prometheus text: depths, ages, counters, lag', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await everyState(api, queue)
    const [{ id, token } = { id: '', token: 0 }] = await claim(api, queue, { limit: 1 })
    await post(api, queue, `jobs/${id}/complete`, { token })
    await claim(api, queue, { limit: 1, leaseMs: 10 })
    const answer = await until(async () => {
      const found = await get(api, '/metrics')
      const lag = parse(found.text).get(`echomq_sweep_lag_seconds{queue="${queue}"}`) ?? 0
      return lag > 0 && found
    })
    expect(answer.headers.get('Content-Type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const samples = parse(answer.text)
    const of = (name: string, more = '') => samples.get(`${name}{queue="${queue}"${more}}`)
    expect(of('echomq_jobs', ',state="pending"')).toBe(8)
    expect(of('echomq_jobs', ',state="active"')).toBe(11)
    expect(of('echomq_jobs', ',state="scheduled"')).toBe(10)
    expect(of('echomq_jobs', ',state="dead"')).toBe(10)
    expect(of('echomq_completed_total')).toBe(1)
    expect(of('echomq_failed_total')).toBe(10)
    expect(of('echomq_oldest_pending_age_seconds')).toBeGreaterThan(0)
    expect(of('echomq_oldest_pending_age_seconds')).toBeLessThan(60)
    expect(of('echomq_sweep_lag_seconds')).toBeLessThan(60)
  })

  test('show the queues of the token and no others, and need it', async () => {
    const queue = freshQueue()
    const other = freshQueue()
    for (const name of [queue, other]) await fill(apiOn(shared), name, plain(1))
    const api = apiOn(shared, {
      EMQ_TOKENS: JSON.stringify([
        {
          name: 'x',
          sha256: createHash('sha256').update('x').digest('hex'),
          scopes: ['observe'],
          queues: [queue],
        },
      ]),
    })
    const { text } = await get(api, '/metrics', 'x')
    expect(new Set([...parse(text).keys()].map((key) => /queue="([^"]+)"/.exec(key)?.[1]))).toEqual(
      new Set([queue]),
    )
    expect((await api.call('GET', '/metrics', undefined, { token: null })).status).toBe(401)
  })
})
