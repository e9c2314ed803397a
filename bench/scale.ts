/** Whether size matters: long queues, many queues, and the memory of a job. */

import { Redis } from 'ioredis'
import { createMinter } from '../src/protocol/ids.ts'
import { keyspace } from '../src/protocol/keys.ts'
import { createBridge } from '../src/stack/bridge/bridge.ts'
import { startRedis } from '../src/stack/redis-server.ts'
import { type HttpRequest, load } from './connection.ts'
import { openCounted } from './counted.ts'
import { apiRequest, hostWorker, type Lab, payloadOf, TOKEN } from './lab.ts'
import { bullmq } from './peers/bullmq.ts'
import type { Section } from './report.ts'
import { type Contender, once, ratio, takeTurns } from './statistics.ts'

/** Jobs that are pending, and as many that are scheduled, in powers of ten. */
const POWERS = [3, 4, 5, 6]
const QUICK_POWERS = [3, 4]
const REQUESTS = 100
const JOBS_IN_MEMORY = 20_000
const QUEUES = 1000
const HOUR_MS = 3_600_000
const COPIES_PER_CALL = 5000

const VERBS = {
  enqueue: (queue: string) => apiRequest(queue, '/jobs', { payload: payloadOf(0) }),
  claim: (queue: string) => apiRequest(queue, '/claim', { limit: 1, leaseMs: HOUR_MS }),
  'browse pending': (queue: string) => apiRequest(queue, '/jobs?state=pending&limit=50'),
  'browse scheduled': (queue: string) => apiRequest(queue, '/jobs?state=scheduled&limit=50'),
  stats: (queue: string) => apiRequest(queue, ''),
} satisfies Record<string, (queue: string) => HttpRequest>

export async function measureScale(lab: Lab): Promise<Section> {
  const { effort } = lab
  const powers = effort.rounds === 1 ? QUICK_POWERS : POWERS
  const memory = await measureMemory(lab, effort.of(JOBS_IN_MEMORY))
  const queues = await measureManyQueues(lab, effort.of(QUEUES))

  for (const power of powers) await fill(lab, queueOf(power), 10 ** power)
  // The sizes of one verb take turns next to each other: they are compared.
  const contenders: Contender[] = Object.entries(VERBS).flatMap(([verb, request]) =>
    powers.map((power) => ({
      name: `${verb} ${power}`,
      async run() {
        const requests = Array.from({ length: effort.of(REQUESTS) }, () => request(queueOf(power)))
        const { p50, p99 } = await load(lab.worker.url, 1, requests)
        return { p50: [p50, 'ms'], p99: [p99, 'ms'] }
      },
    })),
  )
  const figures = await takeTurns(contenders, effort.rounds)
  const [first = 3] = powers
  const last = powers.at(-1) ?? first
  const growth = (verb: string) =>
    ratio(figures(`${verb} ${last}`, 'p50'), figures(`${verb} ${first}`, 'p50'))

  return {
    title: 'Whether size matters',
    notes: [
      'Each queue has so many pending jobs and as many scheduled jobs. Requests go one by one over one connection.',
      `A page of jobs has 50. Memory is what Redis reports for ${effort.of(JOBS_IN_MEMORY)} pending jobs with the same payload.`,
    ],
    tables: [
      {
        columns: [
          'p50 of a request',
          ...powers.map((power) => `${(10 ** power).toLocaleString('en-US')} jobs`),
          `10^${last} beside 10^${first}`,
        ],
        rows: Object.keys(VERBS).map((verb) => [
          verb,
          ...powers.map((power) => figures(`${verb} ${power}`, 'p50')),
          growth(verb),
        ]),
      },
      {
        columns: ['a pending job', 'memory'],
        rows: [
          ['EchoMQ Edge', once(memory.ours, 'bytes')],
          ['BullMQ', once(memory.bullmq, 'bytes')],
        ],
      },
      {
        columns: [`with ${effort.of(QUEUES)} queues`, 'value'],
        rows: [
          ['first page of `GET /v1/queues`, p50', once(queues.listMs, 'ms')],
          ['enqueue into one queue after the other, p50', once(queues.enqueueMs, 'ms')],
          ['run of the cron, with a pending job in each queue', once(queues.cronMs, 'ms')],
          ['commands of this run', once(queues.cronCommands, 'count')],
        ],
      },
    ],
    charts: [
      {
        kind: 'lines',
        file: 'scale',
        title: 'p50 of a request by the number of pending and scheduled jobs',
        x: powers,
        lines: Object.keys(VERBS).map((verb) => ({
          label: verb,
          values: powers.map((power) => figures(`${verb} ${power}`, 'p50')),
        })),
      },
    ],
    targets: [
      {
        figure: `claim p50 at 10^${last} pending beside 10^${first}`,
        value: growth('claim'),
        limit: 'at most',
        target: 1.2,
      },
      {
        figure: 'memory of a pending job beside BullMQ',
        value: once(memory.ours / memory.bullmq, 'x'),
        limit: 'at most',
        target: 0.95,
      },
    ],
  }
}

