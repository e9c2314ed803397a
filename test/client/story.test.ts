/** The client against the real API on a real Redis, with faults between them. */
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import {
  type ConsumeOptions,
  deadLetter,
  EchoMQ,
  EchoMQError,
  type EchoMQOptions,
  type Handler,
  type Job,
  type JobView,
  retryIn,
} from '../../src/client/index.ts'
import { EMQ_TOKENS, freshQueue, TOKENS } from '../support/api.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

type Fetch = NonNullable<EchoMQOptions['fetch']>

/** A client with its own API. `between` sees each request before the API does. */
function connect(
  between: (call: () => Promise<Response>, path: string) => Promise<Response> = (call) => call(),
) {
  const app = createApp({
    env: { UPSTASH_REDIS_REST_URL: shared.bridge.url, UPSTASH_REDIS_REST_TOKEN: REST_TOKEN, EMQ_TOKENS },
  })
  const fetch: Fetch = (url, init) => between(async () => app.request(url, init), new URL(url).pathname)
  return new EchoMQ({ url: 'http://api', token: TOKENS.operator, fetch })
}

/** Loses the responses to the first requests whose path has this end. */
function losing(end: string, times: number) {
  return async (call: () => Promise<Response>, path: string) => {
    const answer = await call()
    if (!path.endsWith(end) || times-- <= 0) return answer
    throw new TypeError('connection reset')
  }
}

async function isClean(queue: string) {
  return expect(await census(raw.port, queue)).toEqual([])
}
async function countsOf(queue: string) {
  return (await connect().queue(queue).stats()).counts
}
const EMPTY = { pending: 0, active: 0, scheduled: 0, dead: 0 }

describe('verbs', () => {
  test('a job is enqueued, claimed and completed', async () => {
    const name = freshQueue()
    const emails = connect().queue<{ to: string }>(name)
    const { id, status } = await emails.enqueue({ to: 'a@example.com' })
    expect(status).toBe('enqueued')
    const [job, ...others] = await emails.claim({ limit: 5, leaseMs: 30_000 })
    expect(others).toEqual([])
    expect(job).toMatchObject({
      id,
      queue: name,
      token: 1,
      payload: { to: 'a@example.com' },
      leaseMs: 30_000,
    })
    expect(await emails.complete(job as Job)).toBe('completed')
    expect(await emails.complete(job as Job)).toBe('gone')
    expect(await countsOf(name)).toEqual(EMPTY)
    await isClean(name)
  })

  test('the API accepts every option of enqueue', async () => {
    const emails = connect().queue(freshQueue())
    const startBy = new Date(Date.now() + 3_600_000)
    const key = { idempotencyKey: 'k-1', idempotencyTtlMs: 60_000 }
    const first = await emails.enqueue(1, { ...key, startBy, maxAttempts: 7, delayMs: 60_000 })
    expect(first.status).toBe('scheduled')
    expect(await emails.enqueue(2, key)).toEqual({ id: first.id, status: 'duplicate' })
    expect(await emails.job(first.id)).toMatchObject({
      state: 'scheduled',
      payload: 1,
      maxAttempts: 7,
      startBy: startBy.toISOString(),
    })
    expect((await emails.enqueue(3, { runAt: new Date(Date.now() + 60_000) })).status).toBe('scheduled')
    const id = 'JOB0KHTOWnGLuC'
    expect(await emails.enqueue(4, { id })).toEqual({ id, status: 'enqueued' })
    expect(await emails.enqueue(5, { id })).toEqual({ id, status: 'duplicate' })
  })

  test('enqueueMany enqueues more jobs than one request takes, and reports a bad one', async () => {
    const name = freshQueue()
    const items = Array.from({ length: 1_500 }, (_, n) => ({ payload: n, ...(n === 3 && { delayMs: -1 }) }))
    const results = await connect().queue(name).enqueueMany(items)
    expect(results).toHaveLength(1_500)
    expect(results[3]).toMatchObject({ error: { code: 'invalid' } })
    expect(results.filter((result) => 'status' in result && result.status === 'enqueued')).toHaveLength(1_499)
    expect((await countsOf(name)).pending).toBe(1_499)
    await isClean(name)
  })

  test('retry, fail, release and extend change the job as documented', async () => {
    const name = freshQueue()
    const emails = connect().queue(name)
    await emails.enqueueMany([1, 2, 3, 4].map((payload) => ({ payload })))
    const [a, b, c, d] = (await emails.claim({ limit: 4 })) as [Job, Job, Job, Job]
    expect(await emails.retry(a, { error: new Error('busy'), delayMs: 60_000 })).toBe('scheduled')
    await emails.fail(b, { error: 'no such address' })
    await emails.release(c)
    expect(await emails.extend(d, 45_000)).toBe(45_000)
    expect(await emails.job(a.id)).toMatchObject({ state: 'scheduled', lastError: 'Error: busy' })
    expect(await emails.job(b.id)).toMatchObject({ state: 'dead', lastError: 'no such address' })
    expect(await countsOf(name)).toEqual({ pending: 1, active: 1, scheduled: 1, dead: 1 })
    expect(await emails.retry(d, { maxAttempts: 1 })).toBe('dead')
    const error = await emails.complete(d).catch((reason) => reason)
    expect(error).toBeInstanceOf(EchoMQError)
    expect(error).toMatchObject({ code: 'stale', reason: 'released', requestId: expect.any(String) })
    await isClean(name)
  })

  test('jobs, job, redrive, pause and resume agree with the API', async () => {
    const name = freshQueue()
    const emails = connect().queue<number>(name)
    await emails.enqueueMany([1, 2, 3, 4, 5].map((payload) => ({ payload })))
    const seen: JobView<number>[] = []
    for await (const view of emails.jobs({ order: 'oldest', limit: 2, payload: true, from: new Date(0) }))
      seen.push(view)
    expect(seen.map(({ payload }) => payload)).toEqual([1, 2, 3, 4, 5])
    expect(await emails.job('JOB0KHTOWnGLuC')).toBeUndefined()

    for (const job of await emails.claim({ limit: 2 })) await emails.fail(job, { error: 'timeout' })
    const [first = ''] = seen.map(({ id }) => id)
    expect(await emails.redrive(first)).toEqual({ id: first, status: 'pending' })
    await expect(emails.redrive(first)).rejects.toMatchObject({ code: 'wrong_state', state: 'pending' })
    expect(await emails.redriveMany({ errorContains: 'timeout', limit: 10 })).toMatchObject({
      redriven: 1,
      more: false,
    })

    expect(await emails.pause()).toEqual({ paused: true })
    expect(await emails.claim()).toEqual([])
    expect(await emails.resume()).toEqual({ paused: false })
    expect(await emails.claim({ limit: 9 })).toHaveLength(5)
    await isClean(name)
  })

  test('a text queue returns the enqueued text', async () => {
    const texts = connect().queue<string>(freshQueue(), { as: 'text' })
    const all = ['123', '00123', 'true', 'null', '{"a":1}', ' 1', 'plain', '']
    await texts.enqueueMany(all.map((payload) => ({ payload })))
    expect((await texts.claim({ limit: 10 })).map(({ payload }) => payload)).toEqual(all)
  })
})

