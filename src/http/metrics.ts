/**
 * Metrics as Prometheus text, format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * Written here and not by a client library: those keep counters in the memory of a process and read its platform,
 * and an isolate has neither. What is exposed is what Redis holds. Queue names cannot hold what a label must escape.
 */
import { mintedAt } from '../protocol/ids.ts'
import type { QueueStats } from '../queue/observe.ts'

type Family = {
  readonly name: string
  readonly type: 'gauge' | 'counter'
  readonly help: string
  readonly samples: (
    stats: QueueStats,
    nowMs: number,
  ) => readonly (readonly [labels: string, value: number])[]
}

const seconds = (ms: number): number => Math.max(0, ms) / 1000

const FAMILIES: readonly Family[] = [
  {
    name: 'echomq_jobs',
    type: 'gauge',
    help: 'Jobs by state.',
    samples: ({ counts }) => Object.entries(counts).map(([state, count]) => [`,state="${state}"`, count]),
  },
  {
    name: 'echomq_oldest_pending_age_seconds',
    type: 'gauge',
    help: 'Age of the oldest pending job.',
    samples: ({ oldestPending }, nowMs) => [
      ['', oldestPending === undefined ? 0 : seconds(nowMs - mintedAt(oldestPending))],
    ],
  },
  {
    name: 'echomq_sweep_lag_seconds',
    type: 'gauge',
    help: 'How long the job that is due or the lease that has lapsed longest ago has waited for a sweep.',
    samples: ({ nextDueMs, nextLapseMs }, nowMs) => [
      ['', seconds(nowMs - Math.min(nextDueMs ?? nowMs, nextLapseMs ?? nowMs))],
    ],
  },
  {
    name: 'echomq_completed_total',
    type: 'counter',
    help: 'Jobs completed.',
    samples: ({ completed }) => [['', completed]],
  },
  {
    name: 'echomq_failed_total',
    type: 'counter',
    help: 'Jobs that died.',
    samples: ({ failed }) => [['', failed]],
  },
  {
    name: 'echomq_ghosts_total',
    type: 'counter',
    help: 'Ids met without a row, and dropped.',
    samples: ({ ghosts }) => [['', ghosts]],
  },
  {
    name: 'echomq_paused',
    type: 'gauge',
    help: '1 while the queue is paused.',
    samples: ({ paused }) => [['', paused ? 1 : 0]],
  },
]

/** The metrics of these queues. */
export function metricsText(queues: readonly QueueStats[], nowMs: number): string {
  return FAMILIES.flatMap(({ name, type, help, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...queues.flatMap((stats) =>
      samples(stats, nowMs).map(([labels, value]) => `${name}{queue="${stats.queue}"${labels}} ${value}`),
    ),
  ])
    .map((line) => `${line}\n`)
    .join('')
}
