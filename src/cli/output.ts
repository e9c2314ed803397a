/**
 * What the commands print: results on stdout, everything else on stderr. With --json each result is one line of JSON.
 *
 * Stored text never reaches a terminal with control characters.
 */
import type { Job, JobView } from '../client/index.ts'

/** A job whose payload was read as text. */
type TextJob = Omit<Job<string> | JobView<string>, 'payload'> & { readonly payload?: string | undefined }

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** Replaces the characters that would control a terminal. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (character) => (character === '\t' ? ' ' : '\ufffd'))
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
  return plain(isJson(text) ? oneLine(text) : text)
}

/** Prints rows as aligned columns. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    const cells = row.map((cell, column) => cell.padEnd(widths[column] ?? 0))
    print(cells.join('  ').trimEnd())
  }
}
