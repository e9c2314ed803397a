/**
 * Reads payloads: an argument, a file, or stdin. Bytes that are not UTF-8 are rejected, never replaced. Input that is
 * too large is rejected before all of it is read.
 */
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { UsageError } from './failure.ts'

const MIB = 1024 * 1024

export type Source = {
  /** The text itself; '-' or undefined: stdin. */
  readonly argument: string | undefined
  /** The path of a file, instead of an argument. */
  readonly file?: string | undefined
  readonly maxMib: number
}

/** @throws {UsageError} when there is no payload, more than one, or one that is too large or not UTF-8. */
export async function readText({ argument, file, maxMib }: Source): Promise<string> {
  if (argument !== undefined && file !== undefined)
    throw new UsageError('There are two payloads: give an argument or --file, not both.')
  if (argument !== undefined && argument !== '-') return argument
  const bytes = await readAll(file === undefined ? stdin() : createReadStream(file), maxMib)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new UsageError('The payload is not UTF-8.')
  }
}

function stdin(): Readable {
  if (process.stdin.isTTY)
    throw new UsageError('The payload is missing: give it as an argument, with --file, or on stdin.')
  return process.stdin
}

async function readAll(input: Readable, maxMib: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of input) {
      bytes += chunk.length
      if (bytes > maxMib * MIB) throw new UsageError(`The payload is larger than ${maxMib} MiB.`)
      chunks.push(chunk)
    }
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(
      `The payload cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  return Buffer.concat(chunks)
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