describe('faults', () => {
  test('case 1: a lost reply of Redis leaves one job, with the returned id', async () => {
    const name = freshQueue()
    const emails = connect().queue(name)
    await emails.enqueue('before')
    shared.bridge.dropReply()
    const { id, status } = await emails.enqueue('a')
    expect(status).toBe('enqueued')
    expect(await emails.job(id)).toMatchObject({ payload: 'a', state: 'pending' })
    expect((await countsOf(name)).pending).toBe(2)
    await isClean(name)
  })

  test('case 5: complete returns gone when its response is lost twice', async () => {
    const name = freshQueue()
    const emails = connect(losing('/complete', 2)).queue(name)
    await emails.enqueue(1)
    const [job] = await emails.claim()
    expect(await emails.complete(job as Job)).toBe('gone')
    expect(await countsOf(name)).toEqual(EMPTY)
  })

  test('a claim whose response is lost uses no attempt', async () => {
    const name = freshQueue()
    const emails = connect(losing('/claim', 2)).queue(name)
    await emails.enqueue(1)
    expect(await emails.claim()).toMatchObject([{ token: 1 }])
    await isClean(name)
  })

  test.each([
    ['retry', 'scheduled'],
    ['fail', 'dead'],
    ['release', 'pending'],
  ] as const)('%s moves the job once when its response is lost', async (verb, state) => {
    const name = freshQueue()
    const emails = connect(losing(`/${verb}`, 1)).queue(name)
    await emails.enqueue(1)
    const [job] = await emails.claim()
    await (verb === 'retry' ? emails.retry(job as Job, { delayMs: 60_000 }) : emails[verb](job as Job))
    expect(await countsOf(name)).toEqual({ ...EMPTY, [state]: 1 })
    await isClean(name)
  })
})

