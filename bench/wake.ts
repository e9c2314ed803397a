/** How soon a waiting claim gets a job, and what waiting costs. */

import { setTimeout } from 'node:timers/promises'
import { load } from './connection.ts'
import { type Counted, openCounted } from './counted.ts'
import { apiRequest, hasBinding, hostWorker, type Lab, payloadOf } from './lab.ts'
import type { Rounds, Section } from './report.ts'
import { once, percentile, ratio, takeTurns } from './statistics.ts'

const WAKE_BINDING = 'EMQ_WAKE'
const DELIVERIES = 60
const CROWD = 100
const WAIT_MS = 20_000
/** Time for a claim to begin to wait. It varies, so that no poll has always the same distance to the enqueue. */
const SETTLE_MS = { from: 100, to: 400 }
const DELAY_MS = 3000
const DELAYED = 10
const ENQUEUES = 200

export async function measureWake(lab: Lab): Promise<Section> {
  await using parts = new AsyncDisposableStack()
  const counted = await openCounted(lab)
  parts.defer(counted.stop)
  const { effort } = lab

  const single = await deliverOneByOne(counted, effort.of(DELIVERIES))
  const crowd = await deliverToCrowd(counted, effort.of(CROWD))
  const delayed = await deliverDelayed(counted, effort.of(DELAYED))
  const enqueues = await compareEnqueues(lab)

  const at = (values: readonly number[], share: number): Rounds => once(percentile(values, share), 'ms')
  return {
    title: 'How soon a waiting claim gets a job',
    notes: [
      'The time counts from the response to the enqueue until the client has the job. It is 0 when the job came first.',
      `The crowd is ${effort.of(CROWD)} waiting claims of one queue; as many jobs are enqueued one by one. Calls of scripts are those beside the enqueues, and include claims that found nothing.`,
      'A delayed job counts from the enqueue. Its delay is 3,000 ms.',
      ...enqueues.notes,
    ],
    tables: [
      {
        columns: ['from enqueue to job', 'p50', 'p99'],
        rows: [
          ['one waiting claim', at(single, 0.5), at(single, 0.99)],
          [`one of ${effort.of(CROWD)} waiting claims`, at(crowd.latencies, 0.5), at(crowd.latencies, 0.99)],
          [`job with a delay of ${DELAY_MS} ms`, at(delayed, 0.5), at(delayed, 0.99)],
        ],
      },
      {
        columns: ['crowd', 'value'],
        rows: [
          ['jobs delivered twice', once(crowd.twice, 'count')],
          ['calls of scripts for each job', once(crowd.claimsPerJob, 'count')],
        ],
      },
      ...enqueues.tables,
    ],
    charts: [],
    targets: [
      { figure: 'one waiting claim: p50 in ms', value: at(single, 0.5), limit: 'at most', target: 25 },
      { figure: 'one waiting claim: p99 in ms', value: at(single, 0.99), limit: 'at most', target: 150 },
      {
        figure: '100 waiting claims: p50 in ms',
        value: at(crowd.latencies, 0.5),
        limit: 'at most',
        target: 50,
      },
      {
        figure: '100 waiting claims: claims a job',
        value: once(crowd.claimsPerJob, 'count'),
        limit: 'at most',
        target: 2,
      },
      {
        figure: 'job with a delay of 3,000 ms: latest in ms',
        value: once(Math.max(...delayed), 'ms'),
        limit: 'at most',
        target: 3100,
      },
      {
        figure: 'job with a delay of 3,000 ms: earliest in ms',
        value: once(Math.min(...delayed), 'ms'),
        limit: 'at least',
        target: 3000,
      },
      ...enqueues.targets,
    ],
  }
}

const settle = (): Promise<void> =>
  setTimeout(SETTLE_MS.from + Math.random() * (SETTLE_MS.to - SETTLE_MS.from))