const queueOf = (power: number): string => `bench-scale-${power}`

/** Copies one job of the API, in Redis, until there are so many pending and scheduled. */
async function fill({ worker, redis: { url } }: Lab, queue: string, jobs: number): Promise<void> {
  const redis = new Redis(url)
  const keys = keyspace(queue)
  const minter = createMinter()
  const models = [
    { zset: keys.pending, model: await worker.client.queue(queue).enqueue(payloadOf(0)) },
    {
      zset: keys.schedule,
      model: await worker.client.queue(queue).enqueue(payloadOf(0), { delayMs: 24 * HOUR_MS }),
    },
  ]
  try {
    for (const { zset, model } of models) {
      for (let made = 1; made < jobs; made += COPIES_PER_CALL) {
        const ids = Array.from({ length: Math.min(COPIES_PER_CALL, jobs - made) }, () => minter.mint())
        await redis.eval(COPY, 2, zset, keys.job(model.id), keys.jobPrefix, model.id, ...ids)
      }
    }
  } finally {
    redis.disconnect()
  }
}

const COPY = `
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
for i = 3, #ARGV do
  redis.call('COPY', KEYS[2], ARGV[1] .. ARGV[i])
  redis.call('ZADD', KEYS[1], score, ARGV[i])
end
`

/** Bytes that Redis uses more for each pending job. */
async function measureMemory({ built }: Lab, jobs: number): Promise<{ ours: number; bullmq: number }> {
  await using parts = new AsyncDisposableStack()
  const server = await startRedis()
  parts.defer(server.stop)
  const bridge = await createBridge({ redisUrl: server.url, token: 'bench-memory' })
  parts.defer(bridge.stop)
  const worker = await hostWorker(built, { restUrl: bridge.url, restToken: bridge.token })
  parts.defer(worker.stop)
  const redis = new Redis(server.url)
  parts.defer(() => redis.disconnect())

  async function perJob(warmUp: () => Promise<unknown>, produce: () => Promise<unknown>): Promise<number> {
    await redis.flushall()
    await warmUp()
    const before = await usedMemory(redis)
    await produce()
    return ((await usedMemory(redis)) - before) / jobs
  }
  const queue = worker.client.queue('bench-memory')
  const ours = await perJob(
    () => queue.enqueueMany([{ payload: payloadOf(0) }]),
    () => queue.enqueueMany(Array.from({ length: jobs }, (_, nth) => ({ payload: payloadOf(nth) }))),
  )
  const peer = bullmq(server.port, { batch: 1000, concurrency: 1, workers: 1, jobs })
  const theirs = await perJob(
    () => peer.produce(1000),
    () => peer.produce(jobs),
  )
  await peer.close()
  return { ours, bullmq: theirs }
}

async function usedMemory(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
}

async function measureManyQueues(lab: Lab, queues: number) {
  await using parts = new AsyncDisposableStack()
  const counted = await openCounted(lab)
  parts.defer(counted.stop)
  const { worker, count } = counted
  const enqueues = Array.from({ length: queues }, (_, nth) =>
    apiRequest(`bench-many-${nth}`, '/jobs', { payload: payloadOf(nth) }),
  )
  await load(worker.url, 8, enqueues)
  const enqueue = await load(worker.url, 1, enqueues.slice(0, REQUESTS))
  const list = await load(
    worker.url,
    1,
    Array.from({ length: 20 }, () => ({ path: '/v1/queues', token: TOKEN })),
  )
  // The first run of an isolate does more.
  await worker.runScheduled()
  const startedAt = performance.now()
  const { commands } = await count(() => worker.runScheduled())
  return {
    enqueueMs: enqueue.p50,
    listMs: list.p50,
    cronMs: performance.now() - startedAt,
    cronCommands: commands,
  }
}
