/** Reads the values of arguments and options, and rejects a malformed one in one sentence. */
import { InvalidArgumentError } from 'commander'
import { UsageError } from './failure.ts'

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `500ms`, `30s`, `5m`, `2h`, `7d` -> milliseconds. A number without a unit is rejected as ambiguous. */
export function parseDuration(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? []
  if (number === undefined)
    throw new InvalidArgumentError('It must be a number with a unit: 500ms, 30s, 5m, 2h, 7d.')
  return Math.round(Number(number) * UNIT_MS[unit as keyof typeof UNIT_MS])
}

/** An integer in decimal digits. */
export function parseCount(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be an integer in decimal digits.')
  return Number(text)
}

/** A limit: 1 or more. */
export function parseLimit(text: string): number {
  const limit = parseCount(text)
  if (limit === 0) throw new InvalidArgumentError('It must be 1 or more.')
  return limit
}

/** A fencing token. A `UsageError`, because commander's own text about arguments is hard to read. */
export function parseToken(text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError('The fencing token is a number: claim prints it beside the id of the job.')
  return Number(text)
}

const INSTANT = /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/

/** `Date.parse` reads 30 February as 2 March. */
function isDay(text: string): boolean {
  const ms = Date.parse(text)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
}

/** RFC 3339 with a zone -> epoch ms. Without a zone the text would mean another instant on each machine. */
export function parseInstant(text: string): number {
  const ms = INSTANT.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(ms) || !isDay(text.slice(0, 10)))
    throw new InvalidArgumentError('It must be an instant with a zone, such as 2026-11-29T15:00:00Z.')
  return ms
}

/** A list with commas. */
export function parseList(text: string): readonly string[] {
  return text.split(',')
}

/** Milliseconds in the largest unit that is not above them, with at most one decimal: `1.5s`, `30s`, `12m`. */
export function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(UNIT_MS)
    .reverse()
    .find(([, size]) => ms >= size) ?? ['ms', 1]
  return `${Number((ms / size).toFixed(1))}${unit}`
}
