/** Producing over HTTP: one job and many, exact payloads, duplicates, idempotency, times, limits and costs. */
import { describe, expect, test } from 'vitest'
import { apiOn } from '../support/api.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { costOf, sharedRedis, withoutRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('one job', () => {
  test('enqueue returns 201 with an id that contains the time, and writes a row of exactly three fields', async () => {
    const queue = queueOn(apiOn(shared))
    const before = Date.now()
    const answer = await queue.post('jobs', { payload: { a: 1 } })
    expect(answer.status).toBe(201)
    expect(answer.json).toEqual({ id: expect.stringMatching(/^JOB[0-9A-Za-z]{11}$/), status: 'enqueued' })
    const { enqueuedAt, ...stored } = await queue.job(answer.json.id)
    expect(stored).toEqual({
      id: answer.json.id,
      queue: queue.name,
      state: 'pending',
      attempts: 0,
      payload: { a: 1 },
    })
    expect(enqueuedAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(Date.parse(enqueuedAt)).toBeGreaterThanOrEqual(before)
    const row = await raw.run('HGETALL', queue.keys.job(answer.json.id))
    expect(row).toEqual(['state', 'pending', 'attempts', '0', 'payload', '{"a":1}'])
    await expectConsistent(raw.port, queue.name)
  })

  test('enqueue costs one subrequest and five commands', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.post('jobs', { payload: 1 })
    const cost = await costOf(shared, () => queue.post('jobs', { payload: 1 }))
    expect(cost).toEqual({ requests: 1, total: 5 })
  })

  test('a job with a delay or a future runAt is scheduled, and one without is pending', async () => {
    const queue = queueOn(apiOn(shared))
    const now = Date.now()
    for (const [when, status] of [
      [{ delayMs: 60_000 }, 'scheduled'],
      [{ delayMs: 0 }, 'enqueued'],
      [{ runAt: now + 60_000 }, 'scheduled'],
      [{ runAt: new Date(now + 60_000).toISOString() }, 'scheduled'],
      [{ runAt: now - 60_000 }, 'enqueued'],
      [{ runAt: 0 }, 'enqueued'],
    ] as const) {
      const answer = await queue.post('jobs', { payload: 1, ...when })
      expect([answer.status, answer.json.status], JSON.stringify(when)).toEqual([201, status])
      const stored = await queue.job(answer.json.id)
      expect(stored.state).toBe(status === 'scheduled' ? 'scheduled' : 'pending')
      if (status === 'enqueued') expect(stored).not.toHaveProperty('runAt')
      else expect(Math.abs(Date.parse(stored.runAt) - now - 60_000)).toBeLessThan(5_000)
    }
    expect(await queue.counts()).toEqual({ pending: 3, active: 0, scheduled: 3, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })

  test('claim returns a due job that nobody has promoted', async () => {
    const queue = queueOn(apiOn(shared))
    const { id } = (await queue.post('jobs', { payload: 'due', delayMs: 200 })).json
    expect(await queue.claim({ limit: 100 })).toEqual([])
    const [found] = await until(async () => {
      const jobs = await queue.claim({ limit: 100 })
      return jobs.length > 0 && jobs
    })
    expect(found).toMatchObject({ id, payload: 'due' })
    await expectConsistent(raw.port, queue.name)
  })

  test('a job is stored under the id of the caller, and the same id again is a duplicate', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const id = 'JOB0KHTOWnGLuC'
    expect((await queue.post('jobs', { id, payload: 1 })).json).toEqual({ id, status: 'enqueued' })
    const again = await queue.post('jobs', { id, payload: 2, delayMs: 5 })
    expect([again.status, again.json]).toEqual([200, { id, status: 'duplicate' }])
    expect((await queue.job(id)).payload).toBe(1)
    expect((await queueOn(api).post('jobs', { id, payload: 2 })).status).toBe(201)
    await expectConsistent(raw.port, queue.name)
  })

  test('an id of another kind is rejected, and nothing is written', async () => {
    const queue = queueOn(apiOn(shared))
    const before = (await shared.bridge.counts()).requests
    const answer = await queue.post('jobs', { id: 'ABC0KHTOWnGLuC', payload: 1 })
    expect([answer.status, answer.json.code]).toEqual([422, 'wrong_kind'])
    expect((await shared.bridge.counts()).requests).toBe(before)
    expect(await keysOf(raw.port, queue.name)).toEqual([])
  })

  test('a job has its own budget', async () => {
    const queue = queueOn(apiOn(shared))
    const { id } = (await queue.post('jobs', { payload: 1, maxAttempts: 1 })).json
    expect((await queue.job(id)).maxAttempts).toBe(1)
    const { token } = await queue.claimOne()
    const answer = await queue.post(`jobs/${id}/retry`, { token })
    expect(answer.json).toEqual({ id, status: 'dead' })
    await expectConsistent(raw.port, queue.name)
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

  test.each(TEXTS)(
    'the payload %s is stored and returned as the same text (faults 18 and 21)',
    async (text) => {
      const queue = queueOn(apiOn(shared))
      const one = await queue.post('jobs', `{ "payload" :  ${text}  , "maxAttempts":3 }`)
      expect(one.status, one.text).toBe(201)
      const many = await queue.post(
        'jobs',
        `{"jobs":[{"payload":${text}},{"text":"x"},{"payload": ${text} }]}`,
      )
      expect(many.json.results.map(outcome)).toEqual(Array(3).fill('enqueued'))
      for (const { id } of [one.json, many.json.results[0], many.json.results[2]]) {
        expect(await raw.run('HGET', queue.keys.job(id), 'payload')).toBe(text)
        expect((await queue.get(`jobs/${id}`)).text).toContain(`"payload":${text}}`)
      }
      const claimed = await queue.post('claim', { limit: 1 })
      expect(claimed.text).toContain(`"payload":${text}}]`)
    },
  )

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
    'the text %j is returned unchanged with as=text and is never changed without it (faults 17 and 22)',
    async (text) => {
      const api = apiOn(shared)
      const queue = queueOn(api)
      const { id } = (await queue.post('jobs', { text })).json
      expect(await raw.run('HGET', queue.keys.job(id), 'payload')).toBe(text)
      const path = `${queue.path}/jobs/${id}`
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
      const list = await queue.get('jobs?payload=true&as=text')
      expect(list.json.jobs[0].text).toBe(text)
      expect((await queue.claimOne({ as: 'text' })).text).toBe(text)
    },
  )

  test('a payload of another client that is not UTF-8 is returned as base64', async () => {
    const queue = queueOn(apiOn(shared))
    const { id } = (await queue.post('jobs', { text: 'x' })).json
    await raw.run('EVAL', "return redis.call('HSET', KEYS[1], 'payload', '\\255\\0a')", 1, queue.keys.job(id))
    const base64 = Buffer.from([255, 0, 97]).toString('base64')
    for (const as of ['json', 'text']) {
      const one = (await queue.get(`jobs/${id}?as=${as}`)).json
      expect(one).toMatchObject({ base64 })
      expect(one).not.toHaveProperty('text')
    }
    const [claimed] = await queue.claim({ limit: 1, as: 'text' })
    expect(claimed).toMatchObject({ id, base64 })
  })

  test.each(['x', '"', 'é', '😀'])(
    'the size of a payload of %j is its stored bytes (fault 37)',
    async (character) => {
      const queue = queueOn(apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '4000' }))
      const each = Buffer.byteLength(character)
      const text = character.repeat(4000 / each)
      expect((await queue.post('jobs', { text })).status).toBe(201)
      expect((await queue.post('jobs', { text: text.slice(character.length) })).status).toBe(201)
      // As a payload it is stored as JSON text: the quotes count, and so does every escape.
      const inner = JSON.stringify(character).length - 2 === character.length ? each : 2
      const fits = character.repeat((4000 - 4) / inner)
      expect((await queue.post('jobs', { payload: fits })).status).toBe(201)
      await withoutRedis(shared, async () => {
        for (const body of [
          { text: `${text}x` },
          { payload: text },
          { payload: `${fits}${character}xxxx` },
        ]) {
          const fresh = queueOn(apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '4000' }))
          const answer = await fresh.post('jobs', body)
          expect([answer.status, answer.json.code]).toEqual([413, 'too_large'])
          expect(answer.text).not.toContain(character.repeat(4))
        }
      })
    },
  )

  test('a payload of 256 KiB is accepted and one byte more is rejected', async () => {
    const queue = queueOn(apiOn(shared))
    const limit = 256 * 1024
    expect((await queue.post('jobs', { text: '"'.repeat(limit) })).status).toBe(201)
    expect((await queue.post('jobs', { payload: 'x'.repeat(limit - 2) })).status).toBe(201)
    expect((await queue.post('jobs', { text: 'x'.repeat(limit + 1) })).status).toBe(413)
    expect((await queue.post('jobs', { payload: 'x'.repeat(limit - 1) })).status).toBe(413)
    expect((await queue.claim({ limit: 100 }))[0]?.text).toBe('"'.repeat(limit))
  })
})

