/** Parsers for the values of command options. */

import { statSync } from 'node:fs'
import { InvalidArgumentError } from 'commander'

const MAX_PORT = 65_535

/** Parses a port in decimal digits. */
export function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= MAX_PORT) return Number(text)
  throw new InvalidArgumentError(`It must be a number from 0 to ${MAX_PORT}; 0 is any free port.`)
}

/** Makes a parser for URLs with one of the protocols. */
export function parseUrl(...protocols: readonly string[]): (text: string) => string {
  return (text) => {
    if (protocols.includes(URL.parse(text)?.protocol ?? '')) return text
    throw new InvalidArgumentError(`It must be a URL that begins with ${protocols.join('// or ')}//.`)
  }
}

/** Parses the path of a directory, which need not exist. */
export function parseFolder(path: string): string {
  if (path === '') throw new InvalidArgumentError('It must be the path of a directory.')
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new InvalidArgumentError('Not a directory.')
  return path
}

/** Parses a comma-separated list. */
export function parseList(text: string): readonly string[] {
  return text.split(',')
}
