/** The loop: acknowledgement, concurrency and the buffer, empty queues, errors, events. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import * as z from 'zod'
import {
  type ConsumeOptions,
  deadLetter,
  EchoMQ,
  EchoMQError,
  type Handler,
  retryIn,
  type StandardSchema,
} from '../../src/client/index.ts'
import { createWork, ownConsumers } from './support/consuming.ts'
import { clientOf, createFakeApi, type FakeApi } from './support/fake-api.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let api: FakeApi

beforeEach(() => {
  clock = createFakeClock()
  api = createFakeApi(clock)
})

const { consume, own } = ownConsumers(() => ({ api, clock }))

function moves() {
  return api.calls.map(({ path }) => path.split('/').at(-1)).filter((end) => end !== 'claim')
}

describe('acknowledgement', () => {
  test('a handler that returns completes its job', async () => {
    const [id = ''] = api.put({ n: 1 })
    const { seen } = consume(async () => 'ignored')
    await clock.settle()
    expect(moves()).toEqual(['complete'])
    expect(api.to('/complete')[0]?.body).toEqual({ token: 1 })
    expect(api.jobs.has(id)).toBe(false)
    expect(seen[0]).toMatchObject({
      name: 'completed',
      event: { status: 'completed', job: { id, payload: { n: 1 } } },
    })
  })

  test("a handler that throws has its job retried, with the error's text and the queue's backoff", async () => {
    const [id = ''] = api.put(1)
    const error = new RangeError('too far')
    const { seen } = consume(async () => {
      throw error
    })
    await clock.settle()
    expect(api.to('/retry').map(({ body }) => body)).toEqual([{ token: 1, error: 'RangeError: too far' }])
    expect(seen[0]).toEqual({
      name: 'retried',
      event: { job: expect.objectContaining({ id }), error, delayMs: 1_000 },
      at: 0,
    })
  })

  test('a handler that throws synchronously has its job retried too', async () => {
    api.put(1)
    consume(() => {
      throw new Error('at once')
    })
    await clock.settle()
    expect(api.to('/retry')[0]?.body.error).toBe('Error: at once')
  })

  test('retryIn has the job retried after exactly its delay', async () => {
    api.put(1)
    const cause = new Error('busy')
    const { seen } = consume(async () => {
      throw retryIn(90_000, cause)
    })
    await clock.settle()
    expect(api.to('/retry')[0]?.body).toEqual({ token: 1, error: 'Error: busy', delayMs: 90_000 })
    expect(seen[0]?.event['delayMs']).toBe(90_000)
  })

  test('deadLetter moves the job to the dead letters', async () => {
    const [id = ''] = api.put(1)
    const { seen } = consume(async () => {
      throw deadLetter('no such address')
    })
    await clock.settle()
    expect(api.to('/fail')[0]?.body).toEqual({ token: 1, error: 'no such address' })
    expect(api.jobs.get(id)?.state).toBe('dead')
    expect(seen[0]?.name).toBe('dead')
  })

  test('a retry that the server answers with `dead` emits the event `dead`', async () => {
    api.put(1)
    api.fail('/retry', { status: 200, body: { id: 'x', status: 'dead' } })
    const { names } = consume(async () => {
      throw new Error('again')
    })
    await clock.settle()
    expect(names()).toEqual(['dead'])
  })

  test('a lease that the heartbeat finds lost aborts the signal, emits leaseLost once and reports nothing', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { names, seen } = consume(work.handler)
    await clock.settle()
    api.steal(id)
    await clock.advance(10_000)
    expect(work.signal(id).aborted).toBe(true)
    expect(work.signal(id).reason).toMatchObject({ code: 'stale' })
    work.end(id)
    await clock.advance(60_000)
    expect(names()).toEqual(['leaseLost'])
    expect(seen[0]?.event['job']).toMatchObject({ id, token: 1 })
    expect(moves().filter((move) => move !== 'settle')).toEqual([])
  })

  test('a lapsed lease aborts the signal at its end, emits leaseLost once and reports nothing', async () => {
    const [id = ''] = api.put(1)
    api.failAlways('/settle', 'reset')
    const work = createWork()
    const { names } = consume(work.handler)
    await clock.advance(29_999)
    expect(work.signal(id).aborted).toBe(false)
    await clock.advance(1)
    expect(work.signal(id).aborted).toBe(true)
    work.throw(id, new Error('aborted'))
    await clock.settle()
    expect(names().filter((name) => name !== 'error')).toEqual(['leaseLost'])
    expect(moves().filter((move) => move !== 'settle')).toEqual([])
  })

  test('a lease that lapsed while the machine was busy is not reported', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { names } = consume(work.handler)
    await clock.settle()
    clock.freeze(30_000)
    work.end(id)
    await clock.settle()
    expect(names()).toEqual(['leaseLost'])
    expect(moves()).not.toContain('complete')
  })
})

describe('a schema', () => {
  const consumeWith = (schema: StandardSchema<unknown, unknown>, handler: Handler<unknown>) => {
    const consumer = own(new EchoMQ(clientOf(api, clock)).queue('q', { schema }).consume(handler))
    const dead = vi.fn()
    const retried = vi.fn()
    const completed = vi.fn()
    consumer.on('dead', dead)
    consumer.on('retried', retried)
    consumer.on('completed', completed)
    return { dead, retried, completed }
  }

  test('handlers and listeners get the payload that the schema returned', async () => {
    api.put('2030-01-01T00:00:00Z')
    const handler = vi.fn()
    const { completed } = consumeWith(z.coerce.date(), handler)
    await clock.settle()
    const payload = new Date(Date.UTC(2030, 0, 1))
    expect(handler.mock.calls[0]?.[0]).toMatchObject({ token: 1, payload })
    expect(completed.mock.calls[0]?.[0].job.payload).toEqual(payload)
  })

  test('a payload that does not match goes to the dead letters with the wrong paths, and no handler runs', async () => {
    const [id = ''] = api.put({ to: 'SECRET' })
    const handler = vi.fn()
    const { dead } = consumeWith(z.object({ to: z.email(), at: z.number() }), handler)
    await clock.settle()
    expect(handler).not.toHaveBeenCalled()
    expect(api.jobs.get(id)).toMatchObject({
      state: 'dead',
      lastError: 'EchoMQError: payload must match its schema: to,at',
    })
    expect(dead.mock.calls[0]?.[0]).toMatchObject({ job: { id }, error: { cause: { code: 'invalid' } } })
    expect(moves()).toEqual(['fail'])
  })

  test('a schema that throws has the job retried', async () => {
    api.put(1)
    const validate = () => {
      throw new Error('database away')
    }
    const { retried } = consumeWith({ '~standard': { version: 1, vendor: 'test', validate } }, vi.fn())
    await clock.settle()
    expect(api.to('/retry')[0]?.body.error).toBe('Error: database away')
    expect(retried).toHaveBeenCalledTimes(1)
  })

  test('no handler runs when the lease is lost while the schema checks the payload', async () => {
    const [id = ''] = api.put(1)
    let end = (): void => {}
    const validate = (value: unknown) =>
      new Promise<{ value: unknown }>((resolve) => {
        end = () => resolve({ value })
      })
    const handler = vi.fn()
    consumeWith({ '~standard': { version: 1, vendor: 'test', validate } }, handler)
    await clock.settle()
    api.steal(id)
    await clock.advance(10_000)
    end()
    await clock.settle()
    expect(handler).not.toHaveBeenCalled()
    expect(moves()).toEqual(['settle'])
  })

  test('a handler that enqueues an invalid payload elsewhere has its own job retried', async () => {
    const [id = ''] = api.put(1)
    const others = new EchoMQ(clientOf(api, clock)).queue('others', { schema: z.string() })
    consumeWith(z.number(), async () => {
      await others.enqueue(7 as unknown as string)
    })
    await clock.settle()
    expect(api.jobs.get(id)?.state).toBe('scheduled')
  })
})

describe('thrown values', () => {
  const cyclic: Record<string, unknown> = {}
  cyclic['self'] = cyclic
  test.each([
    ['undefined', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a string', 'plain', 'plain'],
    ['a number', 7, '7'],
    ['a cyclic object', cyclic, 'unreadable error'],
    ['an object', { code: 7 }, '{"code":7}'],
  ])('case 55: a handler that throws %s has its job retried once, at once', async (_, thrown, text) => {
    api.put(1)
    const { names } = consume(
      async () => {
        throw thrown
      },
      { leaseMs: 600_000 },
    )
    await clock.settle()
    expect(clock.now()).toBe(0)
    expect(api.to('/retry').map(({ body }) => body)).toEqual([{ token: 1, error: text }])
    expect(names()).toEqual(['retried'])
  })
})

test('forty waiting reports cause no warning about a leak of listeners', async () => {
  const warned = vi.fn()
  process.on('warning', warned)
  api.put(...Array(40).keys())
  api.failAlways('/complete', { status: 503, headers: { 'retry-after': '60' } })
  const { consumer } = consume(vi.fn(), { concurrency: 40 })
  await clock.settle()
  expect(api.to('/complete')).toHaveLength(40)
  const stopped = consumer.stop({ timeoutMs: 1_000 })
  await clock.advance(1_000)
  await stopped
  expect(clock.timers).toBe(0)
  process.off('warning', warned)
  expect(warned).not.toHaveBeenCalled()
})

describe('reports whose response is lost', () => {
  test('case 54: complete is repeated with the same token, never becomes a retry, and the handler runs once', async () => {
    api.put(1)
    api.fail('/complete', 'reset', 'reset')
    const handler = vi.fn()
    const { names } = consume(handler)
    await clock.advance(5_000)
    expect(api.to('/complete').map(({ body }) => body)).toEqual([{ token: 1 }, { token: 1 }, { token: 1 }])
    expect(moves()).toEqual(['complete', 'complete', 'complete'])
    expect(handler).toHaveBeenCalledTimes(1)
    expect(names()).toEqual(['completed'])
  })

  test('case 5: a complete that was carried out counts as completed when its repeat is answered with gone', async () => {
    api.put(1)
    api.fail('/complete', 'lost')
    const handler = vi.fn()
    const { names } = consume(handler)
    await clock.advance(5_000)
    expect(moves()).toEqual(['complete', 'complete'])
    expect(names()).toEqual(['completed'])
    expect(handler).toHaveBeenCalledTimes(1)
  })

  test('the lease of a job is renewed while its complete fails, so no other consumer claims the job', async () => {
    api.put(1)
    api.fail('/complete', ...Array.from({ length: 7 }, () => 'reset' as const))
    const handler = vi.fn()
    const { names } = consume(handler, { leaseMs: 3_000 })
    await clock.advance(60_000)
    expect(api.to('/complete').at(-1)?.at).toBe(30_750)
    expect(handler).toHaveBeenCalledTimes(1)
    expect(names()).toEqual(['completed'])
  })

  test('a complete that is never answered ends some time after the lease with an error event that names the job', async () => {
    const [id = ''] = api.put(1)
    api.failAlways('/complete', { status: 503 })
    const { consumer, seen } = consume(vi.fn())
    await clock.advanceUntil(() => seen.some(({ name }) => name === 'error'))
    expect(seen.find(({ name }) => name === 'error')?.event).toMatchObject({
      error: { code: 'upstream' },
      job: { id },
    })
    expect(clock.now()).toBe(60_750)
    expect(consumer.running).toBe(true)
    expect(new Set(moves())).toEqual(new Set(['complete', 'settle']))
  })

  test('a complete that succeeds after its lease emits only completed', async () => {
    api.put(1)
    const work = createWork()
    const { names } = consume(work.handler, { leaseMs: 3_000 })
    await clock.settle()
    const [id = ''] = work.started
    for (const end of ['/complete', '/settle', '/claim']) api.failAlways(end, 'reset')
    work.end(id)
    await clock.advance(6_000)
    api.failAlways('/complete')
    await clock.advance(30_000)
    expect(names().filter((name) => name !== 'error')).toEqual(['completed'])
    expect(api.jobs.has(id)).toBe(false)
  })

  test('a complete that is rejected as stale emits leaseLost', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { names } = consume(work.handler)
    await clock.settle()
    api.steal(id)
    work.end(id)
    await clock.settle()
    expect(names()).toEqual(['leaseLost'])
  })

  test('a complete that is rejected for another reason emits error, and the loop continues', async () => {
    const [id = ''] = api.put(1)
    api.fail('/complete', { status: 400, body: { code: 'invalid', detail: 'no' } })
    const { seen } = consume(vi.fn())
    await clock.settle()
    expect(seen[0]).toMatchObject({ name: 'error', event: { error: { code: 'invalid' }, job: { id } } })
    api.put(2)
    await clock.advance(30_000)
    expect(seen.map(({ name }) => name)).toContain('completed')
  })

  test('a retry that was carried out counts as retried when its repeat is rejected as released', async () => {
    const [id = ''] = api.put(1)
    api.fail('/retry', 'lost')
    const { seen } = consume(async () => {
      throw retryIn(600_000)
    })
    await clock.advance(5_000)
    expect(api.to('/retry')).toHaveLength(2)
    expect(seen[0]).toMatchObject({ name: 'retried', event: { job: { id } } })
    expect(api.jobs.get(id)?.state).toBe('scheduled')
  })

  test('a retry that is rejected as released without a lost response emits leaseLost', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { names } = consume(work.handler)
    await clock.settle()
    const row = api.jobs.get(id)
    if (row) row.state = 'dead'
    work.throw(id, new Error('late'))
    await clock.settle()
    expect(names()).toEqual(['leaseLost'])
  })
})

test('case 52: the failure of one job affects no other job of its batch', async () => {
  const [first = '', second = '', third = ''] = api.put(1, 2, 3)
  api.fail(`${first}/complete`, { status: 409, body: { code: 'stale', reason: 'superseded', detail: '' } })
  const ran: string[] = []
  const { seen } = consume(
    async ({ id }) => {
      ran.push(id)
      if (id === second) throw new Error('second')
    },
    { batch: 3 },
  )
  await clock.settle()
  expect(api.to('/claim')[0]?.body.limit).toBe(3)
  expect(ran).toEqual([first, second, third])
  expect(moves()).toEqual(['complete', 'retry', 'complete'])
  expect(seen.map(({ name }) => name).slice(0, 3)).toEqual(['leaseLost', 'retried', 'completed'])
  expect(api.jobs.has(third)).toBe(false)
  expect(api.jobs.get(second)?.state).toBe('scheduled')
})

describe('concurrency', () => {
  test('the loop runs at most `concurrency` handlers and claims no more jobs than fit', async () => {
    const ids = api.put(1, 2, 3, 4, 5)
    const work = createWork()
    consume(work.handler, { concurrency: 2 })
    await clock.settle()
    expect(work.started).toEqual(ids.slice(0, 2))
    expect(api.to('/claim').map(({ body }) => body.limit)).toEqual([2])
    work.end(ids[0] ?? '')
    await clock.settle()
    expect(work.started).toEqual(ids.slice(0, 3))
    expect(api.to('/claim').map(({ body }) => body.limit)).toEqual([2, 1])
  })

  test('a claim asks for at most 100 jobs', async () => {
    consume(vi.fn(), { concurrency: 250 })
    await clock.settle()
    expect(api.to('/claim')[0]?.body.limit).toBe(100)
  })

  test('jobs without a free handler are buffered, and the next claim is sent when a handler is free', async () => {
    const ids = api.put(1, 2, 3, 4)
    const work = createWork()
    consume(work.handler, { concurrency: 1, batch: 3 })
    await clock.settle()
    expect(work.started).toEqual([ids[0]])
    for (const [nth, id] of ids.slice(0, 2).entries()) {
      work.end(id)
      await clock.settle()
      expect(work.started).toHaveLength(nth + 2)
      expect(api.to('/claim')).toHaveLength(1)
    }
    work.end(ids[2] ?? '')
    await clock.settle()
    expect(api.to('/claim')).toHaveLength(2)
  })

  test('the heartbeat keeps a buffered job, which runs long after its first lease', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const work = createWork()
    const { names } = consume(work.handler, { batch: 2, leaseMs: 1_000 })
    await clock.advance(20_000)
    expect(api.to('/settle')[0]?.body.items.map(({ id }: { id: string }) => id)).toEqual([first, second])
    work.end(first)
    await clock.settle()
    expect(work.started).toEqual([first, second])
    work.end(second)
    await clock.settle()
    expect(names()).toEqual(['completed', 'completed'])
  })

  test('a buffered job whose lease is lost does not run', async () => {
    const [first = '', second = '', third = ''] = api.put(1, 2, 3)
    const work = createWork()
    const { names } = consume(work.handler, { batch: 3 })
    await clock.settle()
    api.steal(second)
    await clock.advance(10_000)
    expect(names()).toEqual(['leaseLost'])
    work.end(first)
    await clock.settle()
    expect(work.started).toEqual([first, third])
  })

  test('a buffered job whose lease lapsed unnoticed does not run', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const work = createWork()
    const { names } = consume(work.handler, { batch: 2 })
    await clock.settle()
    api.failAlways('/claim', 'silent')
    clock.freeze(30_000)
    work.end(first)
    await clock.advance(1)
    expect(work.started).not.toContain(second)
    expect(names()).toEqual(['leaseLost', 'leaseLost'])
  })

  test('a handler that lost its lease still counts towards `concurrency`', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const work = createWork()
    consume(work.handler)
    await clock.settle()
    api.steal(first)
    await clock.advance(10_000)
    expect(work.signal(first).aborted).toBe(true)
    expect(work.started).toEqual([first])
    work.end(first)
    await clock.advance(1_000)
    expect(work.started).toEqual([first, second])
  })

  test.each([
    [{ concurrency: 0 }, 'concurrency must be an integer from 1 to 1000'],
    [{ concurrency: Number.NaN }, 'concurrency must be an integer from 1 to 1000'],
    [{ concurrency: 1001 }, 'concurrency must be an integer from 1 to 1000'],
    [{ concurrency: 1.5 }, 'concurrency must be an integer from 1 to 1000'],
    [{ concurrency: '2' }, 'concurrency must be an integer from 1 to 1000'],
    [{ batch: 0 }, 'batch must be an integer from 1 to 100'],
    [{ batch: 101 }, 'batch must be an integer from 1 to 100'],
    [{ batch: 2.5 }, 'batch must be an integer from 1 to 100'],
    [{ leaseMs: 9 }, 'leaseMs must be an integer from 10 to 86400000'],
    [{ leaseMs: 86_400_001 }, 'leaseMs must be an integer from 10 to 86400000'],
    [{ leaseMs: Number.POSITIVE_INFINITY }, 'leaseMs must be an integer from 10 to 86400000'],
    [{ waitMs: -1 }, 'waitMs must be an integer from 0 to 60000'],
    [{ waitMs: 60_001 }, 'waitMs must be an integer from 0 to 60000'],
  ])('consume rejects the options %o and names the rule', (options, message) => {
    const refused = expect.objectContaining({ code: 'invalid', message })
    expect(() => consume(vi.fn(), options as ConsumeOptions)).toThrow(refused)
    expect(api.calls).toEqual([])
  })

  test.each([
    { concurrency: 1, batch: 1, leaseMs: 10, waitMs: 0 },
    { concurrency: 1000, batch: 100, leaseMs: 86_400_000, waitMs: 60_000 },
    { concurrency: undefined, batch: undefined, leaseMs: undefined, waitMs: undefined },
  ])('consume accepts the options %o', async (options) => {
    consume(vi.fn(), options)
    await clock.settle()
    expect(api.to('/claim')).toHaveLength(1)
  })
})

describe('claims', () => {
  test('a repeated claim has the same claimId, so a lost response uses no attempt', async () => {
    const [id = ''] = api.put(1)
    api.fail('/claim', 'lost', { status: 503 })
    const tokens: number[] = []
    consume(async ({ token }) => {
      tokens.push(token)
    })
    await clock.advance(5_000)
    const [first, second, third, fourth] = api.to('/claim').map(({ body }) => body.claimId)
    expect([second, third]).toEqual([first, first])
    expect(fourth).not.toBe(first)
    expect(first).toMatch(/^[A-Za-z0-9._:-]{1,128}$/)
    expect(tokens).toEqual([1])
    expect(api.jobs.has(id)).toBe(false)
  })

  test('a claim sends leaseMs only when the option is set', async () => {
    consume(vi.fn())
    consume(vi.fn(), { leaseMs: 5_000 })
    await clock.settle()
    expect(api.to('/claim').map(({ body }) => body.leaseMs)).toEqual([undefined, 5_000])
  })

  test('a claim waits for at most two thirds of a lease', async () => {
    consume(vi.fn())
    consume(vi.fn(), { leaseMs: 60_000 })
    consume(vi.fn(), { leaseMs: 1_000, waitMs: 700 })
    consume(vi.fn(), { waitMs: 0 })
    await clock.settle()
    expect(api.to('/claim').map(({ body }) => body.waitMs)).toEqual([20_000, 20_000, 666, 0])
  })

  test('a job that is enqueued during the wait runs at once', async () => {
    const handler = vi.fn()
    consume(handler, { leaseMs: 60_000 })
    await clock.advance(7_000)
    api.put(1)
    await clock.settle()
    expect(handler).toHaveBeenCalledTimes(1)
    expect(api.to('/claim')[0]?.at).toBe(0)
  })

  test.each([
    ['none', 0, [0, 4_000, 8_000]],
    ['a short one', 1_000, [0, 4_000, 8_000]],
    ['one longer than that', 5_000, [0, 5_000, 10_000]],
  ])(
    "an empty queue is claimed again after the server's hint, counted from the claim, with %s",
    async (_, waitMs, times) => {
      api = createFakeApi(clock, 4_000)
      consume(vi.fn(), { waitMs })
      await clock.advance(11_500)
      expect(api.to('/claim').map(({ at }) => at)).toEqual(times)
    },
  )

  test('an empty claim without a hint is repeated once per second', async () => {
    api.failAlways('/claim', { status: 200, body: { jobs: [] } })
    consume(vi.fn())
    await clock.advance(10_000)
    expect(api.to('/claim').map(({ at }) => at)).toEqual(Array.from({ length: 11 }, (_, n) => n * 1_000))
  })

  test('a claim that returns more and no job is repeated at once', async () => {
    api.fail('/claim', { status: 200, body: { jobs: [], more: true } })
    const { seen } = consume(vi.fn(), { waitMs: 0 })
    await clock.settle()
    expect(api.to('/claim').map(({ at }) => at)).toEqual([0, 0])
    expect(seen.map(({ name }) => name)).toEqual(['idle'])
  })

  test('idle is emitted when a claim returned nothing and no handler runs', async () => {
    const [id = ''] = api.put(1)
    const work = createWork()
    const { seen } = consume(work.handler, { concurrency: 2, waitMs: 0 })
    await clock.advance(3_000)
    expect(seen).toEqual([])
    work.end(id)
    await clock.advance(1_000)
    expect(seen.map(({ name }) => name)).toEqual(['completed', 'idle'])
  })
})

describe('errors', () => {
  test.each([
    ['a 500', { status: 500 }],
    ['a reset', 'reset'],
    ['a page of HTML', { status: 200, body: '<html>', headers: { 'content-type': 'text/html' } }],
    ['a 429', { status: 429, headers: { 'retry-after': '1' } }],
    ['a JSON answer of somebody else', { status: 200, body: { hello: 'world' } }],
    ['a redirect', { status: 302, headers: { location: '/login' } }],
  ] as const)('case 49: after %s the job is processed, and `running` stays true', async (_, fault) => {
    api.put(1)
    api.fail('/claim', fault)
    const handler = vi.fn()
    const { consumer, seen } = consume(handler)
    await clock.settle()
    expect(seen.map(({ name }) => name)).toEqual(['error'])
    expect(seen[0]?.event['error']).toBeInstanceOf(EchoMQError)
    expect(consumer.running).toBe(true)
    await clock.advance(3_000)
    expect(handler).toHaveBeenCalledTimes(1)
    expect(consumer.running).toBe(true)
  })

  test.each([503, 404])('case 50: the backoff of a lasting %i grows up to 30 s', async (status) => {
    api.failAlways('/claim', { status })
    clock.chance = 0.999
    const { consumer } = consume(vi.fn())
    await clock.advance(2_000)
    expect(api.to('/claim').map((call) => call.at)).toEqual([0, 499.5, 1_498.5])
    await clock.advance(600_000)
    const at = api.to('/claim').map((call) => call.at)
    const pauses = at.slice(1).map((time, i) => time - (at[i] ?? 0))
    expect(Math.max(...pauses)).toBeCloseTo(29_970)
    expect(pauses.at(-1)).toBeCloseTo(29_970)
    expect(consumer.running).toBe(true)
  })

  test.each([
    ['1', 1_000],
    ['3', 3_000],
    ['86400', 60_000],
    [new Date(Date.UTC(2099, 0, 1)).toUTCString(), 60_000],
    ['abc', 0],
    ['-5', 0],
    ['1.5', 0],
  ])('case 50: the loop follows Retry-After: %s', async (value, waitMs) => {
    clock.chance = 0
    api.fail('/claim', { status: 503, headers: { 'retry-after': value } })
    consume(vi.fn())
    await clock.advanceUntil(() => api.to('/claim').length === 2)
    expect(api.to('/claim')[1]?.at).toBe(waitMs)
  })

  test('the backoff starts again after a success', async () => {
    clock.chance = 0.999
    api.fail('/claim', ...Array.from({ length: 5 }, () => ({ status: 503 })))
    consume(vi.fn(), { waitMs: 0 })
    await clock.advanceUntil(() => api.to('/claim').length === 6)
    api.fail('/claim', { status: 503 })
    await clock.advanceUntil(() => api.to('/claim').length === 8)
    const [, , , , , , failed, next] = api.to('/claim').map(({ at }) => at)
    expect((next ?? 0) - (failed ?? 0)).toBe(499.5)
  })

  test.each([401, 403])('case 50: a %i of the API stops the loop with an error event', async (status) => {
    api.failAlways('/claim', { status })
    const { consumer, seen } = consume(vi.fn())
    const runningAtError: boolean[] = []
    consumer.on('error', () => runningAtError.push(consumer.running))
    await clock.settle()
    expect(seen.map(({ name }) => name)).toEqual(['error', 'stopped'])
    expect(seen[0]?.event['error']).toMatchObject({
      status,
      code: status === 401 ? 'unauthorized' : 'forbidden',
    })
    expect(runningAtError).toEqual([false])
    await clock.advance(600_000)
    expect(api.to('/claim')).toHaveLength(1)
    expect(clock.timers).toBe(0)
  })

  test.each([
    [400, 'invalid'],
    [404, 'not_found'],
    [405, 'method_not_allowed'],
    [413, 'too_large'],
    [415, 'unsupported_media_type'],
    [422, 'wrong_kind'],
  ])('a %i %s stops the loop', async (status, code) => {
    api.failAlways('/claim', { status, body: { code } })
    const { consumer, names, seen } = consume(vi.fn())
    await clock.advance(600_000)
    expect(names()).toEqual(['error', 'stopped'])
    expect(seen[0]?.event['error']).toMatchObject({ status, code })
    expect(consumer.running).toBe(false)
    expect(api.to('/claim')).toHaveLength(1)
  })

  test.each([
    ['a deployment that is not configured yet', { status: 503, body: { code: 'misconfigured' } }],
    ['a database of another wire version', { status: 503, body: { code: 'wire_version' } }],
    ['a page that somebody else serves there for now', { status: 404, body: '<html>' }],
    ['a limit', { status: 429, body: { code: 'overloaded' } }],
  ])('%s does not stop the loop', async (_, fault) => {
    api.put(1)
    api.fail('/claim', fault, fault)
    const { names } = consume(vi.fn())
    await clock.advance(60_000)
    expect(names()).toEqual(['error', 'error', 'completed'])
  })

  test('a rejected report does not stop the loop', async () => {
    api.put(1, 2)
    api.fail('/complete', { status: 403 })
    const { names } = consume(vi.fn())
    await clock.advance(1_000)
    expect(names()).toEqual(['error', 'completed'])
  })

  test('running jobs are finished after the API rejected the token', async () => {
    const [first = '', second = ''] = api.put(1, 2)
    const work = createWork()
    const { consumer, names } = consume(work.handler, { concurrency: 3, batch: 1 })
    await clock.settle()
    expect(work.started).toEqual([first, second])
    api.failAlways('/claim', { status: 401 })
    await clock.advance(60_000)
    expect(consumer.running).toBe(false)
    expect(names()).toEqual(['error'])
    work.end(first)
    work.end(second)
    await clock.settle()
    expect(names()).toEqual(['error', 'completed', 'completed', 'stopped'])
  })
})

describe('listeners', () => {
  test.each([
    [
      'throws',
      () => {
        throw new Error('listener')
      },
    ],
    [
      'rejects',
      async () => {
        throw new Error('listener')
      },
    ],
  ])('a listener that %s does not disturb the loop, and emits error', async (_, listener) => {
    api.put(1)
    const { consumer, seen } = consume(vi.fn(), { waitMs: 0 })
    consumer.on('completed', listener)
    await clock.settle()
    api.put(2)
    await clock.advance(1_000)
    const { name, event } = seen[1] ?? {}
    expect([name, event]).toEqual(['error', { error: expect.objectContaining({ message: 'listener' }) }])
    expect(seen.filter(({ name }) => name === 'completed')).toHaveLength(2)
    expect(consumer.running).toBe(true)
  })

  test('case 49: the error of an error listener is written to the console once, and the job is processed', async () => {
    const written = vi.spyOn(console, 'error').mockImplementation(() => {})
    api.put(1)
    api.fail('/claim', { status: 500 })
    const { consumer, seen } = consume(vi.fn())
    consumer.on('error', () => {
      throw new Error('listener')
    })
    await clock.advance(3_000)
    expect(written.mock.calls).toEqual([[expect.objectContaining({ message: 'listener' })]])
    expect(seen.map(({ name }) => name).filter((name) => name !== 'idle')).toEqual(['error', 'completed'])
    written.mockRestore()
  })

  test('an error without a listener is written to the console', async () => {
    const written = vi.spyOn(console, 'error').mockImplementation(() => {})
    api.fail('/claim', { status: 500 })
    own(new EchoMQ(clientOf(api, clock)).queue('q').consume(vi.fn()))
    await clock.settle()
    expect(written.mock.calls).toEqual([[expect.objectContaining({ code: 'upstream' })]])
    written.mockRestore()
  })

  test('a removed listener is not called', async () => {
    api.put(1)
    const { consumer } = consume(vi.fn(), { waitMs: 0 })
    const heard = vi.fn()
    const off = consumer.on('completed', heard)
    await clock.settle()
    off()
    api.put(2)
    await clock.advance(1_000)
    expect(heard).toHaveBeenCalledTimes(1)
  })
})
