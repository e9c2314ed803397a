/** Waiting claims in the real Workers runtime, with the Durable Object that wakes them. */
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { list, text } from '../../src/queue/replies.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { handOn } from '../queue/support/hand.ts'
import { freshQueue } from '../support/api.ts'
import { until } from '../support/until.ts'

const START_TIMEOUT_MS = 120_000
/** Longer than any wait here, so that only a wake-up can announce a job. */
const RELOOK_MS = 60_000
const PATIENT = { limit: 1, waitMs: 50_000 }
const IDLE_CLAIM_COMMANDS = 6

let stack: TestStack
let raw: RespPort

beforeAll(async () => {
  stack = await startStack({
    port: 0,
    restPort: 0,
    testMode: true,
    cron: false,
    quiet: true,
    env: { EMQ_RELOOK_MS: String(RELOOK_MS) },
  })
  raw = await createRespPort(stack.redisUrl)
  await raw.send([
    ['CONFIG', 'SET', 'slowlog-log-slower-than', 0],
    ['CONFIG', 'SET', 'slowlog-max-len', 100_000],
  ])
  // Loads the script, so that the log names its SHA-1 from the first claim on.
  await post(freshQueue(), 'claim', { limit: 1 })
}, START_TIMEOUT_MS)
afterAll(async () => {
  raw?.close()
  await stack?.stop()
})
beforeEach(async () => {
  await stack.bridge.reset()
  await raw.send([['SLOWLOG', 'RESET']])
})

test('a waiting claim costs one claim, and an enqueue wakes it for a second one', async () => {
  const queue = freshQueue()
  const waiting = post(queue, 'claim', PATIENT)
  await untilClaims(1)
  expect((await stack.bridge.counts()).total).toBe(IDLE_CLAIM_COMMANDS)
  const { id } = await post(queue, 'jobs', { payload: 1 })
  expect(idsOf(await waiting)).toEqual([id])
  expect(await claims()).toBe(2)
})

test('a claim that registers while a job is enqueued gets that job', async () => {
  for (let round = 0; round < 20; round++) {
    const queue = freshQueue()
    const [claimed, { id }] = await Promise.all([
      post(queue, 'claim', PATIENT),
      post(queue, 'jobs', { payload: round }),
    ])
    expect(idsOf(claimed)).toEqual([id])
  }
})

test('100 waiting claims share 100 jobs that arrive one by one, each job once, with at most two claims a job', async () => {
  const queue = freshQueue()
  const waiting = Array.from({ length: 100 }, () => post(queue, 'claim', PATIENT))
  await untilClaims(100)
  const made: string[] = []
  for (let n = 0; n < 100; n++) made.push((await post(queue, 'jobs', { payload: n })).id)
  const taken = (await Promise.all(waiting)).flatMap(idsOf)
  expect(taken.sort()).toEqual(made.sort())
  expect((await claims()) - 100).toBeLessThanOrEqual(200)
}, 60_000)

test('a job that becomes due costs at most three claims, however many claims wait for it', async () => {
  const queue = freshQueue()
  const waiting = Array.from({ length: 20 }, () => hangingClaim(queue))
  await untilClaims(20)
  await post(queue, 'jobs', { payload: 1, delayMs: 1_500 })
  await Promise.race(waiting.map(({ answer }) => answer))
  expect((await claims()) - 20).toBeGreaterThanOrEqual(1)
  expect((await claims()) - 20).toBeLessThanOrEqual(3)
  for (const { hangUp } of waiting) hangUp()
})

test('a claim learns of a delayed job that was enqueued before it, and of a lease that lapses', async () => {
  const queue = freshQueue()
  const { id } = await post(queue, 'jobs', { payload: 1, delayMs: 800 })
  expect(idsOf(await post(queue, 'claim', { ...PATIENT, leaseMs: 500 }))).toEqual([id])
  expect(idsOf(await post(queue, 'claim', PATIENT))).toEqual([id])
})

test('the wake-up of a caller that hung up goes to the next waiting claim', async () => {
  const queue = freshQueue()
  const first = hangingClaim(queue)
  await untilClaims(1)
  const second = post(queue, 'claim', PATIENT)
  await untilClaims(2)
  first.hangUp()
  const { id } = await post(queue, 'jobs', { payload: 1 })
  expect(idsOf(await second)).toEqual([id])
})

