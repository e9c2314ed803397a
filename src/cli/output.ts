/**
 * What the commands print: results on stdout, everything else on stderr. With --json each result is one line of JSON.
 *
 * Stored text never reaches a terminal with control characters.
 */
import type { Job, JobView } from '../client/index.ts'

/** A job whose payload was read as text. */
type TextJob = Omit<Job<string> | JobView<string>, 'payload'> & { readonly payload?: string | undefined }

export function print(line: string): void {
  process.stdout.write(`${escapedLines(line)}\n`)
}

/** Prints a message on stderr. */
export function printError(text: string): void {
  process.stderr.write(`${escapedLines(text)}\n`)
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** Characters that control a terminal, break lines, or change the direction of text. */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Writes unsafe characters as JSON writes them in strings, such as \u001b: a line of JSON keeps its meaning. */
export function plain(text: string): string {
  return text.replace(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function escapedLines(text: string): string {
  return text.split('\n').map(plain).join('\n')
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** JSON on one line: a line break in JSON is always between two tokens. */
function oneLine(json: string): string {
  return json.replace(/[\r\n\t]/g, ' ')
}

/** A job as a line of JSON, as the API returns it; the payload keeps every stored digit. */
export function jobJson({ payload: given, text = given, ...job }: TextJob): string {
  if (text === undefined) return JSON.stringify(job)
  if (!isJson(text)) return JSON.stringify({ ...job, text })
  return `${JSON.stringify(job).slice(0, -1)},"payload":${oneLine(text)}}`
}

/** The payload for people. */
export function payloadText({ payload, text = payload, base64 }: TextJob): string {
  if (text === undefined) return base64 === undefined ? '' : `base64 ${base64}`
  return isJson(text) ? oneLine(text) : plain(text)
}

/** Prints rows as aligned columns. */
export function printTable(cells: readonly (readonly string[])[]): void {
  const rows = cells.map((row) => row.map(plain))
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    const padded = row.map((cell, column) => cell.padEnd(widths[column] ?? 0))
    print(padded.join('  ').trimEnd())
  }
}
