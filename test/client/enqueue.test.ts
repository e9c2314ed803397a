/** Enqueue: keys, repeats, batches, and payloads that are rejected before anything is sent. */
import { beforeEach, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { EchoMQ, EchoMQError, type EchoMQOptions, type StandardSchema } from '../../src/client/index.ts'
import { clientOf, createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

/** A key that the client drew. */
const KEY = /^\d+-\d+-\d+-\d+$/
const ID = /^JOB[0-9A-Za-z]{11}$/

let clock: FakeClock
let api: FakeApi

beforeEach(() => {
  clock = createFakeClock()
  api = createFakeApi(clock)
})

function queue(options: Partial<EchoMQOptions> = {}) {
  return new EchoMQ({ ...clientOf(api, clock), ...options }).queue('q')
}

function failure(promise: Promise<unknown>): Promise<EchoMQError> {
  return clock.during(
    promise.then(
      () => expect.fail('it succeeded'),
      (error) => error,
    ),
  )
}

function bodies() {
  return api.to('/jobs').map(({ body }) => body)
}

describe('one job', () => {
  test('enqueue sends one request with a random key, and the server mints the id', async () => {
    const { id, status } = await queue().enqueue({ to: 'a' })
    expect(id).toMatch(ID)
    expect(status).toBe('enqueued')
    expect(api.calls.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /v1/queues/q/jobs'])
    expect(bodies()).toEqual([{ payload: { to: 'a' }, idempotencyKey: expect.stringMatching(KEY) }])
  })

  test('enqueue with a delay returns scheduled', async () => {
    expect((await queue().enqueue(1, { delayMs: 5 })).status).toBe('scheduled')
  })

  test("enqueue sends all options by the API's names, and instants as RFC 3339", async () => {
    const runAt = new Date(Date.UTC(2030, 0, 1))
    const options = {
      runAt,
      startBy: 1_900_000_000_000,
      idempotencyKey: 'k',
      idempotencyTtlMs: 1_000,
      maxAttempts: 3,
    }
    await queue().enqueue(null, options)
    expect(bodies()).toEqual([{ ...options, payload: null, runAt: '2030-01-01T00:00:00.000Z' }])
  })

  test.each([[0], [''], [false], [[]], ['"quoted"\n\u2028'], [{ nested: { 'a"b': [1, null] } }]])(
    'enqueue sends the payload %j unchanged',
    async (payload) => {
      await queue().enqueue(payload)
      expect(bodies()[0].payload).toEqual(payload)
    },
  )

  test('a payload that changes after the call is sent unchanged, in a repeat too', async () => {
    api.fail('/jobs', 'reset')
    const payload = { n: 1 }
    const done = queue().enqueue(payload)
    await clock.settle()
    payload.n = 2
    await clock.during(done)
    expect(bodies().map((body) => body.payload)).toEqual([{ n: 1 }, { n: 1 }])
  })

  test.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a cycle', Object.assign([] as unknown[], { 0: null }).fill(null) && cycle()],
    ['a bigint', 1n],
  ])('enqueue rejects %s before anything is sent', async (_, payload) => {
    const error = await failure(queue().enqueue(payload))
    expect(error).toBeInstanceOf(EchoMQError)
    const message = 'payload must match its schema and be JSON'
    expect(error).toMatchObject({ code: 'invalid', retryable: false, message })
    expect(api.calls).toEqual([])
  })

  test('a text payload is sent verbatim, and any other type is rejected', async () => {
    const texts = new EchoMQ(clientOf(api, clock)).queue<string>('q', { as: 'text' })
    await texts.enqueue('00123')
    expect(bodies()[0]).toEqual({ idempotencyKey: expect.stringMatching(KEY), text: '00123' })
    // @ts-expect-error a number is not text
    expect(await failure(texts.enqueue(123))).toMatchObject({
      code: 'invalid',
      message: 'payload must match its schema and be text',
    })
    expect(api.calls).toHaveLength(1)
  })
})

function cycle(): unknown {
  const array: unknown[] = []
  array.push(array)
  return array
}

describe('a repeat', () => {
  test.each([
    'reset',
    'lost',
    { status: 503 },
    { status: 500 },
    { status: 429 },
    { status: 200, body: '<html>' },
  ] as const)('98: a repeat after %j has the same key and creates one job', async (fault) => {
    api.fail('/jobs', fault)
    const result = await clock.during(queue().enqueue(1))
    expect(result).toEqual({ id: expect.stringMatching(ID), status: 'enqueued' })
    const [first, second] = bodies()
    expect(first.idempotencyKey).toMatch(KEY)
    expect(second).toEqual(first)
    expect([...api.jobs.keys()]).toEqual([result.id])
  })

  test('case 1: a repeat of an enqueue that was carried out returns the original status', async () => {
    api.fail('/jobs', 'lost', 'lost')
    expect((await clock.during(queue().enqueue(1))).status).toBe('enqueued')
    api.fail('/jobs', 'lost')
    expect((await clock.during(queue().enqueue(1, { delayMs: 60_000_000 }))).status).toBe('scheduled')
    expect(api.jobs.size).toBe(2)
  })

  test('enqueue repeats its request at most `retry` times', async () => {
    api.failAlways('/jobs', 'reset')
    for (const [retry, sends] of [
      [undefined, 4],
      [1, 2],
      [0, 1],
    ] as const) {
      const before = api.calls.length
      const error = await failure(queue({ retry }).enqueue(1))
      expect(error).toMatchObject({ code: 'network', retryable: true })
      expect(api.calls.length - before).toBe(sends)
    }
  })

  test('a repeat waits for the jitter or for Retry-After', async () => {
    clock.chance = 0
    api.fail('/jobs', { status: 503, headers: { 'retry-after': '7' } }, { status: 503 })
    await clock.during(queue().enqueue(1))
    expect(api.to('/jobs').map(({ at }) => at)).toEqual([0, 7_000, 7_000])
  })

  test.each([400, 401, 403, 404, 413, 415, 422])(
    'enqueue does not repeat its request after a %i of the API',
    async (status) => {
      api.fail('/jobs', { status, body: { code: 'invalid', detail: 'no' } })
      expect(await failure(queue().enqueue(1))).toMatchObject({ status, retryable: false })
      expect(api.calls).toHaveLength(1)
    },
  )

  test('enqueue throws the reason of an aborted signal', async () => {
    api.failAlways('/jobs', 'silent')
    const abort = new AbortController()
    const reason = new Error('enough')
    const done = failure(queue().enqueue(1, { signal: abort.signal }))
    await clock.settle()
    abort.abort(reason)
    expect(await done).toBe(reason)
    expect(api.calls).toHaveLength(1)
    expect(clock.timers).toBe(0)
  })
})

describe('duplicates', () => {
  test("a duplicate of a caller's id is returned, at the first attempt and in a repeat", async () => {
    const id = 'JOB0KHTOWnGLuC'
    await queue().enqueue(1, { id })
    expect(await queue().enqueue(2, { id })).toEqual({ id, status: 'duplicate' })
    api.fail('/jobs', 'reset')
    expect(await clock.during(queue().enqueue(3, { id }))).toEqual({ id, status: 'duplicate' })
    expect(api.jobs.get(id)?.payload).toBe(1)
  })

  test('a duplicate of an idempotency key is returned with the id of the first job', async () => {
    const emails = queue()
    const { id } = await emails.enqueue(1, { idempotencyKey: 'k' })
    expect(await emails.enqueue(2, { idempotencyKey: 'k' })).toEqual({ id, status: 'duplicate' })
    api.fail('/jobs', 'reset')
    expect(await clock.during(emails.enqueue(3, { idempotencyKey: 'k' }))).toEqual({
      id,
      status: 'duplicate',
    })
    expect(api.jobs.size).toBe(1)
  })

  test("a repeat under the caller's key returns duplicate, because the key may have been used before", async () => {
    api.fail('/jobs', 'lost')
    const { status } = await clock.during(queue().enqueue(1, { idempotencyKey: 'k' }))
    expect(status).toBe('duplicate')
    expect(api.jobs.size).toBe(1)
  })

  test('98: a job that was completed before the repeat runs once', async () => {
    api.fail('/jobs', 'lost')
    const done = queue().enqueue(1)
    await clock.settle()
    const [job] = await queue().claim()
    if (job) await queue().complete(job)
    expect(await clock.during(done)).toEqual({ id: job?.id, status: 'enqueued' })
    expect(api.jobs.size).toBe(0)
  })
})

describe('many jobs', () => {
  const items = (count: number) => Array.from({ length: count }, (_, n) => ({ payload: n }))

  test('enqueueMany sends one request, and returns results in order', async () => {
    const results = await queue().enqueueMany([
      { payload: 'a' },
      { payload: 'b', delayMs: 5 },
      { payload: 'c' },
    ])
    expect(results.map((result) => 'status' in result && result.status)).toEqual([
      'enqueued',
      'scheduled',
      'enqueued',
    ])
    expect(bodies()[0].jobs.map(({ payload }: { payload: unknown }) => payload)).toEqual(['a', 'b', 'c'])
    expect(bodies()[0].idempotencyKey).toMatch(KEY)
  })

  test('enqueueMany of no jobs sends no request', async () => {
    expect(await queue().enqueueMany([])).toEqual([])
    expect(api.calls).toEqual([])
  })

  test('enqueueMany of one job sends a batch of one', async () => {
    expect(await queue().enqueueMany([{ payload: 1 }])).toEqual([
      { id: expect.stringMatching(ID), status: 'enqueued' },
    ])
    expect(bodies()[0]).toHaveProperty('jobs')
  })

  test('thousands of jobs are sent 1000 at a time, each request with a key of its own', async () => {
    const results = await queue().enqueueMany(items(5_000))
    expect(bodies().map(({ jobs }) => jobs.length)).toEqual([1000, 1000, 1000, 1000, 1000])
    expect(new Set(bodies().map(({ idempotencyKey }) => idempotencyKey)).size).toBe(5)
    const ids = results.map((result) => ('id' in result ? result.id : ''))
    expect(ids.map((id) => api.jobs.get(id)?.payload)).toEqual([...Array(5_000).keys()])
  })

  test('103: enqueueMany spreads large jobs over requests below 1 MB', async () => {
    const sizes: number[] = []
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      sizes.push(new TextEncoder().encode(String(init.body)).length)
      return api.fetch(url, init)
    }
    const text = '\u20ac'.repeat(80_000)
    const results = await queue({ fetch }).enqueueMany(Array.from({ length: 30 }, () => ({ payload: text })))
    expect(results).toHaveLength(30)
    expect(api.jobs.size).toBe(30)
    expect(sizes).toHaveLength(8)
    expect(Math.max(...sizes)).toBeLessThan(1_000_000)
  })

  test('a repeat of enqueueMany after a lost response creates no second jobs', async () => {
    api.fail('/jobs', 'lost')
    const results = await clock.during(
      queue().enqueueMany([{ payload: 1 }, { payload: 2, delayMs: 600_000 }]),
    )
    expect(results.map((result) => 'status' in result && result.status)).toEqual(['enqueued', 'scheduled'])
    expect(api.jobs.size).toBe(2)
  })

  test('98: jobs that were completed before the repeat of their batch run once', async () => {
    api.fail('/jobs', 'lost')
    const done = queue().enqueueMany(items(50))
    await clock.settle()
    for (const job of await queue().claim({ limit: 50 })) await queue().complete(job)
    const results = await clock.during(done)
    expect(results.map((result) => 'status' in result && result.status)).toEqual(Array(50).fill('enqueued'))
    expect(api.jobs.size).toBe(0)
  })

  test('a bad item gets its own error and stops no other', async () => {
    const detail = 'The job is malformed.'
    const fetch: EchoMQOptions['fetch'] = async (_, init) => {
      const { jobs } = JSON.parse(String(init.body)) as { jobs: object[] }
      const results = jobs.map((_job, n) =>
        n === 1 ? { error: { code: 'invalid', detail } } : { id: `JOB${n}`, status: 'enqueued' },
      )
      return Response.json({ results })
    }
    const results = await queue({ fetch }).enqueueMany([...items(2), { payload: undefined }, { payload: 3 }])
    expect(results.map((result) => ('error' in result ? result.error.code : result.status))).toEqual([
      'enqueued',
      'invalid',
      'invalid',
      'enqueued',
    ])
  })

  test('enqueueMany throws when a request fails before any job is enqueued', async () => {
    api.failAlways('/jobs', { status: 401 })
    expect(await failure(queue().enqueueMany(items(2_000)))).toMatchObject({ code: 'unauthorized' })
    expect(api.calls).toHaveLength(1)
  })

  test('a request that fails later returns an error for each of its jobs and the later ones', async () => {
    let sends = 0
    const fetch: EchoMQOptions['fetch'] = async (url, init) =>
      ++sends === 2 ? new Response(null, { status: 403 }) : api.fetch(url, init)
    const results = await clock.during(queue({ fetch }).enqueueMany(items(3_000)))
    const errors = results.filter((result) => 'error' in result)
    expect(errors).toHaveLength(2_000)
    expect(results.slice(0, 1_000).every((result) => 'status' in result)).toBe(true)
    expect(errors[0]).toMatchObject({ error: { code: 'forbidden' } })
    expect(sends).toBe(2)
  })
})

