/** Producing over HTTP: one job and many, exact payloads, duplicates, idempotency, times, limits, and what it costs. */
import { describe, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, type ApiAnswer, apiOn, freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

type Result = { status?: string; error?: { code: string; errors?: { path: string }[] } }

const enqueue = (api: Api, queue: string, body: unknown, headers: Record<string, string> = {}) =>
  api.call('POST', `/v1/queues/${queue}/jobs`, body, { headers })
const claim = async (api: Api, queue: string, body: object = { limit: 100 }) =>
  (await api.call('POST', `/v1/queues/${queue}/claim`, body)).json.jobs
const job = async (api: Api, queue: string, id: string) =>
  (await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json
const counts = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json.counts
const clean = async (queue: string) => expect(await census(raw.port, queue)).toEqual([])

/** Subrequests and commands of some work, on an isolate that knows the database. */
async function costOf(work: () => Promise<unknown>) {
  await shared.bridge.reset()
  await work()
  return shared.bridge.counts()
}

describe('one job', () => {
  test('is enqueued: 201, an id that tells its time, and a row of exactly three fields', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const before = Date.now()
    const answer = await enqueue(api, queue, { payload: { a: 1 } })
    expect(answer.status).toBe(201)
    expect(answer.json).toEqual({ id: expect.stringMatching(/^JOB[0-9A-Za-z]{11}$/), status: 'enqueued' })
    const { enqueuedAt, ...stored } = await job(api, queue, answer.json.id)
    expect(stored).toEqual({ id: answer.json.id, queue, state: 'pending', attempts: 0, payload: { a: 1 } })
    expect(enqueuedAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(Date.parse(enqueuedAt)).toBeGreaterThanOrEqual(before)
    const row = await raw.run('HGETALL', keyspace(queue).job(answer.json.id))
    expect(row).toEqual(['state', 'pending', 'attempts', '0', 'payload', '{"a":1}'])
    await clean(queue)
  })

  test('costs one subrequest and five commands', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await enqueue(api, queue, { payload: 1 })
    const cost = await costOf(() => enqueue(api, queue, { payload: 1 }))
    expect(cost.requests).toBe(1)
    expect(cost.total).toBe(5)
  })

  test('with a delay or a time of its own is scheduled; with none left it is enqueued', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const now = Date.now()
    for (const [when, status] of [
      [{ delayMs: 60_000 }, 'scheduled'],
      [{ delayMs: 0 }, 'enqueued'],
      [{ runAt: now + 60_000 }, 'scheduled'],
      [{ runAt: new Date(now + 60_000).toISOString() }, 'scheduled'],
      [{ runAt: now - 60_000 }, 'enqueued'],
      [{ runAt: 0 }, 'enqueued'],
    ] as const) {
      const answer = await enqueue(api, queue, { payload: 1, ...when })
      expect([answer.status, answer.json.status], JSON.stringify(when)).toEqual([201, status])
      const stored = await job(api, queue, answer.json.id)
      expect(stored.state).toBe(status === 'scheduled' ? 'scheduled' : 'pending')
      if (status === 'enqueued') expect(stored).not.toHaveProperty('runAt')
      else expect(Math.abs(Date.parse(stored.runAt) - now - 60_000)).toBeLessThan(5_000)
    }
    expect(await counts(api, queue)).toEqual({ pending: 3, active: 0, scheduled: 3, dead: 0 })
    await clean(queue)
  })

  test('that is due is handed out by a claim, without anybody promoting it', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id } = (await enqueue(api, queue, { payload: 'due', delayMs: 200 })).json
    expect(await claim(api, queue)).toEqual([])
    const [found] = await until(async () => {
      const jobs = await claim(api, queue)
      return jobs.length > 0 && jobs
    })
    expect(found).toMatchObject({ id, payload: 'due' })
    await clean(queue)
  })

  test('with an id of the caller’s: stored under it, and a duplicate the second time', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const id = 'JOB0KHTOWnGLuC'
    expect((await enqueue(api, queue, { id, payload: 1 })).json).toEqual({ id, status: 'enqueued' })
    const again = await enqueue(api, queue, { id, payload: 2, delayMs: 5 })
    expect([again.status, again.json]).toEqual([200, { id, status: 'duplicate' }])
    expect((await job(api, queue, id)).payload).toBe(1)
    expect((await enqueue(api, freshQueue(), { id, payload: 2 })).status).toBe(201)
    await clean(queue)
  })

  test('with an id of another kind is refused, and nothing is written', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const before = (await shared.bridge.counts()).requests
    const answer = await enqueue(api, queue, { id: 'ABC0KHTOWnGLuC', payload: 1 })
    expect([answer.status, answer.json.code]).toEqual([422, 'wrong_kind'])
    expect((await shared.bridge.counts()).requests).toBe(before)
    expect(await keysOf(raw.port, queue)).toEqual([])
  })

  test('keeps its own budget', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id } = (await enqueue(api, queue, { payload: 1, maxAttempts: 1 })).json
    expect((await job(api, queue, id)).maxAttempts).toBe(1)
    const [{ token }] = await claim(api, queue)
    const answer = await api.call('POST', `/v1/queues/${queue}/jobs/${id}/retry`, { token })
    expect(answer.json).toEqual({ id, status: 'dead' })
    await clean(queue)
  })
})

