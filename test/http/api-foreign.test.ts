/** Malformed data of other clients in Redis: it must not stop anybody. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Keyspace, keyspace } from '../../src/protocol/keys.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { type Api, apiOn, freshQueue, tokenEntry } from '../support/api.ts'
import { capturedLog } from '../support/captured-log.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const log = capturedLog()
let port: RespPort

beforeAll(async () => {
  port = await createRespPort(shared.redis.url)
})
afterAll(() => port.close())

test('a job with a malformed id is listed and claimed together with the others', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const path = `/v1/queues/${queue}`
  await port.send([
    ['HSET', keys.job('made-up'), 'state', 'pending', 'attempts', 0, 'payload', '"foreign"'],
    ['ZADD', keys.pending, 0, 'made-up'],
  ])
  const { id } = (await api.call('POST', `${path}/jobs`, { payload: 'ours' })).json
  expect((await api.call('GET', path)).status).toBe(200)
  expect((await api.call('GET', '/metrics')).status).toBe(200)
  expect((await api.call('GET', `${path}/jobs`)).json.jobs).toMatchObject([{ id: 'made-up' }, { id }])
  const { jobs } = (await api.call('POST', `${path}/claim`, { limit: 10 })).json
  expect(jobs).toMatchObject([
    { id, payload: 'ours' },
    { id: 'made-up', payload: 'foreign', token: 1 },
  ])
})

test('a page may end with a malformed id', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const path = `/v1/queues/${queue}`
  const ids = ['ABC0KHTOWnGLuC', 'a:b', 'made-up', 'x y&%25/"~', '~', 'ä😀']
  const all = [...ids, (await api.call('POST', `${path}/jobs`, { payload: 1 })).json.id].sort()
  const states = { dead: 'dead', pending: 'pending', scheduled: 'schedule' } as const
  for (const [state, set] of Object.entries(states)) {
    for (const id of all) {
      await port.send([
        ['HSET', keys.job(id), 'state', state, 'attempts', 1, 'payload', '1'],
        ['ZADD', keys[set as 'dead'], 0, id],
      ])
    }
    for (const order of ['oldest', 'newest']) {
      const found: string[] = []
      let cursor = ''
      do {
        const query = `state=${state}&order=${order}&limit=1${cursor}`
        const page = await api.call('GET', `${path}/jobs?${query}`)
        expect(page.status, query).toBe(200)
        for (const { id } of page.json.jobs) found.push(id)
        cursor = page.json.cursor === undefined ? '' : `&cursor=${encodeURIComponent(page.json.cursor)}`
      } while (cursor !== '' && found.length < 50)
      expect(found, `${state} ${order}`).toEqual(order === 'oldest' ? all : all.toReversed())
    }
  }
  await port.send(all.map((id) => ['HSET', keys.job(id), 'state', 'dead']))
  const redriven: number[] = []
  let cursor: string | undefined
  do {
    const answer = await api.call('POST', `${path}/redrive`, { limit: 1, dryRun: true, cursor })
    expect(answer.status, answer.text).toBe(200)
    redriven.push(answer.json.redriven)
    cursor = answer.json.cursor
  } while (cursor !== undefined && redriven.length < 50)
  expect(redriven).toEqual(all.map(() => 1))
})

test('a job with a score outside the range of instants is listed without its time', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1, delayMs: 60_000 })).json
  for (const score of ['1e20', '8.64e15', '253402300800000', '-1e14']) {
    await port.send([['ZADD', keys.schedule, score, id]])
    const list = await api.call('GET', `/v1/queues/${queue}/jobs?state=scheduled`)
    const one = await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)
    const stats = await api.call('GET', `/v1/queues/${queue}`)
    expect([list.status, one.status, stats.status], score).toEqual([200, 200, 200])
    expect(list.json.jobs, score).toMatchObject([{ id, state: 'scheduled' }])
    for (const seen of [list.json.jobs[0], one.json, stats.json])
      expect([seen.runAt, seen.nextDueAt], score).toEqual([undefined, undefined])
  }
})

describe('a queue with garbage in its settings and counters', () => {
  const WORDS = ['abc', '', ' ', '1.5', 'inf', 'nan', '1e400', '9007199254740993', '\u0000', '-']

  test.each(WORDS)('settings and counters of %j are reported as defaults and zeros', async (word) => {
    const api = apiOn(shared)
    const { queue, keys, id } = await usedQueue(api)
    const settings = ['maxAttempts', 'backoffBaseMs', 'backoffMaxMs', 'leaseMs', 'maxActive', 'maxPending']
    await port.send([
      ['HSET', keys.meta, ...settings.flatMap((name) => [name, word])],
      ...[keys.completed, keys.failed, keys.ghosts].map((key) => ['HSET', key, 'count', word]),
    ])
    const stats = await api.call('GET', `/v1/queues/${queue}`)
    expect(stats.json).toMatchObject({
      ...{ counts: { pending: 1 }, paused: false, completed: 0, failed: 0, ghosts: 0 },
      settings: {
        ...{ maxAttempts: 5, leaseMs: 30_000, maxActive: 0, maxPending: 0 },
        backoff: { baseMs: 1000, maxMs: 600_000 },
      },
    })
    expect((await listedQueues(api)).get(queue)).toEqual(stats.json)
    expect((await api.call('GET', '/metrics')).text).toContain(`echomq_completed_total{queue="${queue}"} 0\n`)
    const changed = await api.call('PUT', `/v1/queues/${queue}/settings`, { maxAttempts: 7 })
    expect(changed.json).toMatchObject({ maxAttempts: 7, leaseMs: 30_000 })
    const claimed = await api.call('POST', `/v1/queues/${queue}/claim`, {})
    expect(claimed.json).toMatchObject({ jobs: [{ id, leaseMs: 30_000 }] })
    expect(log.text).toBe('')
  })

  test('counters of another type than a hash are reported as zero', async () => {
    const api = apiOn(shared)
    const { queue, keys } = await usedQueue(api)
    await port.send([keys.completed, keys.failed, keys.ghosts].map((key) => ['SET', key, 'x']))
    const stats = await api.call('GET', `/v1/queues/${queue}`)
    expect(stats.json).toMatchObject({ counts: { pending: 1 }, completed: 0, failed: 0, ghosts: 0 })
    expect((await api.call('GET', '/metrics')).text).toContain(`echomq_failed_total{queue="${queue}"} 0\n`)
  })
})

describe('a queue with a key of the wrong type', () => {
  test.each(['pending', 'active', 'schedule', 'dead', 'meta'] as const)(
    'a queue whose key %s has the wrong type is left out of lists, logged by name, and returns 503 by itself',
    async (part) => {
      const api = apiOn(shared)
      const good = await usedQueue(api)
      const bad = await usedQueue(api)
      await port.send([
        ['DEL', bad.keys[part]],
        ['SET', bad.keys[part], 'SECRET-1'],
      ])
      const metrics = await api.call('GET', '/metrics')
      expect(metrics.status).toBe(200)
      expect(metrics.text).toContain(`echomq_jobs{queue="${good.queue}",state="pending"} 1\n`)
      expect(metrics.text).not.toContain(bad.queue)
      expect(log.text).toContain(bad.queue)
      const listed = await listedQueues(api)
      expect([listed.has(good.queue), listed.has(bad.queue)]).toEqual([true, false])
      expect(log.text).not.toMatch(/SECRET-1|emq:|WRONGTYPE/)
      expect(log.text).not.toContain(good.queue)
      const alone = await api.call('GET', `/v1/queues/${bad.queue}`)
      expect([alone.status, alone.json.code]).toEqual([503, 'upstream'])
      await port.send([['DEL', bad.keys[part]]])
    },
  )

  test('lists return every other error of Redis', async () => {
    const { queue } = await usedQueue(apiOn(shared))
    const api = apiOn(shared, { EMQ_TOKENS: JSON.stringify([tokenEntry('x', ['observe'], [queue])]) })
    const read = (path: string) => api.call('GET', path, undefined, { token: 'x' })
    for (const [error, status] of [
      ['ERR max daily request limit exceeded', 429],
      ['LOADING Redis is loading the dataset in memory', 503],
    ] as const) {
      for (const path of ['/metrics', '/v1/queues']) {
        expect((await read(path)).text).toContain(queue)
        const body = JSON.stringify(Array.from({ length: 12 }, () => ({ error })))
        shared.bridge.answer({ status: 200, body }, { match: 'ZCARD' })
        expect((await read(path)).status, `${error} ${path}`).toBe(status)
      }
    }
  })
})

describe('a row with malformed fields', () => {
  const numbers = ['attempts', 'max_attempts', 'lapses', 'start_by']

  test.each(['abc', '', '1.5', 'inf', '1e400', '9007199254740993'])(
    'a job with fields of %j is returned without them',
    async (word) => {
      const api = apiOn(shared)
      const { queue, keys, id } = await usedQueue(api)
      const other = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 2, maxAttempts: 3 })).json
        .id
      await port.send([['HSET', keys.job(id), ...numbers.flatMap((field) => [field, word])]])
      const known = { id, queue, state: 'pending', attempts: 0, enqueuedAt: expect.any(String) }
      const list = await api.call('GET', `/v1/queues/${queue}/jobs?order=oldest`)
      expect(list.json.jobs).toEqual([known, expect.objectContaining({ id: other, maxAttempts: 3 })])
      const one = await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)
      expect(one.json).toEqual({ ...known, payload: 1 })
    },
  )

  test.each(['inf', '-inf', '1700000000000.5'])(
    'a job with the score %s is returned in its state',
    async (score) => {
      const api = apiOn(shared)
      const { queue, keys, id } = await usedQueue(api)
      for (const [state, set, field] of [
        ['scheduled', 'schedule', 'runAt'],
        ['active', 'active', 'leaseUntil'],
      ] as const) {
        await port.send([
          ['ZREM', keys.pending, id],
          ['DEL', keys.active, keys.schedule],
          ['HSET', keys.job(id), 'state', state],
          ['ZADD', keys[set], score, id],
        ])
        const at = score.endsWith('inf') ? undefined : '2023-11-14T22:13:20.000Z'
        const [listed] = (await api.call('GET', `/v1/queues/${queue}/jobs?state=${state}`)).json.jobs
        const one = (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
        expect([listed.state, listed[field], one.state, one[field]]).toEqual([state, at, state, at])
        expect((await api.call('GET', `/v1/queues/${queue}`)).json.counts[state]).toBe(1)
      }
    },
  )

  test('a job contains only the well-formed entries of its history', async () => {
    const api = apiOn(shared)
    const { queue, keys, id } = await usedQueue(api)
    const read = async () => (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json.history
    const row = (...fields: string[]) => port.send([['HSET', keys.job(id), ...fields]])
    await row(
      'error:0',
      '2 1700000001000 two of it',
      'error:1',
      '1 1700000000000 ',
      'error:2',
      'one two three',
    )
    const readable = [
      { attempt: 1, at: '2023-11-14T22:13:20.000Z', error: '' },
      { attempt: 2, at: '2023-11-14T22:13:21.000Z', error: 'two of it' },
    ]
    expect(await read()).toEqual(readable)
    for (const entry of [
      '',
      ' ',
      '3',
      '3 ',
      '3 x y',
      'x 1700000000000 y',
      '3 1e300 y',
      '3 1.5 y',
      '3 -5e18 y',
      '1.5 5 y',
    ]) {
      await row('error:2', entry, 'error:3', entry)
      expect(await read(), entry).toEqual(readable)
    }
    await row(
      'error:5',
      '5 1700000000000 no',
      'error:',
      '5 1700000000000 no',
      'error:x',
      '5 1700000000000 no',
    )
    expect(await read()).toEqual(readable)
    await row('error:0', 'x')
    expect(await read()).toEqual(readable.slice(0, 1))
  })

  const SETS = { pending: 'pending', active: 'active', scheduled: 'schedule', dead: 'dead' } as const
  const AT = { pending: undefined, active: 'leaseUntil', scheduled: 'runAt', dead: undefined } as const

  test.each(['weird', '', 'Pending', 'schedule', 'toString', 'a b'])(
    'a job with the state %j is reported in the state of the set that contains it',
    async (word) => {
      const api = apiOn(shared)
      const { queue, keys, id } = await usedQueue(api)
      for (const [state, set] of Object.entries(SETS) as [keyof typeof SETS, (typeof SETS)['pending']][]) {
        await port.send([
          ...Object.values(SETS).map((name) => ['ZREM', keys[name], id]),
          ['ZADD', keys[set], AT[state] === undefined ? 0 : 1_700_000_000_000, id],
          ['HSET', keys.job(id), 'state', word],
        ])
        const list = (await api.call('GET', `/v1/queues/${queue}/jobs?state=${state}`)).json.jobs
        const one = (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
        for (const job of [list[0], one]) {
          expect(job).toMatchObject({ id, state })
          for (const field of ['leaseUntil', 'runAt'])
            expect(job[field]).toBe(AT[state] === field ? '2023-11-14T22:13:20.000Z' : undefined)
        }
        await port.send([['HDEL', keys.job(id), 'state']])
        const nameless = (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
        expect(nameless).toMatchObject({ id, state })
      }
    },
  )

  test('a rejected move does not repeat an unknown state', async () => {
    const api = apiOn(shared)
    const { queue, keys, id } = await usedQueue(api)
    await port.send([['HSET', keys.job(id), 'state', 'SECRET-1']])
    const refused = await api.call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { delayMs: 0 })
    expect([refused.status, refused.json.code]).toEqual([409, 'wrong_state'])
    expect(refused.json).not.toHaveProperty('state')
    expect(refused.text).not.toContain('SECRET-1')
  })
})

/** A queue with one pending job, known to the registry. */
async function usedQueue(api: Api): Promise<{ queue: string; keys: Keyspace; id: string }> {
  const queue = freshQueue()
  const { id } = (await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1 })).json
  return { queue, keys: keyspace(queue), id }
}

/** All queues of the list, page by page. */
async function listedQueues(api: Api): Promise<Map<string, Stats>> {
  const found = new Map<string, Stats>()
  let cursor = ''
  for (;;) {
    const page = await api.call('GET', `/v1/queues?limit=3${cursor}`)
    expect(page.status).toBe(200)
    for (const stats of page.json.queues) found.set(stats.queue, stats)
    if (page.json.cursor === undefined) return found
    cursor = `&cursor=${page.json.cursor}`
  }
}

type Stats = { readonly queue: string }
