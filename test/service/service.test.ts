/**
 * The service, called by a second Worker over a binding: both in the real workerd, with the deployed code of the queue
 * and a real Redis. No token is set anywhere.
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { buildWorker } from '../../src/stack/wrangler.ts'
import { freshQueue } from '../support/api.ts'
import { sharedRedis } from '../support/redis.ts'
import { type RunningWorkers, secretsOf, startWorkers, workerOf } from './support/workers.ts'

/** Calls any verb of its binding, and returns what arrived. */
const CALLER = `
  export default {
    async fetch(request, { EMQ }) {
      const { verb, args } = await request.json()
      try {
        const value = await EMQ[verb](...args)
        return Response.json({ value, isDone: true })
      } catch (error) {
        const { name, message } = error
        return Response.json({ error: { ...error, name, message }, isDone: false })
      }
    },
  }`

function callerOf(name: string, compatibilityDate: string) {
  return workerOf(
    name,
    {
      mainModule: 'caller.js',
      modules: { 'caller.js': { type: 'esm', contents: CALLER } },
      compatibilityDate,
      compatibilityFlags: [],
    },
    { EMQ: { type: 'worker', worker: 'echomq-edge', exportName: 'QueueService' } },
  )
}

const shared = sharedRedis()
let workers: RunningWorkers
beforeAll(async () => {
  const queue = workerOf('echomq-edge', await buildWorker(), secretsOf(shared.bridge))
  workers = await startWorkers([
    callerOf('caller', '2026-04-21'),
    callerOf('old-caller', '2026-04-20'),
    queue,
  ])
})
afterAll(() => workers?.stop())
beforeEach(() => shared.bridge.reset())

// biome-ignore lint/suspicious/noExplicitAny: the tests check a result field by field
type Json = any

async function tell(verb: string, args: unknown[], caller = 'caller'): Promise<Json> {
  const response = await workers.fetch(caller, '/', { method: 'POST', body: JSON.stringify({ verb, args }) })
  return response.json()
}

async function call(verb: string, ...args: unknown[]): Promise<Json> {
  const { value, isDone, error } = await tell(verb, args)
  expect(error).toBeUndefined()
  expect(isDone).toBe(true)
  return value
}

async function refusal(verb: string, ...args: unknown[]): Promise<Json> {
  const { error } = await tell(verb, args)
  return error
}

async function stateOf(queue: string, id: string): Promise<string> {
  return (await call('job', queue, id))?.state
}

