/**
 * Payloads as they are given: an argument, `@file`, or stdin. Bytes that are not UTF-8 are refused, never replaced.
 */
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { UsageError } from './usage-error.ts'

/** The text that an argument stands for; without one, or with `-`, all of stdin. */
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
    throw new UsageError('There is no payload: give it as an argument, as @file, or on stdin.')
  return buffer(process.stdin)
}

/** JSON as it was written, every digit of it, without the space around it; undefined when it is none. */
export function jsonOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return text.trim()
  } catch {
    // The parser's own words would quote the payload.
    return undefined
  }
}
