/**
 * `echomq-edge dev`: the local stack for those who have the package and no clone.
 *
 * It is the project's own command. What it needs beyond the package is an optional peer dependency, and named with
 * the command that installs it when it is missing; the Worker comes built with the package.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { devCommand } from '../../stack/dev-command.ts'
import type { BuiltWorker } from '../../stack/wrangler.ts'
import { PACKAGE } from '../package-json.ts'

const OLDEST_NODE = 24

export function localStackCommand(): Command {
  return devCommand({ prepare, worker: builtWorker() })
    .summary('a working queue on this machine')
    .addHelpText(
      'after',
      `
Its tokens are dev-producer, dev-consumer, dev-observer and dev-operator, each for all queues.

Examples:
  $ echomq-edge dev
  $ echomq-edge dev --port 0 --json --quiet
  $ EMQ_URL=http://127.0.0.1:8787 EMQ_TOKEN=dev-operator echomq-edge stats emails`,
    )
}

/** @throws {Error} that says what to do, when the stack cannot run here. */
function prepare(): void {
  // First, because an older Node has no use for the packages.
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE)
    throw new Error(`The local stack needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.`)
  const missing = PACKAGE.optionalPeers.filter(([name]) => !isInstalled(name))
  if (missing.length === 0) return
  const packages = missing.map(([name, range]) => `${name}@${range}`).join(' ')
  throw new Error(
    `The local stack needs more than the package. In the project where echomq-edge is installed:\n\n  npm install --save-dev ${packages}\n\nA copy that npx fetched for once (\`npx -p\`), or that is installed globally, does not see them.`,
  )
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

/** As `npm pack` put it beside this file; in a clone there is none, and it is built from the sources. */
function builtWorker(): (() => BuiltWorker) | undefined {
  const file = new URL('worker.json', import.meta.url)
  if (!existsSync(file)) return undefined
  return () => {
    const { assetsBinding: binding, ...built } = JSON.parse(readFileSync(file, 'utf8'))
    const directory = fileURLToPath(new URL('../assets', import.meta.url))
    return binding === undefined ? built : { ...built, assets: { binding, directory } }
  }
}
