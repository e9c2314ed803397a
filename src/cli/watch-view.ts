/** What `watch` derives from its readings: pace and backlog, and how they are shown. Pure. */
import type { QueueStats } from '../client/index.ts'
import { bar } from './terminal.ts'
import { formatDuration } from './values.ts'

export type Trend = {
  /** Jobs that are not done yet: pending, active and scheduled. */
  readonly backlog: number
  /** The largest backlog so far. */
  readonly peak: number
  /** Completed jobs per second, over the last readings. */
  readonly perSecond: number
}

/** The pace is an average over this many readings. */
const PACE_READINGS = 10

/** Follows a queue: takes one reading after another and returns the trend. */
export function createTrend(): (atMs: number, stats: QueueStats) => Trend {
  const readings: { readonly atMs: number; readonly completed: number }[] = []
  let peak = 0
  return (atMs, { counts, completed }) => {
    readings.push({ atMs, completed })
    if (readings.length > PACE_READINGS) readings.shift()
    const [first = { atMs, completed }] = readings
    const seconds = (atMs - first.atMs) / 1000
    const backlog = counts.pending + counts.active + counts.scheduled
    peak = Math.max(peak, backlog)
    return { backlog, peak, perSecond: seconds > 0 ? Math.max(0, completed - first.completed) / seconds : 0 }
  }
}

function numbersOf({ counts, completed, failed }: QueueStats): [string, number][] {
  return Object.entries({ ...counts, completed, failed })
}

function paceText({ perSecond }: Trend): string {
  return `${Number(perSecond.toFixed(1))}/s`
}

/** One reading as a line. */
export function watchLine(stats: QueueStats, trend: Trend): string {
  const numbers = numbersOf(stats).map(([name, value]) => `${name} ${value}`)
  return [...numbers, paceText(trend), ...(stats.paused ? ['paused'] : [])].join('  ')
}

/** One reading as the lines of a screen. */
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
