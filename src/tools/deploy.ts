/** `npm run deploy`: deploys the Worker with wrangler, or builds it and prints its size (`--dry-run`). */

import { once } from 'node:events'
import { buildWorker, spawnWrangler } from '../stack/wrangler.ts'

/** Our own limit, for a short cold start; Cloudflare's is far higher. */
const MAX_GZIPPED_BYTES = 120 * 1024

/** @param environment A section `[env.NAME]` of wrangler.toml; '' is its top level. */
export async function deploy(environment: string, args: readonly string[]): Promise<void> {
  const [code] = await once(spawnWrangler(['deploy', '--env', environment, ...args], 'inherit'), 'exit')
  process.exitCode = code ?? 1
}

export async function weigh(environment: string): Promise<void> {
  // The build removes its temporary folder on exit, but not when a signal ends the process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  const { bytes, gzippedBytes } = await buildWorker(undefined, environment)
  process.stdout.write(
    `The Worker: ${kilobytes(bytes)}, gzipped ${kilobytes(gzippedBytes)} of at most ${kilobytes(MAX_GZIPPED_BYTES)}.\n`,
  )
  if (gzippedBytes > MAX_GZIPPED_BYTES) throw new Error('The Worker is too large.')
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1000).toFixed(1)} kB`
}