async function deliverOneByOne({ client }: Counted, deliveries: number): Promise<number[]> {
  const queue = client.queue('bench-wake')
  const latencies: number[] = []
  for (let nth = 0; nth < deliveries; nth += 1) {
    const waiting = queue.claim({ waitMs: WAIT_MS }).then(([job]) => ({ job, receivedAt: performance.now() }))
    await settle()
    await queue.enqueue(payloadOf(nth))
    const respondedAt = performance.now()
    const { job, receivedAt } = await waiting
    if (job === undefined) throw new Error('A waiting claim got no job.')
    latencies.push(Math.max(receivedAt - respondedAt, 0))
    await queue.complete(job)
  }
  return latencies
}

async function deliverToCrowd({ client, count }: Counted, size: number) {
  const queue = client.queue<number>('bench-crowd')
  const respondedAt: number[] = []
  const received: { nth: number; at: number }[] = []
  const crowd = Array.from({ length: size }, async () => {
    for (let waited = 0; waited < 2; waited += 1) {
      const [job] = await queue.claim({ waitMs: WAIT_MS, leaseMs: 600_000 })
      if (job === undefined) continue
      received.push({ nth: job.payload, at: performance.now() })
      return
    }
    throw new Error('A waiting claim got no job.')
  })
  // All of them have claimed once and wait.
  await setTimeout(1000)
  const { scripts } = await count(async () => {
    for (let nth = 0; nth < size; nth += 1) {
      await queue.enqueue(nth)
      respondedAt[nth] = performance.now()
    }
    await Promise.all(crowd)
  })
  return {
    latencies: received.map(({ nth, at }) => Math.max(at - (respondedAt[nth] ?? at), 0)),
    twice: received.length - new Set(received.map(({ nth }) => nth)).size,
    claimsPerJob: (scripts - size) / size,
  }
}

/** From the moment before each enqueue, in milliseconds. */
function deliverDelayed({ client }: Counted, jobs: number): Promise<number[]> {
  return Promise.all(
    Array.from({ length: jobs }, async (_, nth) => {
      const queue = client.queue(`bench-delayed-${nth}`)
      const waiting = queue.claim({ waitMs: WAIT_MS })
      await settle()
      const enqueuedAt = performance.now()
      await queue.enqueue(payloadOf(nth), { delayMs: DELAY_MS })
      const [job] = await waiting
      const ms = performance.now() - enqueuedAt
      if (job === undefined) throw new Error('A waiting claim got no delayed job.')
      await queue.complete(job)
      return ms
    }),
  )
}

/** What waking adds to an enqueue: the same requests to the Worker with and without its Durable Object. */
async function compareEnqueues(lab: Lab): Promise<Pick<Section, 'notes' | 'tables' | 'targets'>> {
  if (!hasBinding(lab.built, WAKE_BINDING)) {
    return {
      notes: ['The Worker has no Durable Object: waiting claims poll, and an enqueue wakes nobody.'],
      tables: [],
      targets: [],
    }
  }
  await using parts = new AsyncDisposableStack()
  const worker = await hostWorker(lab.built, lab, { without: WAKE_BINDING })
  parts.defer(worker.stop)
  const requests = Array.from({ length: lab.effort.of(ENQUEUES) }, (_, nth) =>
    apiRequest('bench-woken', '/jobs', { payload: payloadOf(nth) }),
  )
  const contender = (name: string, url: string) => ({
    name,
    async run() {
      return { p50: [(await load(url, 1, requests)).p50, 'ms'] } as const
    },
  })
  const figures = await takeTurns(
    [contender('with', lab.worker.url), contender('without', worker.url)],
    lab.effort.rounds,
  )
  const added = ratio(figures('with', 'p50'), figures('without', 'p50'))
  return {
    notes: [],
    tables: [
      {
        columns: ['enqueue', 'p50'],
        rows: [
          ['with the Durable Object', figures('with', 'p50')],
          ['without it', figures('without', 'p50')],
          ['with it, beside without it', added],
        ],
      },
    ],
    targets: [],
  }
}
