/** `npm run deploy`: deploys the Worker with wrangler; with `--dry-run` it builds it and weighs it. */

import { once } from 'node:events'
import { Command } from 'commander'
import { buildWorker, spawnWrangler } from '../../stack/wrangler.ts'

/** What a cold start may have to load. Cloudflare's own limit is far above. */
const MAX_GZIPPED_BYTES = 120_000

export function deployCommand(): Command {
  return new Command('deploy')
    .description('Deploys the Worker to Cloudflare. Further arguments go to `wrangler deploy`.')
    .option('--dry-run', 'deploy nothing: build the Worker, print its size, fail when it is too large')
    .argument('[arguments...]', 'for wrangler')
    .allowUnknownOption()
    .passThroughOptions()
    .action(run)
}

async function run(
  args: readonly string[],
  options: { readonly dryRun?: boolean },
  command: Command,
): Promise<void> {
  if (options.dryRun) {
    if (args.length > 0) command.error('error: --dry-run takes no further arguments')
    return weigh()
  }
  const [code] = await once(spawnWrangler(['deploy', ...args], 'inherit'), 'exit')
  process.exitCode = code ?? 1
}

async function weigh(): Promise<void> {
  // An exit, unlike the end by a signal, removes what the build has begun.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  const { bytes, gzippedBytes } = await buildWorker()
  process.stdout.write(
    `The Worker: ${kilobytes(bytes)}, gzipped ${kilobytes(gzippedBytes)} of at most ${kilobytes(MAX_GZIPPED_BYTES)}.\n`,
  )
  if (gzippedBytes > MAX_GZIPPED_BYTES) throw new Error('The Worker is too large.')
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1000).toFixed(1)} kB`
}
