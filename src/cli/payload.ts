/**
 * Reads payloads: an argument, `@file`, or stdin. Bytes that are not UTF-8 are rejected, never replaced.
 */
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { UsageError } from './failure.ts'

/** The text of an argument; without one, or with `-`, all of stdin. */
export async function readText(argument: string | undefined): Promise<string> {
  if (argument !== undefined && argument !== '-' && !argument.startsWith('@')) return argument
  const bytes = argument?.startsWith('@') ? await readInput(argument.slice(1)) : await readStdin()
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new UsageError('The payload is not UTF-8.')
  }
}

async function readInput(file: string): Promise<Buffer> {
  try {
    return await readFile(file)
  } catch (error) {
    throw new UsageError(`The file cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function readStdin(): Promise<Buffer> {
  if (process.stdin.isTTY)
    throw new UsageError('The payload is missing: give it as an argument, as @file, or on stdin.')
  return buffer(process.stdin)
}

/** JSON exactly as it was written, without the space around it; undefined when the text is not JSON. */
export function jsonOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return text.trim()
  } catch {
    // The parser's own message would quote the payload.
    return undefined
  }
}
