/**
 * Metrics as Prometheus text, format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * Client libraries keep counters in the memory of a process, which an isolate does not have. All values come from
 * Redis. Queue names contain no character that a label must escape.
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
    help: 'Time since the earliest due job or lapsed lease, which waits for a sweep.',
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
    help: 'Jobs moved to dead.',
    samples: ({ failed }) => [['', failed]],
  },
  {
    name: 'echomq_ghosts_total',
    type: 'counter',
    help: 'Ghosts removed.',
    samples: ({ ghosts }) => [['', ghosts]],
  },
  {
    name: 'echomq_paused',
    type: 'gauge',
    help: '1 if the queue is paused.',
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
