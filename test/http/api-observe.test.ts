/** Observing over HTTP: stats, pages in both directions, single jobs, who sees payloads, and metrics. */
import { describe, expect, test } from 'vitest'
import { type Api, apiOn, freshQueue, TOKENS, tokenEntry } from '../support/api.ts'
import { type ClaimedJob, queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('stats', () => {
  test('stats contain counts, ages, counters and settings and take one subrequest', async () => {
    const queue = queueOn(apiOn(shared))
    const { pending } = await everyState(queue)
    await shared.bridge.reset()
    const answer = await queue.get()
    expect((await shared.bridge.counts()).requests).toBe(1)
    const { oldestPendingAt, nextDueAt, nextLapseAt, ...rest } = answer.json
    expect(rest).toEqual({
      queue: queue.name,
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
    const oldest = (await queue.get(`jobs/${pending[0]}`)).json
    expect(oldestPendingAt).toBe(oldest.enqueuedAt)
    expect(Math.abs(Date.parse(nextDueAt) - Date.now() - 60_000)).toBeLessThan(5_000)
    expect(Math.abs(Date.parse(nextLapseAt) - Date.now() - 600_000)).toBeLessThan(5_000)
  })

  test('stats of an unused queue return 404, and those of an empty queue return zeros', async () => {
    const queue = queueOn(apiOn(shared))
    expect((await queue.get()).json).toMatchObject({ status: 404, code: 'not_found' })
    expect((await queue.get('jobs')).json).toEqual({ jobs: [] })
    await queue.enqueueMany(1)
    await queue.post('purge', { state: 'pending' })
    const { counts, ...rest } = (await queue.get()).json
    expect(counts).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 0 })
    for (const field of ['oldestPendingAt', 'nextDueAt', 'nextLapseAt'])
      expect(rest).not.toHaveProperty(field)
  })

  test('stats include a queue that only another client has used', async () => {
    const queue = queueOn(apiOn(shared))
    await raw.run('HSET', queue.keys.completed, 'count', 3)
    expect((await queue.get()).json.completed).toBe(3)
  })
})

describe('the list of queues', () => {
  test('the list of queues is ordered by name, paged, and limited to the queues of the token', async () => {
    const prefix = freshQueue()
    const names = ['a', 'B', 'b', 'a.1', 'a-1', '_'].map((end) => `${prefix}${end}`)
    for (const name of names) await queueOn(apiOn(shared), name).enqueue()
    const api = apiOn(shared, onlyFor(`${prefix}*`))
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
    const other = apiOn(shared, onlyFor(`${prefix}a.1`))
    expect(
      (await get(other, '/v1/queues', 'x')).json.queues.map(({ queue }: { queue: string }) => queue),
    ).toEqual([`${prefix}a.1`])
    expect((await get(apiOn(shared, onlyFor('nobody')), '/v1/queues', 'x')).json).toEqual({ queues: [] })
  })

  test('the list of queues includes the queues of EMQ_QUEUES', async () => {
    const queue = freshQueue()
    const api = apiOn(shared, { ...onlyFor(queue), EMQ_QUEUES: queue })
    const { queues } = (await get(api, '/v1/queues', 'x')).json
    expect(queues).toMatchObject([{ queue, counts: { pending: 0 } }])
  })
})

describe('a list of jobs', () => {
  test('a list of jobs returns the newest fifty pending jobs by default', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(60)
    await shared.bridge.reset()
    const { jobs, cursor } = (await queue.get('jobs')).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(jobs.map(({ id }: ClaimedJob) => id)).toEqual([...ids].reverse().slice(0, 50))
    expect(cursor).toEqual(expect.any(String))
    expect(jobs[0]).toEqual({
      id: ids[59],
      queue: queue.name,
      state: 'pending',
      attempts: 0,
      enqueuedAt: expect.any(String),
    })
  })

  test.each(['pending', 'dead', 'active', 'scheduled'] as const)(
    'pages of %s jobs of any size together contain every job once, in both orders',
    async (state) => {
      const queue = queueOn(apiOn(shared))
      const ids = (await everyState(queue))[state]
      for (const limit of [1, 3, 5, 9, 10, 11, 200]) {
        const oldest = await pages(queue, `state=${state}&order=oldest&limit=${limit}`)
        const newest = await pages(queue, `state=${state}&order=newest&limit=${limit}`)
        expect(oldest.flat(), `oldest ${limit}`).toEqual(ids)
        expect(newest.flat(), `newest ${limit}`).toEqual([...ids].reverse())
        expect(oldest).toHaveLength(Math.ceil(10 / limit))
      }
    },
  )

  test.each(['active', 'scheduled'] as const)(
    'pages of %s jobs are complete even if many jobs share an instant',
    async (state) => {
      const queue = queueOn(apiOn(shared))
      const runAt = Date.now() + 3_600_000
      const when = (nth: number) => (state === 'scheduled' ? { runAt: runAt + Math.floor(nth / 17) } : {})
      const ids = await queue.enqueueMany(50, when)
      if (state === 'active') await queue.claim({ limit: 50, leaseMs: 600_000 })
      for (const limit of [1, 4, 16, 17, 18, 49, 50]) {
        expect((await pages(queue, `state=${state}&order=oldest&limit=${limit}`)).flat()).toEqual(ids)
        expect((await pages(queue, `state=${state}&order=newest&limit=${limit}`)).flat()).toEqual(
          [...ids].reverse(),
        )
      }
    },
  )

  test('a list continues at its cursor after the jobs before it were deleted', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const at = Date.now() + 3_600_000
    for (const state of ['pending', 'scheduled']) {
      const when = state === 'scheduled' ? { runAt: at } : {}
      const ids = await queue.enqueueMany(10, when)
      const path = `${queue.path}/jobs?state=${state}&order=oldest&limit=4`
      const first = (await get(api, path)).json
      for (const id of ids.slice(0, 4)) await queue.remove(id)
      const second = (await get(api, `${path}&cursor=${encodeURIComponent(first.cursor)}`)).json
      expect(
        second.jobs.map(({ id }: ClaimedJob) => id),
        state,
      ).toEqual(ids.slice(4, 8))
    }
  })

  test('a list selects by mint time, from inclusive and to exclusive', async () => {
    const queue = queueOn(apiOn(shared))
    const base = Date.now() - 10_000
    const ids: string[] = []
    for (const nth of [0, 1, 2, 3, 4]) {
      const then = apiOn(shared, {}, { now: () => base + nth * 1000 })
      ids.push(...(await queueOn(then, queue.name).enqueueMany(2)))
    }
    const between = async (query: string) => (await pages(queue, `order=oldest&limit=3&${query}`)).flat()
    const iso = (nth: number) => encodeURIComponent(new Date(base + nth * 1000).toISOString())
    expect(await between(`from=${base}&to=${base + 5000}`)).toEqual(ids)
    expect(await between(`from=${base + 1000}&to=${base + 3000}`)).toEqual(ids.slice(2, 6))
    expect(await between(`from=${iso(1)}&to=${iso(3)}`)).toEqual(ids.slice(2, 6))
    expect(await between(`from=${base + 1001}`)).toEqual(ids.slice(4))
    expect(await between(`to=${base + 1}`)).toEqual(ids.slice(0, 2))
    expect(await between(`from=${base + 1000}&to=${base + 1000}`)).toEqual([])
    expect(await between('from=0&to=1')).toEqual([])
    expect(await between('from=253402300799999')).toEqual([])
    const newest = (await pages(queue, `order=newest&limit=1&from=${base + 1000}&to=${base + 3000}`)).flat()
    expect(newest).toEqual(ids.slice(2, 6).reverse())
  })

  test('a list contains payloads only on request, and less than 8 MiB of them', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(4)
    const grow = "return redis.call('HSET', KEYS[1], 'payload', string.rep('x', 3000000))"
    for (const id of ids) await raw.run('EVAL', grow, 1, queue.keys.job(id))
    expect((await queue.get('jobs')).text.length).toBeLessThan(2_000)
    const all = await pages(queue, 'payload=true&order=oldest')
    expect(all.flat()).toEqual(ids)
    expect(all.length).toBeGreaterThan(1)
  })

  test('a list omits ghosts and finds the jobs after them', async () => {
    const queue = queueOn(apiOn(shared))
    const ids = await queue.enqueueMany(2)
    for (const nth of [0, 1, 2, 3]) await raw.run('ZADD', queue.keys.pending, 0, `JOB0000000000${nth}`)
    expect((await pages(queue, 'order=oldest&limit=2')).flat()).toEqual(ids)
  })
})