describe('many jobs', () => {
  test('each of many jobs has its result in its place, and an invalid one is rejected alone', async () => {
    const queue = queueOn(apiOn(shared, { EMQ_MAX_PAYLOAD_BYTES: '100' }))
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
    const answer = await queue.post('jobs', { jobs })
    expect(answer.status).toBe(200)
    const { results } = answer.json
    expect(results.map(outcome)).toEqual([
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
    expect(await queue.counts()).toEqual({ pending: 2, active: 0, scheduled: 1, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })

  test('of many jobs the ambiguous ones are rejected and the others are stored (fault 21)', async () => {
    const queue = queueOn(apiOn(shared))
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
    const answer = await queue.post('jobs', `{"jobs":[${jobs.join(',')}]}`)
    expect(answer.status, answer.text).toBe(200)
    const { results } = answer.json
    expect(results.map(outcome)).toEqual([
      ...['enqueued', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid'],
      'enqueued',
    ])
    expect(results.slice(1, 8).map(({ error }: Result) => error?.errors?.[0]?.path)).toEqual([
      ...['payload', 'text', 'payload', 'payload', 'delayMs', undefined, undefined],
    ])
    expect(await queue.counts()).toEqual({ pending: 2, active: 0, scheduled: 0, dead: 0 })
    for (const [body, path] of [
      [`{"jobs":[${jobs[0]}],"jobs":[${jobs[0]}]}`, 'jobs'],
      [`{"jobs":[${jobs[1]}],"x":"\\ud83d"}`, 'x'],
    ]) {
      const whole = await queue.post('jobs', body)
      expect([whole.status, whole.json.errors]).toMatchObject([400, [{ path }]])
    }
    await expectConsistent(raw.port, queue.name)
  })

  test('many jobs of which none is valid send no request to Redis', async () => {
    await withoutRedis(shared, async () => {
      const answer = await queueOn(apiOn(shared)).post('jobs', { jobs: [{}, { text: 1 }] })
      expect(answer.status).toBe(200)
      expect(answer.json.results.map(outcome)).toEqual(['invalid', 'invalid'])
    })
  })

  test('a thousand jobs take one subrequest and are claimed in their order', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.post('jobs', { payload: 'first' })
    const jobs = Array.from({ length: 1000 }, (_, payload) => ({ payload }))
    const cost = await costOf(shared, async () => {
      const { results } = (await queue.post('jobs', { jobs })).json
      const ids = results.map(({ id }: { id: string }) => id)
      expect(ids).toEqual([...ids].sort())
      expect(new Set(ids).size).toBe(1000)
    })
    expect(cost).toEqual({ requests: 1, total: 1005 })
    expect((await queue.claim({ limit: 100 })).map(({ payload }) => payload)).toEqual([
      'first',
      ...Array.from({ length: 99 }, (_, nth) => nth),
    ])
    await expectConsistent(raw.port, queue.name)
  })

  test('the jobs of one list may each have a delay, an idempotency key and an id', async () => {
    const queue = queueOn(apiOn(shared))
    const jobs = [
      { payload: 0, idempotencyKey: 'a' },
      { payload: 1, idempotencyKey: 'b', delayMs: 60_000 },
      { payload: 2, idempotencyKey: 'a' },
      { payload: 3, id: 'JOB0KHTOWnGLuC', idempotencyKey: 'c', maxAttempts: 9 },
    ]
    const { results } = (await queue.post('jobs', { jobs })).json
    expect(results.map(outcome)).toEqual(['enqueued', 'scheduled', 'duplicate', 'enqueued'])
    expect(results[2].id).toBe(results[0].id)
    const again = (await queue.post('jobs', { jobs })).json.results
    expect(again.map(({ id, status }: { id: string; status: string }) => [id, status])).toEqual(
      results.map(({ id }: { id: string }) => [id, 'duplicate']),
    )
    await expectConsistent(raw.port, queue.name)
  })
})

describe('an idempotency key', () => {
  test('an idempotency key returns the id of the first job within its window, even after the job is completed', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const first = await queue.post('jobs', { payload: 1, idempotencyKey: 'order:1' })
    expect([first.status, first.json.status]).toEqual([201, 'enqueued'])
    for (const progress of [async () => {}, () => completeAll(queue)]) {
      await progress()
      const again = await queue.post('jobs', { payload: 2, idempotencyKey: 'order:1' })
      expect([again.status, again.json]).toEqual([200, { id: first.json.id, status: 'duplicate' }])
    }
    expect(await queue.counts()).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 0 })
    expect((await queue.post('jobs', { payload: 1, idempotencyKey: 'order:2' })).status).toBe(201)
    await expectConsistent(raw.port, queue.name)
  })

  test('an idempotency key has the window of the request, else ten minutes', async () => {
    const queue = queueOn(apiOn(shared))
    const ttl = async (key: string) => Number(await raw.run('PTTL', queue.keys.idempotency(key)))
    await queue.post('jobs', { payload: 1, idempotencyKey: 'default' })
    expect(await ttl('default')).toBeGreaterThan(590_000)
    expect(await ttl('default')).toBeLessThanOrEqual(600_000)
    await queue.post('jobs', { payload: 1, idempotencyKey: 'long', idempotencyTtlMs: 604_800_000 })
    expect(await ttl('long')).toBeGreaterThan(604_790_000)
    const first = (await queue.post('jobs', { payload: 1, idempotencyKey: 's', idempotencyTtlMs: 1000 })).json
    const later = await until(async () => {
      const answer = await queue.post('jobs', { payload: 2, idempotencyKey: 's' })
      return answer.status === 201 && answer.json
    })
    expect(later.id).not.toBe(first.id)
    await expectConsistent(raw.port, queue.name)
  })

  test('an idempotency key in the header is the same as one in the body', async () => {
    const queue = queueOn(apiOn(shared))
    const headers = { 'Idempotency-Key': 'k-1' }
    const { id } = (await queue.post('jobs', { payload: 1 }, { headers })).json
    expect((await queue.post('jobs', { payload: 1 }, { headers })).json).toEqual({ id, status: 'duplicate' })
    expect((await queue.post('jobs', { payload: 1, idempotencyKey: 'k-1' })).json.id).toBe(id)
    expect((await queue.post('jobs', { payload: 1, idempotencyKey: 'k-1' }, { headers })).json.id).toBe(id)
    expect((await queue.post('jobs', { payload: 1, idempotencyTtlMs: 1000 }, { headers })).json.id).toBe(id)
  })

  test('an idempotency key in the header is rejected if it differs from the body, or is malformed', async () => {
    const enqueueWith = (body: object, key: string) =>
      queueOn(apiOn(shared)).post('jobs', body, { headers: { 'Idempotency-Key': key } })
    await withoutRedis(shared, async () => {
      for (const [body, key] of [
        [{ payload: 1, idempotencyKey: 'a' }, 'b'],
        [{ payload: 1, idempotencyKey: 5 }, '5'],
        [{ payload: 1 }, 'a b'],
        [{ payload: 1 }, '"a"'],
        [{ payload: 1 }, ''],
        [{ payload: 1 }, 'x'.repeat(256)],
        [{ jobs: [{ payload: 1 }], idempotencyKey: 'a' }, 'b'],
      ] as const) {
        const answer = await enqueueWith(body, key)
        expect([answer.status, answer.json.errors[0].path], key).toEqual([400, 'idempotencyKey'])
      }
    })
    expect((await enqueueWith({ payload: 1 }, 'x'.repeat(255))).status).toBe(201)
  })

  test('of many parallel enqueues with one idempotency key exactly one stores a job', async () => {
    const queue = queueOn(apiOn(shared))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) => queue.post('jobs', { payload, idempotencyKey: 'same' })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
    expect((await queue.counts()).pending).toBe(1)
  })
})