describe('a schema', () => {
  const schema = z.object({ to: z.email(), tries: z.coerce.number().default(1) })
  const emails = () => new EchoMQ(clientOf(api, clock)).queue('q', { schema })

  test('a payload that matches the schema is sent unchanged', async () => {
    await emails().enqueue({ to: 'a@example.com' })
    expect(bodies()[0].payload).toEqual({ to: 'a@example.com' })
  })

  test('a payload that does not match is rejected before anything is sent, and the error names paths and no values', async () => {
    const secret = 'SECRET-1'
    const error = await failure(emails().enqueue({ to: secret, tries: 'many' }))
    expect(error).toBeInstanceOf(EchoMQError)
    expect(error).toMatchObject({ code: 'invalid', errors: [{ path: 'to' }, { path: 'tries' }] })
    expect(error.message).toBe('payload must match its schema: to,tries')
    expect(api.calls).toEqual([])
  })

  test('enqueueMany rejects the job that does not match and sends the others', async () => {
    const results = await emails().enqueueMany([
      { payload: { to: 'x' } },
      { payload: { to: 'a@example.com' } },
    ])
    expect(results).toMatchObject([{ error: { code: 'invalid' } }, { status: 'enqueued' }])
    expect(bodies()[0].jobs).toHaveLength(1)
  })

  test('a schema may be asynchronous, and its paths may be objects', async () => {
    const slow: StandardSchema<number> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) => {
          await new Promise((resolve) => setImmediate(resolve))
          return value === 1 ? { value: 1 } : { issues: [{ message: 'no', path: ['list', { key: 0 }] }] }
        },
      },
    }
    const numbers = new EchoMQ(clientOf(api, clock)).queue('q', { schema: slow })
    expect((await numbers.enqueue(1)).status).toBe('enqueued')
    expect(await failure(numbers.enqueue(2))).toMatchObject({ errors: [{ path: 'list.0', message: 'no' }] })
  })

  test('155: a schema checks the payload as a consumer will read it', async () => {
    const dates = new EchoMQ(clientOf(api, clock)).queue('q', { schema: z.object({ at: z.date() }) })
    expect(await failure(dates.enqueue({ at: new Date() }))).toMatchObject({ code: 'invalid' })
    expect(api.calls).toEqual([])
  })

  test('156: a fraction of a delay is rounded up', async () => {
    await queue().enqueue(1, { delayMs: 1234.5 })
    await queue().enqueueMany([{ payload: 1, delayMs: 0.1 }])
    expect(bodies()[0].delayMs).toBe(1235)
    expect(bodies()[1].jobs[0].delayMs).toBe(1)
  })
})
