/** The verbs of a queue: the request and the result of each. */
import { beforeEach, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { EchoMQ, EchoMQError, type StandardSchema } from '../../src/client/index.ts'
import { clientOf, createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let api: FakeApi

beforeEach(() => {
  clock = createFakeClock()
  clock.chance = 0
  api = createFakeApi(clock)
})

function emails() {
  return new EchoMQ(clientOf(api, clock)).queue<unknown>('q')
}

async function claimOne() {
  const [job] = await emails().claim()
  return job ?? expect.fail('no job')
}

describe('claim', () => {
  test('claim takes one job by default', async () => {
    const [first] = api.put({ n: 1 }, 2)
    const jobs = await emails().claim()
    expect(jobs).toEqual([
      {
        id: first,
        queue: 'q',
        token: 1,
        payload: { n: 1 },
        enqueuedAt: '2026-01-01T00:00:00.000Z',
        leaseMs: 30_000,
      },
    ])
    expect(api.to('/claim')[0]?.body).toEqual({ limit: 1, claimId: expect.any(String) })
  })

  test('claim sends its options', async () => {
    await clock.during(emails().claim({ limit: 7, leaseMs: 5_000, waitMs: 100 }))
    expect(api.to('/claim')[0]?.body).toMatchObject({ limit: 7, leaseMs: 5_000, waitMs: 100 })
  })

  test('claim of an empty queue returns no job', async () => {
    expect(await emails().claim()).toEqual([])
  })

  test('a repeated claim has the same claimId and uses no attempt', async () => {
    api.put(1)
    api.fail('/claim', 'lost')
    expect(await clock.during(emails().claim())).toMatchObject([{ token: 1 }])
    const [first, second] = api.to('/claim').map(({ body }) => body.claimId)
    expect(second).toBe(first)
  })

  test('two claims have different claimIds', async () => {
    for (let n = 0; n < 100; n++) await emails().claim()
    expect(new Set(api.to('/claim').map(({ body }) => body.claimId)).size).toBe(100)
  })

  test('claim returns the payload that the schema returned, and fails a job that does not match', async () => {
    const schema = z.object({ at: z.coerce.date() })
    const [bad = '', good = ''] = api.put({ at: 'never' }, { at: '2030-01-01T00:00:00Z' })
    const jobs = await new EchoMQ(clientOf(api, clock)).queue('q', { schema }).claim({ limit: 2 })
    expect(jobs.map(({ id, payload }) => [id, payload])).toEqual([
      [good, { at: new Date(Date.UTC(2030, 0, 1)) }],
    ])
    expect(api.jobs.get(bad)).toMatchObject({
      state: 'dead',
      lastError: 'EchoMQError: payload must match its schema: at',
    })
  })

  test('claim does not return a job that does not match when the fail fails', async () => {
    api.put('x', 1)
    api.failAlways('/fail', { status: 400, body: { code: 'invalid', detail: '' } })
    const jobs = await new EchoMQ(clientOf(api, clock)).queue('q', { schema: z.number() }).claim({ limit: 2 })
    expect(jobs.map(({ payload }) => payload)).toEqual([1])
  })

  test('claim retries a job whose schema throws, and returns the others', async () => {
    const [thrown = ''] = api.put('x', 1)
    const validate = (value: unknown) => {
      if (value === 'x') throw new Error('database away')
      return { value }
    }
    const schema: StandardSchema = { '~standard': { version: 1, vendor: 'test', validate } }
    const jobs = await new EchoMQ(clientOf(api, clock)).queue('q', { schema }).claim({ limit: 2 })
    expect(jobs.map(({ payload }) => payload)).toEqual([1])
    expect(api.jobs.get(thrown)).toMatchObject({ state: 'scheduled', lastError: 'Error: database away' })
  })

  test('claim of a text queue asks for text, and the payload is the text', async () => {
    const job = { id: 'JOB00000000000', queue: 'q', token: 1, text: '00123', enqueuedAt: '', leaseMs: 1 }
    api.fail('/claim', { status: 200, body: { jobs: [job] } })
    const [claimed] = await new EchoMQ(clientOf(api, clock)).queue<string>('q', { as: 'text' }).claim()
    expect(claimed?.payload).toBe('00123')
    expect(api.to('/claim')[0]?.body.as).toBe('text')
  })
})

describe('moves', () => {
  test('complete returns completed, and then gone', async () => {
    api.put(1)
    const job = await claimOne()
    expect(await emails().complete(job)).toBe('completed')
    expect(api.to('/complete')[0]?.body).toEqual({ token: 1 })
    expect(await emails().complete(job)).toBe('gone')
  })

  test('complete throws stale when another consumer has claimed the job', async () => {
    const [id = ''] = api.put(1)
    const job = await claimOne()
    api.steal(id)
    const error = await emails()
      .complete(job)
      .catch((reason) => reason)
    expect(error).toBeInstanceOf(EchoMQError)
    expect(error).toMatchObject({ code: 'stale', reason: 'superseded', status: 409, retryable: false })
  })

  test('case 5: complete returns gone when its first response was lost', async () => {
    api.put(1)
    const job = await claimOne()
    api.fail('/complete', 'lost')
    expect(await clock.during(emails().complete(job))).toBe('gone')
    expect(api.to('/complete')).toHaveLength(2)
  })

  test('retry sends its options and returns scheduled or dead', async () => {
    const [id = ''] = api.put(1)
    expect(
      await emails().retry(await claimOne(), { error: new Error('busy'), delayMs: 0, maxAttempts: 9 }),
    ).toBe('scheduled')
    expect(api.to('/retry')[0]?.body).toEqual({ token: 1, error: 'Error: busy', delayMs: 0, maxAttempts: 9 })
    expect(await emails().retry(await claimOne())).toBe('scheduled')
    expect(api.to('/retry')[1]?.body).toEqual({ token: 2 })
    api.fail('/retry', { status: 200, body: { id, status: 'dead' } })
    expect(await emails().retry({ id, token: 3 })).toBe('dead')
  })

  test.each([
    ['retry', 'scheduled'],
    ['fail', 'dead'],
    ['release', 'pending'],
  ] as const)(
    '%s succeeds when its response was lost and its repeat is rejected as released',
    async (verb, state) => {
      const [id = ''] = api.put(1)
      const job = await claimOne()
      api.fail(`/${verb}`, 'lost')
      await clock.during<unknown>(emails()[verb](job))
      expect(api.to(`/${verb}`).map(({ body }) => body)).toEqual([{ token: 1 }, { token: 1 }])
      expect(api.jobs.get(id)?.state).toBe(state)
    },
  )

  test.each(['retry', 'fail', 'release'] as const)(
    '%s throws for a token that fail has made stale',
    async (verb) => {
      api.put(1)
      const job = await claimOne()
      await emails().fail(job)
      await expect(emails()[verb](job)).rejects.toMatchObject({ code: 'stale', reason: 'released' })
      api.fail(`/${verb}`, { status: 429 })
      await expect(clock.during<unknown>(emails()[verb](job))).rejects.toMatchObject({ code: 'stale' })
    },
  )

  test.each(['retry', 'fail', 'release', 'extend'] as const)(
    '%s throws gone for a job that no longer exists',
    async (verb) => {
      api.put(1)
      const job = await claimOne()
      await emails().complete(job)
      await expect(
        verb === 'extend' ? emails().extend(job, 1_000) : emails()[verb](job),
      ).rejects.toMatchObject({ code: 'gone' })
    },
  )

  test('fail moves a job to the dead letters, and release returns it after its delay', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    expect(await emails().fail(await claimOne(), { error: 'no' })).toBeUndefined()
    expect(await emails().release(await claimOne(), { delayMs: 5_000 })).toBeUndefined()
    expect(api.jobs.get(first)).toMatchObject({ state: 'dead', lastError: 'no' })
    expect(api.jobs.get(second)).toMatchObject({ state: 'scheduled', dueAt: 5_000 })
  })

  test('extend returns the milliseconds, and its repeat extends the lease again', async () => {
    const [id = ''] = api.put(1)
    const job = await claimOne()
    api.fail('/extend', 'lost')
    expect(await clock.during(emails().extend(job, 60_000))).toBe(60_000)
    expect(api.to('/extend')).toHaveLength(2)
    expect(api.jobs.get(id)?.leaseEndsAt).toBe(60_000)
  })

  test('extend throws stale when the lease was lost before its repeat', async () => {
    api.put(1)
    const job = await claimOne()
    api.fail('/extend', 'reset')
    await emails().release(job)
    await expect(clock.during(emails().extend(job, 60_000))).rejects.toMatchObject({ code: 'stale' })
  })

  test('retry cuts the text of an error to 2048 characters without splitting one', async () => {
    api.put(1)
    await emails().retry(await claimOne(), { error: `${'x'.repeat(2_047)}\u{1f600}` })
    const { error } = api.to('/retry')[0]?.body ?? {}
    expect(error).toHaveLength(2_048)
    expect(error.isWellFormed()).toBe(true)
  })
})

describe('observing', () => {
  const view = (id: string) => ({ id, queue: 'q', state: 'dead', attempts: 1, enqueuedAt: '' })

  test('stats sends a GET and returns the numbers', async () => {
    api.fail('/q', { status: 200, body: { queue: 'q', counts: { pending: 1 } } })
    expect(await emails().stats()).toEqual({ queue: 'q', counts: { pending: 1 } })
    expect(api.calls[0]).toMatchObject({ method: 'GET', path: '/v1/queues/q' })
  })

  test("job returns the job, or undefined only for the API's own 404", async () => {
    const id = 'JOB0KHTOWnGLuC'
    api.fail(id, { status: 200, body: view(id) })
    expect(await emails().job(id)).toEqual(view(id))
    expect(await emails().job(id)).toBeUndefined()
    api.fail(id, { status: 404, body: '<html>' })
    await expect(
      clock.during(new EchoMQ({ ...clientOf(api, clock), retry: 0 }).queue('q').job(id)),
    ).rejects.toMatchObject({ code: 'network' })
  })

  test('jobs reads one page after another', async () => {
    const page = (ids: string[], cursor?: string) => ({ status: 200, body: { jobs: ids.map(view), cursor } })
    api.fail('state=dead&limit=2&from=1000&to=2030-01-01T00%3A00%3A00.000Z', page(['a', 'b'], 'n=1&x'))
    api.fail('&cursor=n%3D1%26x', page(['c']))
    const seen: string[] = []
    const jobs = emails().jobs({ state: 'dead', limit: 2, from: 1_000, to: new Date(Date.UTC(2030, 0, 1)) })
    for await (const { id } of jobs) {
      seen.push(id)
      if (id === 'a') expect(api.calls).toHaveLength(1)
    }
    expect(seen).toEqual(['a', 'b', 'c'])
    expect(api.calls.map(({ method }) => method)).toEqual(['GET', 'GET'])
  })

  test('jobs requests no page that the caller does not read', async () => {
    api.failAlways('/jobs', { status: 200, body: { jobs: ['a'].map(view), cursor: 'more' } })
    for await (const _ of emails().jobs()) break
    expect(api.calls).toHaveLength(1)
  })

  test('stats repeats its request after retryable failures', async () => {
    api.fail('/q', 'reset', { status: 503 }, { status: 200, body: { counts: {} } })
    expect(await clock.during(emails().stats())).toEqual({ counts: {} })
  })
})

describe('operating', () => {
  test.each([
    [
      'pause',
      (queue: ReturnType<typeof emails>) => queue.pause(),
      '/v1/queues/q/pause',
      {},
      { paused: true },
    ],
    [
      'resume',
      (queue: ReturnType<typeof emails>) => queue.resume(),
      '/v1/queues/q/resume',
      {},
      { paused: false },
    ],
    [
      'redrive',
      (queue: ReturnType<typeof emails>) => queue.redrive('JOB0KHTOWnGLuC'),
      '/v1/queues/q/jobs/JOB0KHTOWnGLuC/redrive',
      {},
      { id: 'JOB0KHTOWnGLuC', status: 'pending' },
    ],
    [
      'redriveMany',
      (queue: ReturnType<typeof emails>) =>
        queue.redriveMany({ limit: 5, errorContains: 'x', from: new Date(0) }),
      '/v1/queues/q/redrive',
      { limit: 5, errorContains: 'x', from: '1970-01-01T00:00:00.000Z' },
      { redriven: 1, more: false },
    ],
    [
      'purge',
      (queue: ReturnType<typeof emails>) => queue.purge({ state: 'dead', limit: 5 }),
      '/v1/queues/q/purge',
      { state: 'dead', limit: 5 },
      { removed: 5, more: true },
    ],
    [
      'audit',
      (queue: ReturnType<typeof emails>) => queue.audit({ cursor: 'rows:0', limit: 5, repair: true }),
      '/v1/queues/q/audit',
      { cursor: 'rows:0', limit: 5, repair: true },
      { checked: 1, findings: [{ id: 'JOB0KHTOWnGLuC', kind: 'ghost', sets: ['dead'] }], repaired: 1 },
    ],
  ] as const)('%s sends its fields and returns the response', async (_, act, path, sent, answer) => {
    api.fail(path, { status: 200, body: answer })
    expect(await act(emails())).toEqual(answer)
    expect(api.calls.map(({ method, path, body }) => ({ method, path, body }))).toEqual([
      { method: 'POST', path, body: sent },
    ])
  })

  test('purge does not repeat its request, because a repeat could delete more jobs than its limit', async () => {
    api.failAlways('/purge', 'lost')
    await expect(emails().purge({ state: 'dead' })).rejects.toMatchObject({
      code: 'network',
      retryable: true,
    })
    expect(api.calls).toHaveLength(1)
  })
})
