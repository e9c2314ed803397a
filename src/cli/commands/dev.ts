/**
 * `echomq-edge dev`: the local stack for users of the package, without a clone.
 *
 * It is the project's own command, with a built Worker. It needs one package more, miniflare, checks its version, and
 * says how to install it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { devCommand } from '../../stack/dev-command.ts'
import type { BuiltWorker } from '../../stack/wrangler.ts'
import { PACKAGE } from '../package-json.ts'

/** Older ones cannot run workerd's host. */
const OLDEST_NODE = 22

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
  const installed = installedVersion('miniflare')
  if (installed === PACKAGE.miniflare) return
  const found = installed === undefined ? '' : ` This project has ${installed}.`
  throw new Error(
    `The local stack needs miniflare ${PACKAGE.miniflare}.${found} In the project where echomq-edge is installed, run:\n\n  npm install --save-dev miniflare@${PACKAGE.miniflare}\n\nA copy that npx fetched for once (\`npx -p\`), or that is installed globally, does not see it.`,
  )
}

/** Returns undefined when the package is not installed. */
function installedVersion(name: string): string | undefined {
  let folder: URL
  try {
    folder = new URL('.', import.meta.resolve(name))
  } catch {
    return undefined
  }
  for (; folder.pathname !== '/'; folder = new URL('..', folder)) {
    const file = new URL('package.json', folder)
    const manifest = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
    if (manifest?.name === name) return manifest.version
  }
  return undefined
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
