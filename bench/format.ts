/** Figures as text: the median with its unit, and the spread of the rounds. */

import type { Rounds, Unit } from './report.ts'
import { median } from './statistics.ts'

const SUFFIXES: Readonly<Record<Unit, string>> = {
  '/s': '/s',
  ms: ' ms',
  µs: ' µs',
  x: ' x',
  bytes: ' bytes',
  count: '',
  $: '',
}

/** `1,234/s`: three digits that matter. */
export function format({ unit, rounds }: Rounds): string {
  return `${unit === '$' ? '$' : ''}${digits(median(rounds))}${SUFFIXES[unit]}`
}

/** `1,234/s (1,200 to 1,300)`. One round has no spread. */
export function formatWithSpread(value: Rounds): string {
  const low = digits(Math.min(...value.rounds))
  const high = digits(Math.max(...value.rounds))
  return low === high ? format(value) : `${format(value)} (${low} to ${high})`
}

const digits = (value: number): string =>
  value.toLocaleString('en-US', value >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 })