describe('startBy', () => {
  test('a job whose startBy has passed is dead instead of claimed, and one in time contains its startBy', async () => {
    const queue = queueOn(apiOn(shared))
    const past = (await queue.post('jobs', { payload: 'late', startBy: Date.now() - 1000 })).json
    const future = new Date(Date.now() + 600_000).toISOString()
    const kept = (await queue.post('jobs', { payload: 'in time', startBy: future })).json
    expect((await queue.job(kept.id)).startBy).toBe(future)
    expect((await queue.claim({ limit: 100 })).map(({ id }: { id: string }) => id)).toEqual([kept.id])
    expect(await queue.job(past.id)).toMatchObject({ state: 'dead', lastError: 'expired', attempts: 0 })
    expect((await queue.get()).json.failed).toBe(1)
    await expectConsistent(raw.port, queue.name)
  })

  test('maintenance expires scheduled jobs by startBy and leaves active jobs alone', async () => {
    const api = apiOn(shared)
    const queue = queueOn(api)
    const startBy = Date.now() + 300
    const late = (await queue.post('jobs', { payload: 'late', startBy, delayMs: 60_000 })).json
    const started = (await queue.post('jobs', { payload: 'started', startBy })).json
    expect((await queue.claimOne()).id).toBe(started.id)
    await until(async () => {
      await api.call('POST', '/v1/maintenance')
      return (await queue.counts()).dead === 1
    })
    expect(await queue.job(late.id)).toMatchObject({ state: 'dead', lastError: 'expired' })
    expect((await queue.job(started.id)).state).toBe('active')
    await expectConsistent(raw.port, queue.name)
  })

  test('startBy may be the last instant of the year 9999', async () => {
    const queue = queueOn(apiOn(shared))
    const startBy = 253_402_300_799_999
    const { id } = (await queue.post('jobs', { payload: 1, startBy })).json
    expect((await queue.job(id)).startBy).toBe('9999-12-31T23:59:59.999Z')
    expect(await queue.claim({ limit: 100 })).toHaveLength(1)
  })
})

