/** Enqueue: ids, repeats, collisions, batches, and payloads that are rejected before anything is sent. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import * as z from 'zod'
import { EchoMQ, EchoMQError, type EchoMQOptions, type StandardSchema } from '../../src/client/index.ts'
import { mintedAt } from '../../src/protocol/ids.ts'
import { clientOf, createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

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
function duplicate(id: string) {
  return { status: 200, body: { id, status: 'duplicate' } }
}

describe('one job', () => {
  test('enqueue sends one request with an id that the client minted', async () => {
    const { id, status } = await queue().enqueue({ to: 'a' })
    expect(id).toMatch(ID)
    expect(status).toBe('enqueued')
    expect(api.calls.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /v1/queues/q/jobs'])
    expect(bodies()).toEqual([{ id, payload: { to: 'a' } }])
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
    const { id } = await queue().enqueue(null, options)
    expect(bodies()).toEqual([{ ...options, id, payload: null, runAt: '2030-01-01T00:00:00.000Z' }])
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
    expect(bodies()[0]).toEqual({ id: expect.stringMatching(ID), text: '00123' })
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
  ] as const)('a repeat after %j has the same id and creates one job', async (fault) => {
    api.fail('/jobs', fault)
    const result = await clock.during(queue().enqueue(1))
    expect(result).toEqual({ id: expect.stringMatching(ID), status: 'enqueued' })
    expect(bodies().map(({ id }) => id)).toEqual([result.id, result.id])
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
  test('case 13: a minted id that is taken is minted again, and no job is lost', async () => {
    const standing = clock.epochMs()
    const ids = new Set<string>()
    // Two isolates with the same node, on a clock that stands still: they mint the same ids.
    for (let isolate = 0; isolate < 2; isolate++) {
      const emails = queue({ clock: { ...clock, epochMs: () => standing } })
      for (let n = 0; n < 100; n++) ids.add((await clock.during(emails.enqueue(n))).id)
    }
    expect(ids.size).toBe(200)
    expect(api.jobs.size).toBe(200)
    expect([...api.jobs.values()].map(({ payload }) => payload).sort()).toEqual(
      [...Array(100).keys()].flatMap((n) => [n, n]).sort(),
    )
  })

  test('collisions of a whole batch change the node once, and the new ids stay near the time', async () => {
    const standing = clock.epochMs()
    const [first, second] = [0, 1].map(() => queue({ clock: { ...clock, epochMs: () => standing } }))
    const items = Array.from({ length: 500 }, (_, n) => ({ payload: n }))
    await first?.enqueueMany(items)
    const results = await clock.during(second?.enqueueMany(items) ?? Promise.reject())
    expect(results.every((result) => 'status' in result && result.status === 'enqueued')).toBe(true)
    expect(api.jobs.size).toBe(1_000)
    expect(Math.max(...results.map(({ id }) => mintedAt(id))) - standing).toBe(1)
  })

  test('an id that is taken at every attempt is an error', async () => {
    const fetch: EchoMQOptions['fetch'] = async (_, init) => {
      const { id } = JSON.parse(String(init.body))
      return Response.json({ id, status: 'duplicate' })
    }
    expect(await failure(queue({ fetch }).enqueue(1))).toMatchObject({ code: 'internal' })
  })

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

  test('a repeat under an idempotency key returns the original status when the first response was lost', async () => {
    api.fail('/jobs', 'lost')
    const { status } = await clock.during(queue().enqueue(1, { idempotencyKey: 'k' }))
    expect(status).toBe('enqueued')
    expect(api.jobs.size).toBe(1)
  })

  test('a duplicate after a 429 is a collision, because a 429 carries nothing out', async () => {
    let sends = 0
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      sends++
      if (sends === 1) return new Response(null, { status: 429 })
      const { id } = JSON.parse(String(init.body))
      return sends === 2 ? Response.json(duplicate(id).body) : api.fetch(url, init)
    }
    const { id } = await clock.during(queue({ fetch }).enqueue('kept'))
    expect(api.jobs.get(id)?.payload).toBe('kept')
  })
})

describe('many jobs', () => {
  const items = (count: number) => Array.from({ length: count }, (_, n) => ({ payload: n }))

  test('enqueueMany sends one request, and returns results in order with rising ids', async () => {
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
    const ids = results.map(({ id }) => id)
    expect(ids.toSorted()).toEqual(ids)
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

  test('case 12: thousands of jobs in one millisecond are sent 1000 at a time with different ids', async () => {
    const results = await queue().enqueueMany(items(5_000))
    expect(bodies().map(({ jobs }) => jobs.length)).toEqual([1000, 1000, 1000, 1000, 1000])
    expect(new Set(results.map(({ id }) => id)).size).toBe(5_000)
    expect(results.map(({ id }) => api.jobs.get(id)?.payload)).toEqual([...Array(5_000).keys()])
  })

  test('enqueueMany spreads large jobs over requests below the byte limit', async () => {
    const sizes: number[] = []
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      sizes.push(new TextEncoder().encode(String(init.body)).length)
      return api.fetch(url, init)
    }
    const text = '\u20ac'.repeat(80_000)
    const results = await queue({ fetch }).enqueueMany(Array.from({ length: 30 }, () => ({ payload: text })))
    expect(results).toHaveLength(30)
    expect(api.jobs.size).toBe(30)
    expect(sizes).toHaveLength(2)
    expect(Math.max(...sizes)).toBeLessThan(5 * 1024 * 1024)
  })

  test('a repeat of enqueueMany after a lost response creates no second jobs', async () => {
    api.fail('/jobs', 'lost')
    const results = await clock.during(
      queue().enqueueMany([{ payload: 1 }, { payload: 2, delayMs: 600_000 }]),
    )
    expect(results.map((result) => 'status' in result && result.status)).toEqual(['enqueued', 'scheduled'])
    expect(api.jobs.size).toBe(2)
  })

  test('a colliding item is minted again, and the other items are not sent twice', async () => {
    let sends = 0
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      const answer = await api.fetch(url, init)
      if (++sends > 1) return answer
      const { results } = (await answer.json()) as { results: { id: string }[] }
      const second = results[1]?.id ?? ''
      ;(api.jobs as Map<string, unknown>).delete(second)
      results[1] = { id: second, status: 'duplicate' } as { id: string }
      return Response.json({ results })
    }
    const results = await clock.during(queue({ fetch }).enqueueMany(items(3)))
    expect(bodies().map(({ jobs }) => jobs.length)).toEqual([3, 1])
    expect(results.map(({ id }) => api.jobs.get(id)?.payload)).toEqual([0, 1, 2])
  })

  test('a bad item gets its own error and stops no other', async () => {
    const detail = 'The job is malformed.'
    const fetch: EchoMQOptions['fetch'] = async (_, init) => {
      const { jobs } = JSON.parse(String(init.body)) as { jobs: { id: string }[] }
      const results = jobs.map(({ id }, n) =>
        n === 1 ? { error: { code: 'invalid', detail } } : { id, status: 'enqueued' },
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
    expect(results[1]).toMatchObject({ id: expect.stringMatching(ID), error: { code: 'invalid' } })
  })

  test('an item that a limit rejects is repeated with its own id', async () => {
    let sends = 0
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      if (++sends > 1) return api.fetch(url, init)
      const { jobs } = JSON.parse(String(init.body)) as { jobs: { id: string }[] }
      return Response.json({ results: jobs.map(() => ({ error: { code: 'overloaded', detail: '' } })) })
    }
    const results = await clock.during(queue({ fetch }).enqueueMany(items(2)))
    expect(results.map((result) => 'status' in result && result.status)).toEqual(['enqueued', 'enqueued'])
  })

  test("a duplicate after an item's `upstream` error is the item's own job", async () => {
    let sends = 0
    const fetch: EchoMQOptions['fetch'] = async (url, init) => {
      const answer = await api.fetch(url, init)
      if (++sends > 1) return answer
      const { results } = (await answer.json()) as { results: unknown[] }
      return Response.json({ results: [results[0], { error: { code: 'upstream', detail: '' } }] })
    }
    const results = await clock.during(queue({ fetch }).enqueueMany(items(2)))
    expect(results.map((result) => 'status' in result && result.status)).toEqual(['enqueued', 'enqueued'])
    expect(bodies().map(({ jobs }) => jobs.length)).toEqual([2, 1])
    expect([...api.jobs.keys()]).toEqual(results.map(({ id }) => id))
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
    expect(errors[0]).toMatchObject({ id: expect.stringMatching(ID), error: { code: 'forbidden' } })
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

  test('ids rise in the order of the jobs, however long the schema takes for each', async () => {
    const validate = vi.fn(async (value: unknown) => {
      for (let turns = value === 0 ? 5 : 0; turns > 0; turns--)
        await new Promise((resolve) => setImmediate(resolve))
      return { value }
    })
    const slow: StandardSchema = { '~standard': { version: 1, vendor: 'test', validate } }
    const results = await new EchoMQ(clientOf(api, clock))
      .queue('q', { schema: slow })
      .enqueueMany([{ payload: 0 }, { payload: 1 }])
    expect((results[0]?.id ?? '') < (results[1]?.id ?? '')).toBe(true)
  })
})
