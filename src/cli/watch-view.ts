/** What `watch` makes of what it sees: pace and backlog, and how they are shown. Pure. */
import type { QueueStats } from '../client/index.ts'
import { bar } from './progress.ts'
import { formatDuration } from './values.ts'

export type Trend = {
  /** Jobs that are not done yet: pending, active and scheduled. */
  readonly backlog: number
  /** The largest backlog so far. */
  readonly peak: number
  /** Completed jobs in a second, over the last looks. */
  readonly perSecond: number
}

/** Looks over which the pace is taken. */
const PACE_LOOKS = 10

/** Follows a queue: takes one look after the other and says where it is going. */
export function createTrend(): (atMs: number, stats: QueueStats) => Trend {
  const looks: { readonly atMs: number; readonly completed: number }[] = []
  let peak = 0
  return (atMs, { counts, completed }) => {
    looks.push({ atMs, completed })
    if (looks.length > PACE_LOOKS) looks.shift()
    const [first = { atMs, completed }] = looks
    const seconds = (atMs - first.atMs) / 1000
    const backlog = counts.pending + counts.active + counts.scheduled
    peak = Math.max(peak, backlog)
    return { backlog, peak, perSecond: seconds > 0 ? Math.max(0, completed - first.completed) / seconds : 0 }
  }
}

const numbersOf = ({ counts, completed, failed }: QueueStats): [string, number][] =>
  Object.entries({ ...counts, completed, failed })

const paceText = ({ perSecond }: Trend): string => `${Number(perSecond.toFixed(1))}/s`

/** One look as a line. */
export function watchLine(stats: QueueStats, trend: Trend): string {
  const numbers = numbersOf(stats).map(([name, value]) => `${name} ${value}`)
  return [...numbers, paceText(trend), ...(stats.paused ? ['paused'] : [])].join('  ')
}

/** One look as the lines of a screen. */
export function watchScreen(stats: QueueStats, trend: Trend): string[] {
  const { backlog, peak, perSecond } = trend
  const left = backlog > 0 && perSecond > 0 ? `  ${formatDuration((backlog / perSecond) * 1000)} left` : ''
  return [
    stats.paused ? `${stats.queue}  (paused)` : stats.queue,
    ...numbersOf(stats).map(([name, value]) => `${name.padEnd(10)} ${value}`),
    `pace       ${paceText(trend)}`,
    ...(backlog < peak ? [`drained    ${bar(peak - backlog, peak)}${left}`] : []),
  ]
}
