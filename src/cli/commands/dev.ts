/**
 * `echomq-edge dev`: the local stack for users of the package, without a clone.
 *
 * It is the project's own command. Everything that it needs beyond the package is an optional peer dependency; when one
 * is missing, the error names the command that installs it. The Worker is built into the package.
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
    .summary('run a working queue on this machine')
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
  // Checked first, because an older Node cannot use the packages.
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE)
    throw new Error(`The local stack needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.`)
  const missing = PACKAGE.optionalPeers.filter(([name]) => !isInstalled(name))
  if (missing.length === 0) return
  const packages = missing.map(([name, range]) => `${name}@${range}`).join(' ')
  throw new Error(
    `The local stack needs more packages. In the project where echomq-edge is installed, run:\n\n  npm install --save-dev ${packages}\n\nA global copy, or one that npx fetched (\`npx -p\`), does not see them.`,
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

/** The Worker that `npm pack` put beside this file. A clone has none, and builds it from the sources. */
function builtWorker(): (() => BuiltWorker) | undefined {
  const file = new URL('worker.json', import.meta.url)
  if (!existsSync(file)) return undefined
  return () => {
    const { assetsBinding: binding, ...built } = JSON.parse(readFileSync(file, 'utf8'))
    const directory = fileURLToPath(new URL('../assets', import.meta.url))
    return binding === undefined ? built : { ...built, assets: { binding, directory } }
  }
}