describe('a consumer', () => {
  /** Consumes until a check holds, then stops. Returns the names of the events. */
  async function consume(
    emq: EchoMQ,
    name: string,
    handler: Handler<unknown>,
    options: ConsumeOptions,
    check: (told: string[]) => boolean,
  ) {
    const told: string[] = []
    const consumer = emq.queue(name).consume(handler, options)
    for (const event of ['completed', 'retried', 'dead', 'leaseLost'] as const)
      consumer.on(event, () => told.push(event))
    consumer.on('error', () => {})
    await until(async () => check(told), 15_000)
    await consumer.stop()
    return told
  }

  test('a consumer works a queue until it is empty, whatever its handlers throw', async () => {
    const name = freshQueue()
    const emq = connect()
    await emq.queue(name).enqueueMany(Array.from({ length: 60 }, (_, n) => ({ payload: n })))
    const attempts = new Map<unknown, number>()
    const told = await consume(
      emq,
      name,
      async ({ payload, token }) => {
        attempts.set(payload, token)
        if (payload === 7) throw deadLetter('seven')
        if (Number(payload) % 20 === 0 && token === 1) throw retryIn(0, new Error('first time'))
      },
      { concurrency: 8, leaseMs: 5_000 },
      (seen) => seen.filter((event) => event === 'completed').length === 59 && seen.includes('dead'),
    )
    expect(told.filter((event) => event === 'retried')).toHaveLength(3)
    expect([attempts.get(0), attempts.get(1)]).toEqual([2, 1])
    expect(await countsOf(name)).toEqual({ ...EMPTY, dead: 1 })
    await isClean(name)
  })

  test('a consumer keeps a job far longer than its first lease', async () => {
    const name = freshQueue()
    const emq = connect()
    await emq.queue(name).enqueue(1)
    let end = (): void => {}
    let starts = 0
    const done = consume(
      emq,
      name,
      () => {
        starts++
        return new Promise<void>((resolve) => {
          end = resolve
        })
      },
      { concurrency: 2, leaseMs: 300, waitMs: 0 },
      (seen) => seen.length > 0,
    )
    const row = () => emq.queue(name).jobs({ state: 'active' }).next()
    const firstEnd = await until(async () => (await row()).value?.leaseUntil, 15_000)
    // Four leases later, by the server's own time.
    await until(
      async () => Date.parse((await row()).value?.leaseUntil ?? firstEnd) - Date.parse(firstEnd) > 1_200,
      15_000,
    )
    end()
    expect(await done).toEqual(['completed'])
    expect(starts).toBe(1)
  })

  test('case 54: no handler runs twice when the responses to complete are lost', async () => {
    const name = freshQueue()
    await connect()
      .queue(name)
      .enqueueMany(Array.from({ length: 10 }, (_, n) => ({ payload: n })))
    const ran: unknown[] = []
    const told = await consume(
      connect(losing('/complete', 6)),
      name,
      async ({ payload }) => {
        ran.push(payload)
      },
      { concurrency: 3, leaseMs: 10_000 },
      (seen) => seen.length === 10,
    )
    expect(told).toEqual(Array(10).fill('completed'))
    expect(ran.toSorted()).toEqual([...Array(10).keys()])
    expect(await countsOf(name)).toEqual(EMPTY)
    await isClean(name)
  })

  test('stopping one of two consumers loses no job and keeps none', async () => {
    const name = freshQueue()
    const emq = connect()
    await emq.queue(name).enqueueMany(Array.from({ length: 200 }, (_, n) => ({ payload: n })))
    const ran: unknown[] = []
    const handler: Handler<unknown> = async ({ payload }) => {
      ran.push(payload)
      await new Promise((resolve) => setImmediate(resolve))
    }
    const first = emq.queue(name).consume(handler, { concurrency: 5, batch: 20 })
    const second = emq.queue(name).consume(handler, { concurrency: 5 })
    await until(async () => ran.length > 40, 15_000)
    await first.stop()
    await until(async () => (await countsOf(name)).pending + (await countsOf(name)).active === 0, 15_000)
    await second.stop()
    expect(new Set(ran).size).toBe(200)
    expect(ran).toHaveLength(200)
    await isClean(name)
  })

  test('a consumer that is stopped while it waits leaves no job behind', async () => {
    const name = freshQueue()
    const emq = connect()
    for (let round = 0; round < 20; round++) {
      const consumer = emq.queue(name).consume(async () => {}, { concurrency: 1 })
      const stopped = consumer.stop()
      await Promise.all([emq.queue(name).enqueue(round), stopped])
    }
    expect((await countsOf(name)).active).toBe(0)
    await isClean(name)
  })
})

test('drain works a queue until it is empty', async () => {
  const name = freshQueue()
  const emails = connect().queue<number>(name)
  await emails.enqueueMany(Array.from({ length: 30 }, (_, n) => ({ payload: n })))
  const result = await emails.drain(
    async ({ payload }) => {
      if (payload === 3) throw retryIn(60_000)
    },
    { concurrency: 4, batch: 10 },
  )
  expect(result).toEqual({ done: 29, failed: 1, released: 0 })
  await isClean(name)
})

test('drain works a job behind thousands of ghosts', async () => {
  const name = freshQueue()
  const queue = connect().queue(name)
  const ids = Array.from({ length: 2_500 }, (_, n) => `JOB${String(n).padStart(11, '0')}`)
  await raw.run('ZADD', `emq:{${name}}:pending`, ...ids.flatMap((id) => [0, id]))
  await queue.enqueue(1)
  expect(await queue.drain(async () => {}, { deadlineMs: 10_000 })).toEqual({
    done: 1,
    failed: 0,
    released: 0,
  })
  await isClean(name)
})
