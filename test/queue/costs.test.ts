/**
 * What a move costs in commands of Redis, those that scripts run inside included: the number that a service bills. Each
 * is one request.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { handOn } from './support/hand.ts'
import { idsOf } from './support/results.ts'
import { serverNow, untilServer } from './support/world.ts'

const shared = sharedRedis()
const portOf = () => createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 20_000 })

/** A queue whose isolate looks at it once and never again, so that a claim is a claim and nothing beside it. */
const queueOf = (name = freshQueue()): Queue =>
  createDatabase(portOf(), { wireAccept: [], wireClaim: undefined }, () => 0).queue(name)

const measured: string[] = []

async function costOf(what: string, run: () => Promise<unknown>): Promise<number> {
  await shared.bridge.reset()
  await run()
  const { requests, total, commands } = await shared.bridge.counts()
  measured.push(`${what}: ${total} commands, ${requests} request(s) ${JSON.stringify(commands)}`)
  expect(requests).toBe(1)
  return total
}

beforeAll(async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'load the scripts' }])
  const [job] = (await queue.claim({})).jobs
  await queue.settle([], { limit: 1 })
  await queue.retry(job?.id ?? '', 1, {})
  await queue.complete(job?.id ?? '', 1)
})
afterAll(() => console.info(`Measured costs:\n  ${measured.join('\n  ')}`))

test('a plain enqueue is five commands, the one of the registry included', async () => {
  const queue = queueOf()
  expect(await costOf('enqueue', () => queue.enqueueMany([{ payload: 'x' }]))).toBe(5)
})

test("the contract's claim is one call and the six commands of its script", async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
  await queue.claim({})
  expect(await costOf('claim', () => queue.claim({}))).toBe(7)
})

test('a complete is at most six commands, also a late one, and one of a job with a startBy', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }])
  const [job] = (await queue.claim({})).jobs
  expect(await costOf('complete', () => queue.complete(job?.id ?? '', 1))).toBeLessThanOrEqual(6)

  const startBy = (await serverNow(portOf())) + 100_000
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x', startBy }]))
  await queue.claim({ leaseMs: 1 })
  await untilServer(portOf(), (await serverNow(portOf())) + 2)
  await queue.reap(10)
  expect(await costOf('complete after a lapse', () => queue.complete(id, 1))).toBeLessThanOrEqual(6)
  expect(await census(portOf(), queue.name)).toEqual([])
})

test('an empty batch claim is at most six commands, with a claim id too, whatever else the queue holds', async () => {
  const queue = queueOf()
  expect(await costOf('empty batch claim', () => queue.claim({ limit: 100 }))).toBeLessThanOrEqual(6)
  expect(
    await costOf('empty batch claim with an id', () => queue.claim({ limit: 100, claimId: 'a' })),
  ).toBeLessThanOrEqual(6)
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y', delayMs: 100_000 }])
  await queue.claim({})
  expect(
    await costOf('empty batch claim beside other jobs', () => queue.claim({ limit: 100 })),
  ).toBeLessThanOrEqual(6)
  expect(
    await costOf('empty batch claim with an id beside other jobs', () =>
      queue.claim({ limit: 100, claimId: 'a' }),
    ),
  ).toBeLessThanOrEqual(6)
  await queue.changeSettings({ maxActive: 5 })
  for (const claimId of [undefined, 'a'])
    expect(
      await costOf('empty batch claim under a cap', () => queue.claim({ limit: 100, claimId })),
    ).toBeLessThanOrEqual(6)
  await queue.enqueueMany([{ payload: 'z' }])
  await queue.pause()
  expect(
    await costOf('batch claim with an id of a paused queue', () => queue.claim({ limit: 100, claimId: 'a' })),
  ).toBeLessThanOrEqual(6)
})

test("a job's whole life in batches of a hundred is at most 6.5 commands", async () => {
  const queue = queueOf()
  const payloads = Array.from({ length: 100 }, (_, nth) => ({ payload: String(nth) }))
  const enqueued = await costOf('enqueue of 100', () => queue.enqueueMany(payloads))
  let jobs: Awaited<ReturnType<Queue['claim']>>['jobs'] = []
  const claimed = await costOf('claim of 100', async () => {
    jobs = (await queue.claim({ limit: 100 })).jobs
  })
  expect(jobs).toHaveLength(100)
  const completes = jobs.map(({ id, token }) => ({ action: 'complete' as const, id, token }))
  const completed = await costOf('complete of 100', () => queue.settle(completes))
  measured.push(`a job's life in batches of 100: ${(enqueued + claimed + completed) / 100} commands`)
  expect((enqueued + claimed + completed) / 100).toBeLessThanOrEqual(6.5)
  expect((await queue.stats()).completed).toBe(100)
  expect(await census(portOf(), queue.name)).toEqual([])
})

test("a job's life in batches, with claim ids, each settle claiming the next ones, is at most 6.5 commands", async () => {
  const queue = queueOf()
  for (let batch = 0; batch < 3; batch++)
    await queue.enqueueMany(Array.from({ length: 100 }, () => ({ payload: 'x' })))
  let { jobs } = await queue.claim({ limit: 100, claimId: 'first' })
  const completes = () => jobs.map(({ id, token }) => ({ action: 'complete' as const, id, token }))
  const cost = await costOf('complete of 100 and claim of the next 100', async () => {
    const { claimed } = await queue.settle(completes(), { limit: 100, claimId: 'second' })
    jobs = claimed?.jobs ?? []
  })
  expect(jobs).toHaveLength(100)
  // The enqueue of a hundred is 104.
  expect((cost + 104) / 100).toBeLessThanOrEqual(6.5)
})

test('a retry with the delay and the limit of the caller is six commands, with those of the queue seven', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
  const [one, two] = [...(await queue.claim({})).jobs, ...(await queue.claim({})).jobs]
  const options = { delayMs: 5, maxAttempts: 3, error: 'e' }
  expect(await costOf('retry', () => queue.retry(one?.id ?? '', 1, options))).toBe(6)
  expect(await costOf("retry by the queue's policy", () => queue.retry(two?.id ?? '', 1, {}))).toBe(7)
  expect(await census(portOf(), queue.name)).toEqual([])
})

test('a refused report is at most four commands', async () => {
  const queue = queueOf()
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x' }]))
  expect(await costOf('refused complete', () => queue.complete(id, 1))).toBeLessThanOrEqual(4)
  expect(await costOf('refused retry', () => queue.retry(id, 1, {}))).toBeLessThanOrEqual(4)
  const settle = () => queue.settle([{ action: 'extend', id, token: 1, leaseMs: 60_000 }])
  expect(await costOf('refused extend', settle)).toBeLessThanOrEqual(4)
  const hand = handOn(portOf(), queue.name)
  await hand.send('DEL', hand.keys.job(id))
  expect(await costOf('complete of a job that is gone', () => queue.complete(id, 1))).toBeLessThanOrEqual(4)
})
