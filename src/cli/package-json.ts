/** What the command line must know of the package it is in. */
import { readFileSync } from 'node:fs'

// Two folders up from here and from where it is built to.
const { version, peerDependencies, peerDependenciesMeta } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

export const PACKAGE = {
  version: String(version),
  /** Name and range of each. */
  optionalPeers: Object.entries(peerDependencies as Record<string, string>).filter(
    ([name]) => peerDependenciesMeta[name]?.optional === true,
  ),
}
