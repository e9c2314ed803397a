/** The parts of package.json that the command line needs. */
import { readFileSync } from 'node:fs'

// Two folders up, from the source and from the built file.
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