describe('a payload', () => {
  /** Source text of a JSON value; what is stored and what comes back is this very text. */
  const TEXTS = [
    ...['1', '1.0', '-0', '1e400', '9007199254740993', '0.1000', '"a"', '""', 'null', 'true', '[]', '{}'],
    ...[
      '{"a":[],"o":{},"n":null,"s":[1,null,2]}',
      '{"b":1,"a":2}',
      '[1,[2,[3]]]',
      '{"":1}',
      '{"__proto__":1}',
    ],
    ...[
      '"\\u0000"',
      '"\\u2028"',
      '"\u2028"',
      '"😀"',
      '"\\ud83e\\udef6"',
      '"\\/"',
      '{ "a" : [ 1 , 2 ] }',
      '"OK"',
    ],
  ]

  test.each(TEXTS)('%s stays the text it is (faults 18 and 21)', async (text) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const one = await enqueue(api, queue, `{ "payload" :  ${text}  , "maxAttempts":3 }`)
    expect(one.status, one.text).toBe(201)
    const many = await enqueue(
      api,
      queue,
      `{"jobs":[{"payload":${text}},{"text":"x"},{"payload": ${text} }]}`,
    )
    expect(many.json.results.map(({ status }: { status: string }) => status)).toEqual(
      Array(3).fill('enqueued'),
    )
    for (const { id } of [one.json, many.json.results[0], many.json.results[2]]) {
      expect(await raw.run('HGET', keyspace(queue).job(id), 'payload')).toBe(text)
      expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).text).toContain(`"payload":${text}}`)
    }
    const claimed = await api.call('POST', `/v1/queues/${queue}/claim`, { limit: 1 })
    expect(claimed.text).toContain(`"payload":${text}}]`)
  })

  test.each([
    '',
    '123',
    '00123',
    '1e3',
    'true',
    'null',
    '[1]',
    '{"a":1}',
    ' 1',
    'OK',
    'dmFsdWU=',
    'YmFy',
    'bar',
    '\u0000',
    '😀',
    '"',
  ])(
    'text %j comes back verbatim with as: text, and never as another text (faults 17 and 22)',
    async (text) => {
      const api = apiOn(shared)
      const queue = freshQueue()
      const { id } = (await enqueue(api, queue, { text })).json
      expect(await raw.run('HGET', keyspace(queue).job(id), 'payload')).toBe(text)
      const path = `/v1/queues/${queue}/jobs/${id}`
      expect((await api.call('GET', `${path}?as=text`)).json.text).toBe(text)
      const plain = await api.call('GET', path)
      const isJson = ((): boolean => {
        try {
          JSON.parse(text)
          return true
        } catch {
          return false
        }
      })()
      if (isJson) expect(plain.text).toContain(`"payload":${text}}`)
      else expect(plain.json.text).toBe(text)
      const list = await api.call('GET', `/v1/queues/${queue}/jobs?payload=true&as=text`)
      expect(list.json.jobs[0].text).toBe(text)
      expect((await claim(api, queue, { as: 'text', limit: 1 }))[0].text).toBe(text)
    },
  )

  test('that another client wrote and that is not UTF-8 comes as base64', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id } = (await enqueue(api, queue, { text: 'x' })).json
    await raw.run(
      'EVAL',
      "return redis.call('HSET', KEYS[1], 'payload', '\\255\\0a')",
      1,
      keyspace(queue).job(id),
    )
    const base64 = Buffer.from([255, 0, 97]).toString('base64')
    for (const as of ['json', 'text']) {
      const one = (await api.call('GET', `/v1/queues/${queue}/jobs/${id}?as=${as}`)).json
      expect(one).toMatchObject({ base64 })
      expect(one).not.toHaveProperty('text')
    }
    const [claimed] = await claim(api, queue, { limit: 1, as: 'text' })
    expect(claimed).toMatchObject({ id, base64 })
  })

  test.each(['x', '"', 'é', '😀'])('of %j is counted in stored bytes (fault 37)', async (character) => {
    const api = apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '4000' })
    const queue = freshQueue()
    const each = Buffer.byteLength(character)
    const text = character.repeat(4000 / each)
    expect((await enqueue(api, queue, { text })).status).toBe(201)
    expect((await enqueue(api, queue, { text: text.slice(character.length) })).status).toBe(201)
    // As a payload it is stored as JSON text: the quotes count, and so does every escape.
    const inner = JSON.stringify(character).length - 2 === character.length ? each : 2
    const fits = character.repeat((4000 - 4) / inner)
    expect((await enqueue(api, queue, { payload: fits })).status).toBe(201)
    const before = (await shared.bridge.counts()).requests
    for (const body of [{ text: `${text}x` }, { payload: text }, { payload: `${fits}${character}xxxx` }]) {
      const answer = await enqueue(apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '4000' }), queue, body)
      expect([answer.status, answer.json.code]).toEqual([413, 'too_large'])
      expect(answer.text).not.toContain(character.repeat(4))
    }
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test('of 256 KiB is taken, and of one byte more it is not', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const limit = 256 * 1024
    expect((await enqueue(api, queue, { text: '"'.repeat(limit) })).status).toBe(201)
    expect((await enqueue(api, queue, { payload: 'x'.repeat(limit - 2) })).status).toBe(201)
    expect((await enqueue(api, queue, { text: 'x'.repeat(limit + 1) })).status).toBe(413)
    expect((await enqueue(api, queue, { payload: 'x'.repeat(limit - 1) })).status).toBe(413)
    expect((await claim(api, queue))[0].text).toBe('"'.repeat(limit))
  })
})