describe('maxPending', () => {
  test('maxPending is exact under parallel requests, and more jobs return 429 with Retry-After', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.put('settings', { maxPending: 7 })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, payload) =>
        queueOn(apiOn(shared), queue.name).post('jobs', { payload }),
      ),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(7)
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect([answer.status, answer.json.code]).toEqual([429, 'overloaded'])
      expect(answer.headers.get('Retry-After')).toMatch(/^[1-9]\d*$/)
    }
    expect((await queue.counts()).pending).toBe(7)

    await queue.claim({ limit: 2 })
    const { results } = (await queue.post('jobs', { jobs: Array(5).fill({ payload: 1 }) })).json
    expect(results.map(outcome)).toEqual([
      ...['enqueued', 'enqueued', 'overloaded', 'overloaded', 'overloaded'],
    ])
    expect((await queue.post('jobs', { payload: 1, delayMs: 60_000 })).status).toBe(429)
    await queue.put('settings', { maxPending: 0 })
    expect((await queue.post('jobs', { payload: 1 })).status).toBe(201)
    await expectConsistent(raw.port, queue.name)
  })

  test('a duplicate is reported even if maxPending is reached', async () => {
    const queue = queueOn(apiOn(shared))
    await queue.put('settings', { maxPending: 1 })
    const { id } = (await queue.post('jobs', { payload: 1, id: 'JOB0KHTOWnGLuC', idempotencyKey: 'k' })).json
    expect((await queue.post('jobs', { payload: 1, id })).json.status).toBe('duplicate')
    expect((await queue.post('jobs', { payload: 1, idempotencyKey: 'k' })).json.status).toBe('duplicate')
    expect((await queue.post('jobs', { payload: 1 })).status).toBe(429)
  })
})

type Result = { status?: string; error?: { code: string; errors?: { path: string }[] } }

/** The status of a result, or the code of its error. */
function outcome({ status, error }: Result): string | undefined {
  return status ?? error?.code
}

async function completeAll(queue: TestQueue): Promise<void> {
  for (const { id, token } of await queue.claim({ limit: 100 }))
    await queue.post(`jobs/${id}/complete`, { token })
}