describe('one job', () => {
  test('a job is read with all fields in one subrequest, and a missing job returns 404', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const startBy = new Date(Date.now() + 600_000).toISOString()
    const [id = ''] = await queue.enqueueMany(1, { payload: [1], maxAttempts: 3, startBy })
    await queue.claim({ limit: 1, leaseMs: 600_000 })
    await shared.bridge.reset()
    const { enqueuedAt, leaseUntil, ...rest } = (await queue.get(`jobs/${id}`)).json
    expect((await shared.bridge.counts()).requests).toBe(1)
    expect(rest).toEqual({
      id,
      queue: queue.name,
      state: 'active',
      attempts: 1,
      maxAttempts: 3,
      startBy,
      payload: [1],
    })
    expect(Date.parse(leaseUntil) - Date.parse(enqueuedAt)).toBeGreaterThan(500_000)
    const missing = await queue.get('jobs/JOB0KHTOWnGLuC')
    expect([missing.status, missing.json.code]).toEqual([404, 'not_found'])
    const elsewhere = await get(api, `/v1/queues/${freshQueue()}/jobs/${id}`)
    expect(elsewhere.status).toBe(404)
  })

  test('a job contains its last five errors with attempt and time from the first one on', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await queue.enqueueMany(1, { maxAttempts: 0 })
    const startedAt = Date.now()
    for (let attempt = 1; attempt <= 7; attempt++) {
      await queue.claim({ limit: 1 })
      await queue.post(`jobs/${id}/retry`, {
        token: attempt,
        delayMs: 0,
        error: `error ${attempt} of it`,
      })
      await queue.post('promote')
      const { lastError, history } = (await queue.get(`jobs/${id}`)).json
      expect(lastError).toBe(`error ${attempt} of it`)
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
    const listed = (await queue.get('jobs')).json.jobs[0]
    expect(listed.lastError).toBe('error 7 of it')
    expect(listed).not.toHaveProperty('history')
  })

  test('a job contains how often its lease has lapsed', async () => {
    const queue = queueOn(apiOn(shared))
    const [id = ''] = await queue.enqueueMany(1)
    await queue.claim({ limit: 1, leaseMs: 10 })
    await until(async () => (await queue.post('reap')).json.reaped === 1)
    expect((await queue.get(`jobs/${id}`)).json).toMatchObject({
      state: 'pending',
      lapses: 1,
    })
  })
})