describe('many jobs', () => {
  test('each answers in its place: a bad one stops no other', async () => {
    const api = apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '100' })
    const queue = freshQueue()
    const id = 'JOB0KHTOWnGLuC'
    const jobs = [
      { payload: 1 },
      { payload: 1, delay: 5 },
      { text: 'x', id },
      null,
      { text: 'x', id },
      { text: 'x'.repeat(101) },
      { payload: 1, id: 'ABC0KHTOWnGLuC' },
      { payload: 1, delayMs: 60_000 },
      {},
      { payload: 1, id: 'nonsense', delayMs: '5' },
    ]
    const answer = await enqueue(api, queue, { jobs })
    expect(answer.status).toBe(200)
    const { results } = answer.json
    expect(
      results.map(
        (result: { status?: string; error?: { code: string } }) => result.status ?? result.error?.code,
      ),
    ).toEqual([
      ...['enqueued', 'invalid', 'enqueued', 'invalid', 'duplicate', 'too_large', 'wrong_kind', 'scheduled'],
      ...['invalid', 'invalid'],
    ])
    expect(results[2].id).toBe(id)
    expect(results[4].id).toBe(id)
    expect(results[1].error).toMatchObject({ detail: expect.any(String), errors: [{ path: 'delay' }] })
    expect(results[9].error.errors.map(({ path }: { path: string }) => path).sort()).toEqual([
      'delayMs',
      'id',
    ])
    expect(await counts(api, queue)).toEqual({ pending: 2, active: 0, scheduled: 1, dead: 0 })
    await clean(queue)
  })

  test('of which one cannot be kept exactly are the others (fault 21)', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const jobs = [
      '{"payload":0}',
      '{"payload":"\\ud83d"}',
      '{"text":"\\ud83d"}',
      '{"payload":1,"payload":2}',
      '{"payload":{"a":1,"a":2}}',
      '{"payload":1,"delayMs":60000,"delayMs":0}',
      '{"payload":1,"\\ud83d":1}',
      '"\\ud83d"',
      '{"payload":1}',
    ]
    const answer = await enqueue(api, queue, `{"jobs":[${jobs.join(',')}]}`)
    expect(answer.status, answer.text).toBe(200)
    const { results } = answer.json
    expect(results.map(({ status, error }: Result) => status ?? error?.code)).toEqual([
      ...['enqueued', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid'],
      'enqueued',
    ])
    expect(results.slice(1, 8).map(({ error }: Result) => error?.errors?.[0]?.path)).toEqual([
      ...['payload', 'text', 'payload', 'payload', 'delayMs', undefined, undefined],
    ])
    expect(await counts(api, queue)).toEqual({ pending: 2, active: 0, scheduled: 0, dead: 0 })
    for (const [body, path] of [
      [`{"jobs":[${jobs[0]}],"jobs":[${jobs[0]}]}`, 'jobs'],
      [`{"jobs":[${jobs[1]}],"x":"\\ud83d"}`, 'x'],
    ]) {
      const whole = await enqueue(api, queue, body)
      expect([whole.status, whole.json.errors]).toMatchObject([400, [{ path }]])
    }
    await clean(queue)
  })

  test('none of which is good ask Redis nothing', async () => {
    const before = (await shared.bridge.counts()).requests
    const answer = await enqueue(apiOn(shared), freshQueue(), { jobs: [{}, { text: 1 }] })
    expect(answer.status).toBe(200)
    expect(answer.json.results).toHaveLength(2)
    expect((await shared.bridge.counts()).requests).toBe(before)
  })

  test('a thousand take one subrequest, keep their order, and come out in it', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await enqueue(api, queue, { payload: 'first' })
    const jobs = Array.from({ length: 1000 }, (_, payload) => ({ payload }))
    const cost = await costOf(async () => {
      const { results } = (await enqueue(api, queue, { jobs })).json
      const ids = results.map(({ id }: { id: string }) => id)
      expect(ids).toEqual([...ids].sort())
      expect(new Set(ids).size).toBe(1000)
    })
    expect(cost.requests).toBe(1)
    expect(cost.total).toBe(1005)
    expect((await claim(api, queue)).map(({ payload }: { payload: unknown }) => payload)).toEqual([
      'first',
      ...Array.from({ length: 99 }, (_, nth) => nth),
    ])
    await clean(queue)
  })

  test('of one list may be delayed, keyed and named, each its own way', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const jobs = [
      { payload: 0, idempotencyKey: 'a' },
      { payload: 1, idempotencyKey: 'b', delayMs: 60_000 },
      { payload: 2, idempotencyKey: 'a' },
      { payload: 3, id: 'JOB0KHTOWnGLuC', idempotencyKey: 'c', maxAttempts: 9 },
    ]
    const { results } = (await enqueue(api, queue, { jobs })).json
    expect(results.map(({ status }: { status: string }) => status)).toEqual([
      'enqueued',
      'scheduled',
      'duplicate',
      'enqueued',
    ])
    expect(results[2].id).toBe(results[0].id)
    const again = (await enqueue(api, queue, { jobs })).json.results
    expect(again.map(({ id, status }: { id: string; status: string }) => [id, status])).toEqual(
      results.map(({ id }: { id: string }) => [id, 'duplicate']),
    )
    await clean(queue)
  })
})

