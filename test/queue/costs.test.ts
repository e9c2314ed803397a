/** What each move costs: one request, and the commands that its script runs, as a Redis service bills them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { freshQueue } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { serverNow, untilServer } from '../support/clock.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { handOn } from './support/hand.ts'
import { idsOf } from './support/results.ts'

const shared = sharedRedis()
const measured: string[] = []

beforeAll(async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'load the scripts' }])
  const [job] = (await queue.claim({})).jobs
  await queue.settle([], { limit: 1 })
  await queue.retry(job?.id ?? '', 1, {})
  await queue.complete(job?.id ?? '', 1)
})
afterAll(() => console.info(`Measured costs:\n  ${measured.join('\n  ')}`))

test('an enqueue costs 5 commands, the registry included', async () => {
  const queue = queueOf()
  expect(await costOf('enqueue', () => queue.enqueueMany([{ payload: 'x' }]))).toBe(5)
})

test('a claim without a limit costs 7 commands', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
  await queue.claim({})
  expect(await costOf('claim', () => queue.claim({}))).toBe(7)
})

test('a complete costs 5 commands', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }])
  const [job] = (await queue.claim({})).jobs
  expect(await costOf('complete', () => queue.complete(job?.id ?? '', 1))).toBe(5)
  await expectConsistent(portOf(), queue.name)
})

test('a late complete of a job with a startBy costs 6 commands', async () => {
  const queue = queueOf()
  const startBy = (await serverNow(portOf())) + 100_000
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x', startBy }]))
  await queue.claim({ leaseMs: 1 })
  await untilServer(portOf(), (await serverNow(portOf())) + 2)
  await queue.reap(10)
  expect(await costOf('complete after a lapse', () => queue.complete(id, 1))).toBe(6)
  await expectConsistent(portOf(), queue.name)
})

test.each([
  ['an unused queue', async () => {}],
  ['a queue with active and scheduled jobs', occupy],
  [
    'a queue with a limit of active jobs',
    async (queue: Queue) => {
      await occupy(queue)
      await queue.changeSettings({ maxActive: 5 })
    },
  ],
])(
  'a batch claim that returns nothing costs 6 commands on %s, with and without a claimId',
  async (what, prepare) => {
    const queue = queueOf()
    await prepare(queue)
    for (const claimId of [undefined, 'a']) {
      const claim = () => queue.claim({ limit: 100, claimId })
      expect(await costOf(`empty batch claim on ${what}`, claim), `claimId ${claimId}`).toBe(6)
    }
  },
)

test('a batch claim on a paused queue costs 5 commands, and 6 with a claimId', async () => {
  const queue = queueOf()
  await occupy(queue)
  await queue.enqueueMany([{ payload: 'z' }])
  await queue.pause()
  expect(await costOf('claim on a paused queue', () => queue.claim({ limit: 100 }))).toBe(5)
  const withId = () => queue.claim({ limit: 100, claimId: 'a' })
  expect(await costOf('claim with an id on a paused queue', withId)).toBe(6)
})

test('a job costs 5.16 commands in batches of a hundred', async () => {
  const queue = queueOf()
  const payloads = Array.from({ length: 100 }, (_, nth) => ({ payload: String(nth) }))
  const enqueued = await costOf('enqueue of 100', () => queue.enqueueMany(payloads))
  let jobs: Awaited<ReturnType<Queue['claim']>>['jobs'] = []
  const claimed = await costOf('claim of 100', async () => {
    jobs = (await queue.claim({ limit: 100 })).jobs
  })
  const completes = jobs.map(({ id, token }) => ({ action: 'complete' as const, id, token }))
  const completed = await costOf('complete of 100', () => queue.settle(completes))
  expect([enqueued, claimed, completed]).toEqual([104, 208, 204])
  expect((await queue.stats()).completed).toBe(100)
  await expectConsistent(portOf(), queue.name)
})

test('a settle of a hundred completes that claims the next hundred under a claimId costs 413 commands', async () => {
  const queue = queueOf()
  for (let batch = 0; batch < 3; batch++) await queue.enqueueMany(Array(100).fill({ payload: 'x' }))
  const { jobs } = await queue.claim({ limit: 100, claimId: 'first' })
  const completes = jobs.map(({ id, token }) => ({ action: 'complete' as const, id, token }))
  const cost = await costOf('complete of 100 and claim of the next 100', async () => {
    const { claimed } = await queue.settle(completes, { limit: 100, claimId: 'second' })
    expect(claimed?.jobs).toHaveLength(100)
  })
  expect(cost).toBe(413)
})

test('a retry costs 6 commands with the delay and limit of the call, and 7 with those of the queue', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
  const [one, two] = [...(await queue.claim({})).jobs, ...(await queue.claim({})).jobs]
  const options = { delayMs: 5, maxAttempts: 3, error: 'e' }
  expect(await costOf('retry', () => queue.retry(one?.id ?? '', 1, options))).toBe(6)
  expect(await costOf("retry by the queue's policy", () => queue.retry(two?.id ?? '', 1, {}))).toBe(7)
  await expectConsistent(portOf(), queue.name)
})

test('a rejected complete or retry costs 2 commands, a rejected extend 3, a complete of an evicted job 3', async () => {
  const queue = queueOf()
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x' }]))
  expect(await costOf('rejected complete', () => queue.complete(id, 1))).toBe(2)
  expect(await costOf('rejected retry', () => queue.retry(id, 1, {}))).toBe(2)
  const settle = () => queue.settle([{ action: 'extend', id, token: 1, leaseMs: 60_000 }])
  expect(await costOf('rejected extend', settle)).toBe(3)
  const hand = handOn(portOf(), queue.name)
  await hand.send('DEL', hand.keys.job(id))
  expect(await costOf('complete of an evicted job', () => queue.complete(id, 1))).toBe(3)
})

/** A queue in an isolate that sweeps only once, because its clock stands still. */
function queueOf(name = freshQueue()): Queue {
  return createDatabase(portOf(), { wireAccept: [], wireClaim: undefined }, () => 0).queue(name)
}

function portOf() {
  return createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 20_000 })
}

/** One active and one scheduled job. */
async function occupy(queue: Queue): Promise<void> {
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y', delayMs: 100_000 }])
  await queue.claim({})
}

async function costOf(what: string, run: () => Promise<unknown>): Promise<number> {
  await shared.bridge.reset()
  await run()
  const { requests, total, commands } = await shared.bridge.counts()
  measured.push(`${what}: ${total} commands ${JSON.stringify(commands)}`)
  expect(requests).toBe(1)
  return total
}