describe('the verbs', () => {
  test('a binding enqueues, claims and completes a job', async () => {
    const queue = freshQueue()
    const { id, status } = await call('enqueue', queue, { to: 'ada' }, { idempotencyKey: 'k' })
    expect(status).toBe('enqueued')
    expect(await call('enqueue', queue, { to: 'ada' }, { idempotencyKey: 'k' })).toEqual({
      id,
      status: 'duplicate',
    })

    const [job] = await call('claim', queue, { limit: 2, leaseMs: 5000 })
    expect(job).toMatchObject({ id, queue, token: 1, payload: { to: 'ada' }, leaseMs: 5000 })
    expect(await call('claim', queue)).toEqual([])
    expect(await call('complete', queue, job)).toBe('completed')
    expect(await call('complete', queue, job)).toBe('gone')
    expect(await call('job', queue, id)).toBeUndefined()
  })

  test('enqueueMany returns a result for each job', async () => {
    const queue = freshQueue()
    const results = await call('enqueueMany', queue, [
      { payload: 1 },
      { payload: 2, delayMs: -1 },
      { payload: 3, delayMs: 1000 },
    ])
    expect(results).toEqual([
      { id: expect.any(String), status: 'enqueued' },
      { error: expect.objectContaining({ name: 'EchoMQError', code: 'invalid', retryable: false }) },
      { id: expect.any(String), status: 'scheduled' },
    ])
  })

  test('retry, release, extend and fail change the job as documented', async () => {
    const queue = freshQueue()
    const { id } = await call('enqueue', queue, 1)
    const claim = async () => (await call('claim', queue))[0]

    expect(await call('extend', queue, await claim(), 60_000)).toBe(60_000)
    await call('release', queue, { id, token: 1 })
    expect(await stateOf(queue, id)).toBe('pending')
    expect(await call('retry', queue, await claim(), { error: 'busy', delayMs: 0 })).toBe('scheduled')
    expect(await call('job', queue, id)).toMatchObject({ lastError: 'busy' })
    const again = (await call('claim', queue, { waitMs: 5000 }))[0]
    await call('fail', queue, again, { error: 'no such mailbox' })
    expect(await call('job', queue, id)).toMatchObject({
      state: 'dead',
      lastError: 'no such mailbox',
      payload: 1,
    })
  })

  test('a move accepts any thrown value as its error', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    const [job] = await call('claim', queue)
    await call('fail', queue, job, { error: { why: 'full' } })
    expect(await call('job', queue, job.id)).toMatchObject({ lastError: '{"why":"full"}' })
  })

  test('stats returns the counts, and jobs one page at a time', async () => {
    const queue = freshQueue()
    const ids = (await call('enqueueMany', queue, [{ payload: 1 }, { payload: 2 }, { payload: 3 }])).map(
      ({ id }: { id: string }) => id,
    )
    expect(await call('stats', queue)).toMatchObject({ counts: { pending: 3, active: 0 }, paused: false })

    const first = await call('jobs', queue, { order: 'oldest', limit: 2 })
    const second = await call('jobs', queue, {
      order: 'oldest',
      limit: 2,
      cursor: first.cursor,
      payload: true,
    })
    expect([...first.jobs, ...second.jobs].map(({ id }) => id)).toEqual(ids)
    expect(second).toEqual({ jobs: [expect.objectContaining({ payload: 3 })] })
  })

  test('redrive moves one dead letter, and redriveMany moves several', async () => {
    const queue = freshQueue()
    await call('enqueueMany', queue, [{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    for (const job of await call('claim', queue, { limit: 3 })) await call('fail', queue, job, { error: 'e' })
    const { jobs } = await call('jobs', queue, { state: 'dead' })

    await call('redrive', queue, jobs[0].id)
    expect(await stateOf(queue, jobs[0].id)).toBe('pending')
    expect(await call('redriveMany', queue, { errorContains: 'e' })).toMatchObject({
      redriven: 2,
      more: false,
    })
  })

  test('pause stops claims, and resume allows them again', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    await call('pause', queue)
    expect(await call('claim', queue)).toEqual([])
    await call('resume', queue)
    expect(await call('claim', queue)).toHaveLength(1)
  })

  test('purge deletes the dead letters, and audit finds no fault', async () => {
    const queue = freshQueue()
    await call('enqueueMany', queue, [{ payload: 1 }, { payload: 2 }])
    const [job] = await call('claim', queue)
    await call('fail', queue, job)
    expect(await call('purge', queue, { state: 'dead', limit: 1 })).toMatchObject({ removed: 1 })
    expect((await call('stats', queue)).counts).toEqual({ pending: 1, active: 0, scheduled: 0, dead: 0 })
    expect(await call('audit', queue, { limit: 1000 })).toMatchObject({ findings: [], repaired: 0 })
  })

  test('a text payload is stored verbatim', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, '1.0', { as: 'text' })
    await call('enqueueMany', queue, [{ payload: 'not json' }], { as: 'text' })
    const jobs = await call('claim', queue, { limit: 2, as: 'text' })
    expect(jobs.map(({ payload }: Json) => payload)).toEqual(['1.0', 'not json'])
  })

  test('a waiting claim ends when its caller hangs up, and takes no job', async () => {
    const queue = freshQueue()
    const asked = async () => (await shared.bridge.counts()).requests
    const body = JSON.stringify({ verb: 'claim', args: [queue, { waitMs: 25_000 }] })
    const socket = connect(workers.port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await expect.poll(asked, { timeout: 10_000 }).toBeGreaterThan(2)
    // With a reset, because workerd takes an orderly end for a half-closed connection that still reads.
    socket.resetAndDestroy()

    // A waiting claim sends a request at least once per second.
    let last = await asked()
    let since = performance.now()
    const silence = async () => {
      const now = await asked()
      if (now !== last) since = performance.now()
      last = now
      return performance.now() - since
    }
    await expect.poll(silence, { timeout: 10_000 }).toBeGreaterThan(1_500)
    const { id } = await call('enqueue', queue, 'left alone')
    expect(await stateOf(queue, id)).toBe('pending')
  })

  test('a waiting claim returns a job that is enqueued meanwhile', async () => {
    const queue = freshQueue()
    const waiting = call('claim', queue, { waitMs: 15_000 })
    await call('enqueue', queue, 'here')
    expect(await waiting).toEqual([expect.objectContaining({ payload: 'here' })])
  })
})