describe('an idempotency key', () => {
  const settle = async (api: Api, queue: string): Promise<void> => {
    for (const { id, token } of await claim(api, queue))
      await api.call('POST', `/v1/queues/${queue}/jobs/${id}/complete`, { token })
  }

  test('answers the first job’s id within its window, also after it is done', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const first = await enqueue(api, queue, { payload: 1, idempotencyKey: 'order:1' })
    expect([first.status, first.json.status]).toEqual([201, 'enqueued'])
    for (const progress of [async () => {}, () => settle(api, queue)]) {
      await progress()
      const again = await enqueue(api, queue, { payload: 2, idempotencyKey: 'order:1' })
      expect([again.status, again.json]).toEqual([200, { id: first.json.id, status: 'duplicate' }])
    }
    expect(await counts(api, queue)).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 0 })
    expect((await enqueue(api, queue, { payload: 1, idempotencyKey: 'order:2' })).status).toBe(201)
    await clean(queue)
  })

  test('has the window that was asked for, else ten minutes', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const ttl = async (key: string) => Number(await raw.run('PTTL', keyspace(queue).idempotency(key)))
    await enqueue(api, queue, { payload: 1, idempotencyKey: 'default' })
    expect(await ttl('default')).toBeGreaterThan(590_000)
    expect(await ttl('default')).toBeLessThanOrEqual(600_000)
    await enqueue(api, queue, { payload: 1, idempotencyKey: 'long', idempotencyTtlMs: 604_800_000 })
    expect(await ttl('long')).toBeGreaterThan(604_790_000)
    const first = (await enqueue(api, queue, { payload: 1, idempotencyKey: 's', idempotencyTtlMs: 1000 }))
      .json
    const later = await until(async () => {
      const answer = await enqueue(api, queue, { payload: 2, idempotencyKey: 's' })
      return answer.status === 201 && answer.json
    })
    expect(later.id).not.toBe(first.id)
    await clean(queue)
  })

  test('may be a header, and is the very same one', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const header = { 'Idempotency-Key': 'k-1' }
    const { id } = (await enqueue(api, queue, { payload: 1 }, header)).json
    expect((await enqueue(api, queue, { payload: 1 }, header)).json).toEqual({ id, status: 'duplicate' })
    expect((await enqueue(api, queue, { payload: 1, idempotencyKey: 'k-1' })).json.id).toBe(id)
    expect((await enqueue(api, queue, { payload: 1, idempotencyKey: 'k-1' }, header)).json.id).toBe(id)
    expect((await enqueue(api, queue, { payload: 1, idempotencyTtlMs: 1000 }, header)).json.id).toBe(id)
  })

  test('in a header is refused when it differs, is none, or comes with many jobs', async () => {
    const before = (await shared.bridge.counts()).requests
    const refused = async (body: object, key: string): Promise<ApiAnswer> =>
      enqueue(apiOn(shared), freshQueue(), body, { 'Idempotency-Key': key })
    for (const [body, key] of [
      [{ payload: 1, idempotencyKey: 'a' }, 'b'],
      [{ payload: 1, idempotencyKey: 5 }, '5'],
      [{ payload: 1 }, 'a b'],
      [{ payload: 1 }, '"a"'],
      [{ payload: 1 }, ''],
      [{ payload: 1 }, 'x'.repeat(256)],
      [{ jobs: [{ payload: 1 }] }, 'a'],
    ] as const) {
      const answer = await refused(body, key)
      expect([answer.status, answer.json.errors[0].path], key).toEqual([400, 'idempotencyKey'])
    }
    expect((await shared.bridge.counts()).requests).toBe(before)
    expect((await refused({ payload: 1 }, 'x'.repeat(255))).status).toBe(201)
  })

  test('lets one of many at once through', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => enqueue(api, queue, { payload, idempotencyKey: 'same' })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
    expect((await counts(api, queue)).pending).toBe(1)
  })
})

