/** What jobs, idle consumers and idle queues cost: counted, not timed. */

import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { type Counted, type Counts, openCounted } from './counted.ts'
import { type Lab, payloadOf } from './lab.ts'
import { bullmq } from './peers/bullmq.ts'
import { countdown, inBatches, type Peer } from './peers/peer.ts'
import { upstashQueue } from './peers/upstash-queue.ts'
import { priceOf } from './prices.ts'
import type { Section } from './report.ts'
import { once } from './statistics.ts'

const JOBS = 1000
const IDLE_QUEUES = 100
const IDLE_MS = 60_000
const MINUTES_A_MONTH = 30 * 24 * 60

/** At most so many commands and requests a job. */
const TARGETS = [
  { concurrency: 1, commands: 24, requests: 2.1 },
  { concurrency: 10, commands: 8, requests: 0.3 },
  { concurrency: 100, commands: 5.5, requests: 0.04 },
]

export async function measureCost(lab: Lab): Promise<Section> {
  await using parts = new AsyncDisposableStack()
  const counted = await openCounted(lab)
  parts.defer(counted.stop)
  const quiet = await openCounted(lab)
  parts.defer(quiet.stop)
  const idleMs = lab.effort.of(IDLE_MS)
  // Meanwhile the rest is counted on the other stack.
  const idling = countIdleConsumer(quiet, idleMs)

  const jobs = lab.effort.of(JOBS)
  const lives = []
  for (const target of TARGETS) {
    lives.push({ ...target, counts: await countLives(counted, target.concurrency, jobs) })
  }
  const upstash = await countPeer(counted, upstashQueue(counted, { consumers: 1, jobs: 100 }))
  const bull = await countBullmq(counted, jobs)
  const idleQueues = await countIdleQueues(counted)
  const idle = await idling

  const perJob = (value: number, unit: 'count' | 'bytes' = 'count') => once(value / jobs, unit)
  const perMinute = (value: number) => (value * 60_000) / idleMs
  const month = priceOf({
    commands: perMinute(idle.commands) * MINUTES_A_MONTH,
    requests: perMinute(idle.requests) * MINUTES_A_MONTH,
    objectRequests: perMinute(idle.requests) * MINUTES_A_MONTH,
  })
  return {
    title: 'What a job costs',
    notes: [
      'A life is an enqueue, a claim and a complete. The client enqueues in batches of the concurrency.',
      'Commands are what Redis counts, those inside scripts included. Bytes include the headers of HTTP.',
      'Prices are list prices without free allowances: Upstash $0.20 for 100,000 commands, Workers $0.30 for a million requests. Processor time adds $0.02 for a million milliseconds.',
      'The idle consumer uses the defaults of the client. Its price has one request to a Durable Object for each request to the Worker; a hibernating Durable Object costs nothing.',
    ],
    tables: [
      {
        columns: [
          'a life of a job',
          'commands',
          'requests to the Worker',
          'requests to Redis',
          'bytes to the Worker',
          'bytes to Redis',
          'price of a million',
        ],
        rows: [
          ...lives.map(({ concurrency, counts }) => [
            `client, concurrency ${concurrency}`,
            perJob(counts.commands),
            perJob(counts.requests),
            perJob(counts.subrequests),
            perJob(counts.bytes, 'bytes'),
            perJob(counts.subrequestBytes, 'bytes'),
            once((priceOf(counts) / jobs) * 1_000_000, '$'),
          ]),
          [
            '@upstash/queue',
            once(upstash.commands / 100, 'count'),
            '',
            once(upstash.subrequests / 100, 'count'),
            '',
            once(upstash.subrequestBytes / 100, 'bytes'),
            once((priceOf({ commands: upstash.commands, requests: 0 }) / 100) * 1_000_000, '$'),
          ],
          [
            'BullMQ, addBulk of 100, concurrency 50',
            perJob(bull),
            '',
            '',
            '',
            '',
            once((priceOf({ commands: bull, requests: 0 }) / jobs) * 1_000_000, '$'),
          ],
        ],
      },
      {
        columns: ['at rest', 'commands a minute', 'requests to the Worker a minute', 'price a month'],
        rows: [
          [
            'one waiting consumer',
            once(perMinute(idle.commands), 'count'),
            once(perMinute(idle.requests), 'count'),
            once(month, '$'),
          ],
          [
            `cron with ${IDLE_QUEUES} idle queues`,
            once(idleQueues, 'count'),
            once(1, 'count'),
            once(priceOf({ commands: idleQueues * MINUTES_A_MONTH, requests: MINUTES_A_MONTH }), '$'),
          ],
        ],
      },
    ],
    charts: [],
    targets: [
      ...lives.flatMap(({ concurrency, counts, ...target }) => [
        {
          figure: `commands a job, client at concurrency ${concurrency}`,
          value: perJob(counts.commands),
          limit: 'at most' as const,
          target: target.commands,
        },
        {
          figure: `requests a job, client at concurrency ${concurrency}`,
          value: perJob(counts.requests),
          limit: 'at most' as const,
          target: target.requests,
        },
      ]),
      {
        figure: 'commands a minute of an idle waiting consumer',
        value: once(perMinute(idle.commands), 'count'),
        limit: 'at most',
        target: 18,
      },
    ],
  }
}

