/** The parts of package.json that the command line needs. */
import { readFileSync } from 'node:fs'

// Two folders up, from the source and from the built file.
const { version, devDependencies } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

export const PACKAGE = {
  version: String(version),
  /** The version of workerd's host that the local stack is tested with. */
  miniflare: String(devDependencies.miniflare),
}