describe('startBy', () => {
  test('in the past sends a job to dead instead of handing it out; in the future it is told and kept', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const past = (await enqueue(api, queue, { payload: 'late', startBy: Date.now() - 1000 })).json
    const future = new Date(Date.now() + 600_000).toISOString()
    const kept = (await enqueue(api, queue, { payload: 'in time', startBy: future })).json
    expect((await job(api, queue, kept.id)).startBy).toBe(future)
    expect((await claim(api, queue)).map(({ id }: { id: string }) => id)).toEqual([kept.id])
    expect(await job(api, queue, past.id)).toMatchObject({ state: 'dead', lastError: 'expired', attempts: 0 })
    expect((await api.call('GET', `/v1/queues/${queue}`)).json.failed).toBe(1)
    await clean(queue)
  })

  test('is looked at by maintenance, in the schedule too, and never ends a job that was started', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const startBy = Date.now() + 300
    const late = (await enqueue(api, queue, { payload: 'late', startBy, delayMs: 60_000 })).json
    const started = (await enqueue(api, queue, { payload: 'started', startBy })).json
    expect((await claim(api, queue))[0].id).toBe(started.id)
    await until(async () => {
      await api.call('POST', '/v1/maintenance')
      return (await counts(api, queue)).dead === 1
    })
    expect(await job(api, queue, late.id)).toMatchObject({ state: 'dead', lastError: 'expired' })
    expect((await job(api, queue, started.id)).state).toBe('active')
    await clean(queue)
  })

  test('may be as late as an instant can be', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const startBy = 253_402_300_799_999
    const { id } = (await enqueue(api, queue, { payload: 1, startBy })).json
    expect((await job(api, queue, id)).startBy).toBe('9999-12-31T23:59:59.999Z')
    expect(await claim(api, queue)).toHaveLength(1)
  })
})