describe('errors', () => {
  test('an error arrives with its fields', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    const [job] = await call('claim', queue)
    const stale = await refusal('complete', queue, { ...job, token: 99 })
    expect(stale).toMatchObject({
      name: 'EchoMQError',
      code: 'stale',
      reason: 'superseded',
      status: 409,
      retryable: false,
    })
    expect(stale.requestId).toMatch(/^[0-9a-f-]{36}$/)
    expect(await refusal('redrive', queue, job.id)).toMatchObject({ code: 'wrong_state', state: 'active' })
    expect(await refusal('stats', freshQueue())).toMatchObject({ code: 'not_found' })
  })

  test('a rejected argument is named, and nothing is sent to Redis', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    await shared.bridge.reset()
    expect(await refusal('enqueue', queue, 1, { delay: 5 })).toMatchObject({
      code: 'invalid',
      errors: [{ path: 'delay' }],
    })
    expect(await refusal('jobs', queue, { limit: 201 })).toMatchObject({
      code: 'invalid',
      errors: [{ path: 'limit' }],
    })
    for (const name of ['a b', '../emails', 'emq', ''])
      for (const verb of ['stats', 'jobs'])
        expect(await refusal(verb, name)).toMatchObject({ code: 'invalid' })
    expect(await refusal('job', queue, '../../x')).toMatchObject({ code: 'invalid' })
    expect((await shared.bridge.counts()).requests).toBe(0)
  })

  test('the text of an error contains its code for a caller without enhanced_error_serialization', async () => {
    const { error } = await tell('stats', [freshQueue()], 'old-caller')
    expect(error).toMatchObject({
      name: 'Error',
      message: expect.stringMatching(/^EchoMQError: .*: not_found: /),
    })
    expect(error).not.toHaveProperty('code')
  })

  test('a request to a failing Redis is repeated, and then throws upstream', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    await shared.bridge.reset()
    shared.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }, { times: Number.POSITIVE_INFINITY })
    const error = await refusal('stats', queue)
    expect(error).toMatchObject({ name: 'EchoMQError', code: 'upstream', status: 503, retryable: true })
    expect(error.message).not.toContain('boom')
    expect((await shared.bridge.counts()).requests).toBe(4)
  })

  test('a lost reply of Redis creates no second job', async () => {
    const queue = freshQueue()
    await call('enqueue', queue, 1)
    shared.bridge.dropReply()
    expect(await call('enqueue', queue, 2)).toMatchObject({ status: 'enqueued' })
    expect(await call('stats', queue)).toMatchObject({ counts: { pending: 2 } })
  })
})

describe('access', () => {
  test('the HTTP API rejects every token when none is set', async () => {
    const response = await workers.fetch('echomq-edge', '/v1/queues', {
      headers: { authorization: 'Bearer dev-operator' },
    })
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ code: 'misconfigured' })
  })

  test('a caller can call the verbs and nothing else', async () => {
    for (const name of ['#queue', 'queue', 'env', 'ctx', 'wayToApp', 'fetch', 'consume'])
      expect(await refusal(name, 'emails')).toMatchObject({ name: 'TypeError' })
  })
})
