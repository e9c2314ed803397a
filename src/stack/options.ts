/** What the commands' options have in common: how their values are read. */

import { statSync } from 'node:fs'
import { InvalidArgumentError } from 'commander'

const MAX_PORT = 65_535

/** A port in decimal digits. */
export function parsePort(text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > MAX_PORT) {
    throw new InvalidArgumentError(`It must be a number from 0 to ${MAX_PORT}; 0 is any free port.`)
  }
  return port
}

/** A URL of one of the protocols. */
export function parseUrl(...protocols: readonly string[]): (text: string) => string {
  return (text) => {
    if (protocols.includes(URL.parse(text)?.protocol ?? '')) return text
    throw new InvalidArgumentError(`It must be a URL that begins with ${protocols.join('// or ')}//.`)
  }
}

/** A folder, which need not be there yet. */
export function parseFolder(path: string): string {
  if (path === '') throw new InvalidArgumentError('It must be the path of a folder.')
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined && !found.isDirectory())
    throw new InvalidArgumentError('It is there, and no folder.')
  return path
}

/** A list with commas. */
export function parseList(text: string): readonly string[] {
  return text.split(',')
}
