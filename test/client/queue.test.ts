/** The verbs of a queue: what each sends and answers. */
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

const emails = () => new EchoMQ(clientOf(api, clock)).queue<unknown>('q')

/** Waits for something while time goes on. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let isDone = false
  const done = promise.finally(() => {
    isDone = true
  })
  done.catch(() => {})
  await clock.advanceUntil(() => isDone)
  return done
}

const claimOne = async () => {
  const [job] = await emails().claim()
  return job ?? expect.fail('no job')
}

describe('claim', () => {
  test('takes one job unless told otherwise', async () => {
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

  test('with options', async () => {
    await inTime(emails().claim({ limit: 7, leaseMs: 5_000, waitMs: 100 }))
    expect(api.to('/claim')[0]?.body).toMatchObject({ limit: 7, leaseMs: 5_000, waitMs: 100 })
  })

  test('an empty queue has none', async () => {
    expect(await emails().claim()).toEqual([])
  })

  test('a repeat after a lost answer bears the same name and costs no attempt', async () => {
    api.put(1)
    api.fail('/claim', 'lost')
    expect(await inTime(emails().claim())).toMatchObject([{ token: 1 }])
    const [first, second] = api.to('/claim').map(({ body }) => body.claimId)
    expect(second).toBe(first)
  })

  test('each claim has a name of its own', async () => {
    for (let n = 0; n < 100; n++) await emails().claim()
    expect(new Set(api.to('/claim').map(({ body }) => body.claimId)).size).toBe(100)
  })

  test('hands out what the schema makes, and buries what does not fit', async () => {
    const schema = z.object({ at: z.coerce.date() })
    const [bad = '', good = ''] = api.put({ at: 'never' }, { at: '2030-01-01T00:00:00Z' })
    const jobs = await new EchoMQ(clientOf(api, clock)).queue('q', { schema }).claim({ limit: 2 })
    expect(jobs.map(({ id, payload }) => [id, payload])).toEqual([
      [good, { at: new Date(Date.UTC(2030, 0, 1)) }],
    ])
    expect(api.jobs.get(bad)).toMatchObject({
      state: 'dead',
      lastError: 'EchoMQError: payload must fit its schema: at',
    })
  })

  test('a misfit that cannot be buried now is not handed out either', async () => {
    api.put('x', 1)
    api.failAlways('/fail', { status: 400, body: { code: 'invalid', detail: '' } })
    const jobs = await new EchoMQ(clientOf(api, clock)).queue('q', { schema: z.number() }).claim({ limit: 2 })
    expect(jobs.map(({ payload }) => payload)).toEqual([1])
  })

  test('a schema that throws has the job tried again, and the others are handed out', async () => {
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

  test('a queue of text asks for text, and the payload is that', async () => {
    const job = { id: 'JOB00000000000', queue: 'q', token: 1, text: '00123', enqueuedAt: '', leaseMs: 1 }
    api.fail('/claim', { status: 200, body: { jobs: [job] } })
    const [claimed] = await new EchoMQ(clientOf(api, clock)).queue<string>('q', { as: 'text' }).claim()
    expect(claimed?.payload).toBe('00123')
    expect(api.to('/claim')[0]?.body.as).toBe('text')
  })
})

describe('moves', () => {
  test('complete', async () => {
    api.put(1)
    const job = await claimOne()
    expect(await emails().complete(job)).toBe('completed')
    expect(api.to('/complete')[0]?.body).toEqual({ token: 1 })
    expect(await emails().complete(job)).toBe('gone')
  })

  test('complete of a job that somebody else has throws', async () => {
    const [id = ''] = api.put(1)
    const job = await claimOne()
    api.steal(id)
    const error = await emails()
      .complete(job)
      .catch((reason) => reason)
    expect(error).toBeInstanceOf(EchoMQError)
    expect(error).toMatchObject({ code: 'stale', reason: 'superseded', status: 409, retryable: false })
  })

  test('case 5: a repeated complete that answers gone is done', async () => {
    api.put(1)
    const job = await claimOne()
    api.fail('/complete', 'lost')
    expect(['completed', 'gone']).toContain(await inTime(emails().complete(job)))
    expect(api.to('/complete')).toHaveLength(2)
  })

  test('retry', async () => {
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
    '%s whose answer was lost and whose repeat answers released is a success',
    async (verb, state) => {
      const [id = ''] = api.put(1)
      const job = await claimOne()
      api.fail(`/${verb}`, 'lost')
      await inTime<unknown>(emails()[verb](job))
      expect(api.to(`/${verb}`).map(({ body }) => body)).toEqual([{ token: 1 }, { token: 1 }])
      expect(api.jobs.get(id)?.state).toBe(state)
    },
  )

  test.each(['retry', 'fail', 'release'] as const)(
    '%s of a token that was spent before throws',
    async (verb) => {
      api.put(1)
      const job = await claimOne()
      await emails().fail(job)
      await expect(emails()[verb](job)).rejects.toMatchObject({ code: 'stale', reason: 'released' })
      api.fail(`/${verb}`, { status: 429 })
      await expect(inTime<unknown>(emails()[verb](job))).rejects.toMatchObject({ code: 'stale' })
    },
  )

  test.each(['retry', 'fail', 'release', 'extend'] as const)(
    '%s of a job that is gone throws',
    async (verb) => {
      api.put(1)
      const job = await claimOne()
      await emails().complete(job)
      await expect(
        verb === 'extend' ? emails().extend(job, 1_000) : emails()[verb](job),
      ).rejects.toMatchObject({ code: 'gone' })
    },
  )

  test('fail and release', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    expect(await emails().fail(await claimOne(), { error: 'no' })).toBeUndefined()
    expect(await emails().release(await claimOne(), { delayMs: 5_000 })).toBeUndefined()
    expect(api.jobs.get(first)).toMatchObject({ state: 'dead', lastError: 'no' })
    expect(api.jobs.get(second)).toMatchObject({ state: 'scheduled', dueAt: 5_000 })
  })

  test('extend answers how long, and its repeat extends again', async () => {
    const [id = ''] = api.put(1)
    const job = await claimOne()
    api.fail('/extend', 'lost')
    expect(await inTime(emails().extend(job, 60_000))).toBe(60_000)
    expect(api.to('/extend')).toHaveLength(2)
    expect(api.jobs.get(id)?.leaseEndsAt).toBe(60_000)
  })

  test('extend after a lost answer is no success when the lease is lost', async () => {
    api.put(1)
    const job = await claimOne()
    api.fail('/extend', 'reset')
    await emails().release(job)
    await expect(inTime(emails().extend(job, 60_000))).rejects.toMatchObject({ code: 'stale' })
  })

  test('an error is text, cut to what the server keeps, and whole', async () => {
    api.put(1)
    await emails().retry(await claimOne(), { error: `${'x'.repeat(2_047)}\u{1f600}` })
    const { error } = api.to('/retry')[0]?.body ?? {}
    expect(error.length).toBeLessThanOrEqual(2_048)
    expect(error.isWellFormed()).toBe(true)
  })
})

describe('observing', () => {
  const view = (id: string) => ({ id, queue: 'q', state: 'dead', attempts: 1, enqueuedAt: '' })

  test('stats', async () => {
    api.fail('/q', { status: 200, body: { queue: 'q', counts: { pending: 1 } } })
    expect(await emails().stats()).toEqual({ queue: 'q', counts: { pending: 1 } })
    expect(api.calls[0]).toMatchObject({ method: 'GET', path: '/v1/queues/q' })
  })

  test('one job, or undefined', async () => {
    const id = 'JOB0KHTOWnGLuC'
    api.fail(id, { status: 200, body: view(id) })
    expect(await emails().job(id)).toEqual(view(id))
    expect(await emails().job(id)).toBeUndefined()
    api.fail(id, { status: 404, body: '<html>' })
    await expect(
      inTime(new EchoMQ({ ...clientOf(api, clock), retry: 0 }).queue('q').job(id)),
    ).rejects.toMatchObject({ code: 'network' })
  })

  test('jobs: page after page, as they are read', async () => {
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

  test('jobs: nothing is asked that is not read', async () => {
    api.failAlways('/jobs', { status: 200, body: { jobs: ['a'].map(view), cursor: 'more' } })
    for await (const _ of emails().jobs()) break
    expect(api.calls).toHaveLength(1)
  })

  test('reads are sent again', async () => {
    api.fail('/q', 'reset', { status: 503 }, { status: 200, body: { counts: {} } })
    expect(await inTime(emails().stats())).toEqual({ counts: {} })
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
  ] as const)('%s', async (_, act, path, sent, answer) => {
    api.fail(path, { status: 200, body: answer })
    expect(await act(emails())).toEqual(answer)
    expect(api.calls).toMatchObject([{ method: 'POST', path, body: sent }])
  })
})