describe('a cap on pending', () => {
  test('is exact under parallel requests: 429 overloaded with Retry-After', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await api.call('PUT', `/v1/queues/${queue}/settings`, { maxPending: 7 })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => enqueue(apiOn(shared), queue, { payload })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(7)
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect([answer.status, answer.json.code]).toEqual([429, 'overloaded'])
      expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    }
    expect((await counts(api, queue)).pending).toBe(7)

    await claim(api, queue, { limit: 2 })
    const { results } = (await enqueue(api, queue, { jobs: Array(5).fill({ payload: 1 }) })).json
    expect(
      results.map(
        ({ status, error }: { status?: string; error?: { code: string } }) => status ?? error?.code,
      ),
    ).toEqual([...['enqueued', 'enqueued', 'overloaded', 'overloaded', 'overloaded']])
    expect((await enqueue(api, queue, { payload: 1, delayMs: 60_000 })).status).toBe(429)
    await api.call('PUT', `/v1/queues/${queue}/settings`, { maxPending: 0 })
    expect((await enqueue(api, queue, { payload: 1 })).status).toBe(201)
    await clean(queue)
  })

  test('lets a duplicate be one', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await api.call('PUT', `/v1/queues/${queue}/settings`, { maxPending: 1 })
    const { id } = (await enqueue(api, queue, { payload: 1, id: 'JOB0KHTOWnGLuC', idempotencyKey: 'k' })).json
    expect((await enqueue(api, queue, { payload: 1, id })).json.status).toBe('duplicate')
    expect((await enqueue(api, queue, { payload: 1, idempotencyKey: 'k' })).json.status).toBe('duplicate')
    expect((await enqueue(api, queue, { payload: 1 })).status).toBe(429)
  })
})