describe('payloads and error texts (fault 48)', () => {
  test('payloads and error texts need observe:payload, and a request for them without it returns 403', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const { dead, pending } = await everyState(queue)
    const list = `${queue.path}/jobs`
    const reads = [
      ...[`${list}?state=dead`, `${list}?state=pending`, `${list}?payload=false`, `${list}/${dead[0]}`],
      ...[`${list}/${pending[0]}`, `${list}/${dead[0]}?payload=false`, `${list}/${dead[0]}?as=text`],
      ...[`${queue.path}`, '/v1/queues?limit=200', '/metrics'],
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
  test('metrics are Prometheus text with depths, ages, counters and lag', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    await everyState(queue)
    const [{ id, token } = { id: '', token: 0 }] = await queue.claim({ limit: 1 })
    await queue.post(`jobs/${id}/complete`, { token })
    await queue.claim({ limit: 1, leaseMs: 10 })
    const answer = await until(async () => {
      const found = await get(api, '/metrics')
      const lag = parse(found.text).get(`echomq_sweep_lag_seconds{queue="${queue.name}"}`) ?? 0
      return lag > 0 && found
    })
    expect(answer.headers.get('Content-Type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const samples = parse(answer.text)
    const of = (name: string, more = '') => samples.get(`${name}{queue="${queue.name}"${more}}`)
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

  test('metrics need a token and contain only its queues', async () => {
    const [queue, other] = [freshQueue(), freshQueue()]
    for (const name of [queue, other]) await queueOn(apiOn(shared), name).enqueue()
    const api = apiOn(shared, onlyFor(queue))
    const { text } = await get(api, '/metrics', 'x')
    expect(new Set([...parse(text).keys()].map((key) => /queue="([^"]+)"/.exec(key)?.[1]))).toEqual(
      new Set([queue]),
    )
    expect((await api.call('GET', '/metrics', undefined, { token: null })).status).toBe(401)
  })
})

/** All ids of a list, page by page. */
async function pages(queue: TestQueue, query: string): Promise<string[][]> {
  const found: string[][] = []
  let cursor: string | undefined
  do {
    const more: string = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const answer = await queue.get(`jobs?${query}${more}`)
    expect(answer.status, answer.text).toBe(200)
    const page = answer.json
    found.push(page.jobs.map(({ id }: ClaimedJob) => id))
    cursor = page.cursor
    expect(found.length).toBeLessThan(100)
  } while (cursor !== undefined)
  return found
}

/** Dead, active, scheduled and pending jobs in one queue: ten of each, oldest first. */
async function everyState(queue: TestQueue) {
  const dead = await queue.enqueueMany(10)
  const items = (await queue.claim({ limit: 10 })).map(({ id, token }) => ({
    id,
    token,
    action: 'fail',
    error: 'SECRET-2',
  }))
  await queue.post('settle', { items })
  const active = await queue.enqueueMany(10)
  await queue.claim({ limit: 10, leaseMs: 600_000 })
  const scheduled = await queue.enqueueMany(10, (nth) => ({ delayMs: 60_000 + nth * 1000 }))
  const pending = await queue.enqueueMany(10, { payload: 'SECRET-1' })
  return { dead, active, scheduled, pending }
}

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

function get(api: Api, path: string, token: string = TOKENS.operator) {
  return api.call('GET', path, undefined, { token })
}

/** The settings under which the token `x` may observe these queues only. */
function onlyFor(...queues: string[]) {
  return { EMQ_TOKENS: JSON.stringify([tokenEntry('x', ['observe'], queues)]) }
}