test('release, retry, redrive and reschedule wake a waiting claim', async () => {
  const queue = freshQueue()
  const { id } = await post(queue, 'jobs', { payload: 1 })
  let job = first(await post(queue, 'claim', { limit: 1 }))
  async function wakes(move: () => Promise<unknown>): Promise<void> {
    const before = await claims()
    const waiting = post(queue, 'claim', PATIENT)
    await untilClaims(before + 1)
    await move()
    const claimed = await waiting
    expect(idsOf(claimed)).toEqual([id])
    job = first(claimed)
  }
  await wakes(() => post(queue, `jobs/${id}/release`, { token: job.token }))
  await wakes(() => post(queue, `jobs/${id}/retry`, { token: job.token, delayMs: 0 }))
  await post(queue, `jobs/${id}/fail`, { token: job.token })
  await wakes(() => post(queue, `jobs/${id}/redrive`))
  await post(queue, `jobs/${id}/retry`, { token: job.token, delayMs: 600_000 })
  await wakes(() => call('PUT', `/v1/queues/${queue}/jobs/${id}/schedule`, { delayMs: 0 }))
})

test('a paused queue wakes no waiting claim until it is resumed', async () => {
  const queue = freshQueue()
  const waiting = post(queue, 'claim', PATIENT)
  await untilClaims(1)
  await post(queue, 'pause')
  const { id } = await post(queue, 'jobs', { payload: 1 })
  const late = post(queue, 'claim', PATIENT)
  await untilClaims(2)
  await post(queue, 'resume')
  expect(idsOf(await Promise.race([waiting, late]))).toEqual([id])
  expect(await claims()).toBe(3)
  await post(queue, 'jobs', { payload: 2 })
  await Promise.all([waiting, late])
})

test('the cron wakes a waiting claim for a job that another client enqueued in Redis', async () => {
  const queue = freshQueue()
  await post(queue, 'pause')
  await post(queue, 'resume')
  const waiting = post(queue, 'claim', PATIENT)
  await untilClaims(1)
  await handOn(raw, queue).enqueue('JOB0KHTOWnGLuC')
  await call('POST', '/v1/maintenance', {})
  expect(idsOf(await waiting)).toEqual(['JOB0KHTOWnGLuC'])
})

test('a wake-up reaches a claim whose Durable Object was evicted in the meantime', async () => {
  const queue = freshQueue()
  const waiting = post(queue, 'claim', PATIENT)
  await untilClaims(1)
  // The runtime evicts an object whose WebSockets hibernate after about ten seconds.
  await new Promise((resolve) => setTimeout(resolve, 12_000))
  const { id } = await post(queue, 'jobs', { payload: 1 })
  expect(idsOf(await waiting)).toEqual([id])
  expect(await claims()).toBe(2)
}, 40_000)

/** Any type, because tests read it field by field. */
type Answer = ReturnType<typeof JSON.parse>

async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${stack.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${stack.tokens.operator}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body ?? {}),
  })
  return response.json()
}
const post = (queue: string, path: string, body?: unknown) =>
  call('POST', `/v1/queues/${queue}/${path}`, body)

const idsOf = ({ jobs }: Answer): string[] => jobs.map(({ id }: { id: string }) => id)
const first = ({ jobs: [job] }: Answer): Answer => job

/** A waiting claim whose caller can hang up. */
function hangingClaim(queue: string) {
  const { hostname, port } = new URL(stack.url)
  const socket = connect({ host: hostname, port: Number(port) })
  const body = JSON.stringify(PATIENT)
  socket.write(
    `POST /v1/queues/${queue}/claim HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${stack.tokens.operator}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  socket.on('error', () => {})
  return {
    answer: new Promise<void>((resolve) => socket.once('data', () => resolve())),
    hangUp: () => socket.resetAndDestroy(),
  }
}

/** How many claims Redis ran since the test began, by its log of all commands. */
async function claims(): Promise<number> {
  const [entries] = await raw.send([['SLOWLOG', 'GET', -1]])
  return list(entries).filter((entry) => {
    const [command, sha1] = list(list(entry)[3]).map(text)
    return command?.toUpperCase() === 'EVALSHA' && sha1 === SCRIPTS.claim_many.sha1
  }).length
}
const untilClaims = (count: number) => until(async () => (await claims()) >= count)
