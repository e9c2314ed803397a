/** Whole lives of jobs: enqueued, claimed and completed, beside the peers. Each with its own best settings. */

import type { Lab } from './lab.ts'
import { bullmq } from './peers/bullmq.ts'
import { echomq } from './peers/echomq.ts'
import { graphileWorker } from './peers/graphile-worker.ts'
import type { Peer } from './peers/peer.ts'
import { pgBoss } from './peers/pg-boss.ts'
import { upstashQueue } from './peers/upstash-queue.ts'
import { findPostgres, startPostgres } from './postgres.ts'
import type { Rounds, Section } from './report.ts'
import { type Contender, type Figures, median, ratio, takeTurns } from './statistics.ts'

const BATCH = 100
/** Lives a round, where jobs go one by one, and in batches. */
const FEW = 100
const MANY = 4000

export async function measureLives(lab: Lab): Promise<Section> {
  await using parts = new AsyncDisposableStack()
  const few = lab.effort.of(FEW)
  const many = lab.effort.of(MANY)
  const program = findPostgres()
  const postgres = program && (await startPostgres(program))
  if (postgres) parts.defer(postgres.stop)

  const port = lab.redis.port
  const ours = echomq(lab.worker, { batch: BATCH, consumers: 8, jobs: many })
  const oneByOne = [
    echomq(lab.worker, { batch: 1, consumers: 1, jobs: few }),
    echomq(lab.worker, { batch: 1, consumers: 8, jobs: 2 * few }),
    upstashQueue(lab, { consumers: 1, jobs: few }),
    upstashQueue(lab, { consumers: 8, jobs: 2 * few }),
    bullmq(port, { batch: 1, concurrency: 1, workers: 1, jobs: 2 * few }),
    ...(postgres
      ? [
          await pgBoss(postgres, { batch: 1, consumers: 1, jobs: few }),
          await graphileWorker(postgres, { batch: 1, concurrency: 1, jobs: few }),
        ]
      : []),
  ]
  const bulls = [
    bullmq(port, { batch: BATCH, concurrency: 1, workers: 1, jobs: many / 5 }),
    bullmq(port, { batch: BATCH, concurrency: 50, workers: 1, jobs: many / 2 }),
    bullmq(port, { batch: BATCH, concurrency: 200, workers: 1, jobs: many / 2 }),
    bullmq(port, { batch: BATCH, concurrency: 50, workers: 8, jobs: many / 2 }),
  ]
  const inBatches = [
    echomq(lab.worker, { batch: BATCH, consumers: 1, jobs: many / 2 }),
    ours,
    ...bulls,
    ...(postgres
      ? [
          await pgBoss(postgres, { batch: BATCH, consumers: 1, jobs: many / 2 }),
          await pgBoss(postgres, { batch: BATCH, consumers: 8, jobs: many / 2 }),
          await graphileWorker(postgres, { batch: BATCH, concurrency: 50, jobs: many / 2 }),
        ]
      : []),
  ]
  const peers = [...oneByOne, ...inBatches]
  for (const peer of peers) parts.defer(peer.close)

  const figures = await takeTurns(peers.map(contenderOf), lab.effort.rounds)
  const lives = ({ name }: Peer): Rounds => figures(name, 'lives')
  const best = bulls.toSorted((a, b) => median(lives(b).rounds) - median(lives(a).rounds))[0] ?? ours
  const table = (of: readonly Peer[], beside: Peer) => ({
    columns: [
      'queue',
      'lives a second',
      'enqueues a second',
      'claims and completes a second',
      `beside ${beside.name}`,
    ],
    rows: of.map((peer) => [
      peer.name,
      lives(peer),
      figures(peer.name, 'produced'),
      figures(peer.name, 'consumed'),
      peer === beside ? '' : ratio(lives(peer), lives(beside)),
    ]),
  })
  const bull = oneByOne.find(({ name }) => name.startsWith('BullMQ')) ?? ours
  return {
    title: 'Whole lives of jobs',
    notes: [
      'A round first enqueues all its jobs, then starts the consumers. Lives a second count the time of both.',
      'EchoMQ Edge goes through its client, HTTP, workerd, the REST bridge and Redis; @upstash/queue through the REST bridge and Redis. BullMQ speaks TCP to the same Redis. Redis does not write to disk.',
      ...(postgres
        ? ['pg-boss and Graphile Worker use a PostgreSQL on a Unix socket that does not wait for the disk.']
        : ['PostgreSQL is not installed here: pg-boss and Graphile Worker were not measured.']),
      'All clients and handlers run in one Node.js process. A handler does nothing.',
    ],
    tables: [table(oneByOne, bull), table(inBatches, best)],
    charts: [
      barsOf('lives-one-by-one', 'Whole lives a second, one by one', oneByOne, figures),
      barsOf('lives-batches', `Whole lives a second, in batches of ${BATCH}`, inBatches, figures),
    ],
    targets: [
      {
        figure: `whole lives in batches of ${BATCH}, 8 consumers, beside BullMQ's best`,
        value: ratio(lives(ours), lives(best)),
        limit: 'at least',
        target: 1.5,
      },
    ],
  }
}

function contenderOf(peer: Peer): Contender {
  return {
    name: peer.name,
    async run() {
      const startedAt = performance.now()
      await peer.produce(peer.jobs)
      const producedMs = performance.now() - startedAt
      const consumers = await peer.prepareConsumers(peer.jobs)
      const workingAt = performance.now()
      await consumers.work()
      const consumedMs = performance.now() - workingAt
      await consumers.stop()
      const perSecond = (ms: number) => [(peer.jobs * 1000) / ms, '/s'] as const
      return {
        produced: perSecond(producedMs),
        consumed: perSecond(consumedMs),
        lives: perSecond(producedMs + consumedMs),
      }
    },
  }
}

const barsOf = (file: string, title: string, peers: readonly Peer[], figures: Figures) => ({
  kind: 'bars' as const,
  file,
  title,
  bars: peers.map(({ name }) => ({
    label: name,
    value: figures(name, 'lives'),
    isOurs: name.startsWith('EchoMQ'),
  })),
})
