/** What the command line must know of the package it is in. */
import { readFileSync } from 'node:fs'

// Two folders up from here and from where it is built to.
const { version, devDependencies } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

export const PACKAGE = {
  version: String(version),
  /** The version of workerd's host that the local stack is tested with. */
  miniflare: String(devDependencies.miniflare),
}