function countLives({ client, count }: Counted, concurrency: number, jobs: number): Promise<Counts> {
  const queue = client.queue<ReturnType<typeof payloadOf>>(`bench-cost-${concurrency}`)
  return count(async () => {
    await inBatches(jobs, concurrency, 1, (numbers) =>
      queue.enqueueMany(numbers.map((nth) => ({ payload: payloadOf(nth) }))),
    )
    const { done, count: countOne } = countdown(jobs)
    const consumer = queue.consume(() => {}, { concurrency })
    consumer.on('completed', countOne)
    await done
    await consumer.stop()
  })
}

async function countPeer({ count }: Counted, peer: Peer): Promise<Counts> {
  const counts = await count(async () => {
    await peer.produce(peer.jobs)
    await (await peer.prepareConsumers(peer.jobs)).work()
  })
  await peer.close()
  return counts
}

/** BullMQ does not go through the bridge: Redis itself counts, commands inside scripts included. */
async function countBullmq({ redisUrl }: Counted, jobs: number): Promise<number> {
  const redis = new Redis(redisUrl)
  const peer = bullmq(Number(new URL(redisUrl).port), { batch: 100, concurrency: 50, workers: 1, jobs })
  const consumers = await peer.prepareConsumers(jobs)
  await redis.config('RESETSTAT')
  await peer.produce(jobs)
  await consumers.work()
  const stats = await redis.info('commandstats')
  await consumers.stop()
  await peer.close()
  redis.disconnect()
  return [...stats.matchAll(/:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0)
}

async function countIdleConsumer({ client, count }: Counted, ms: number): Promise<Counts> {
  let stop = async (): Promise<void> => {}
  const counts = await count(async () => {
    const consumer = client.queue('bench-idle').consume(() => {})
    stop = () => consumer.stop()
    await setTimeout(ms)
  })
  await stop()
  return counts
}

/** Commands of one run of the cron once it knows that the queues are idle. */
async function countIdleQueues({ client, worker, count }: Counted): Promise<number> {
  await Promise.all(
    Array.from({ length: IDLE_QUEUES }, async (_, nth) => {
      const queue = client.queue(`bench-rest-${nth}`)
      await queue.enqueue({})
      for (const job of await queue.claim()) await queue.complete(job)
    }),
  )
  // The first run of an isolate does more, and the second still plans what the first visited.
  await worker.runScheduled()
  await worker.runScheduled()
  const { commands } = await count(() => worker.runScheduled())
  return commands
}
