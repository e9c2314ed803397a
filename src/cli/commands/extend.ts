/** `echomq-edge extend`: makes the lease of a claimed job end later. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'
import { formatDuration, parseDuration, parseToken } from '../values.ts'

type Options = ConnectionOptions & { readonly lease: number; readonly json?: true }

export function extendCommand(): Command {
  return new Command('extend')
    .summary('keep a claimed job for longer')
    .description('Makes the lease of a job end so long from now.')
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .argument('<token>', 'that the claim gave with the job', parseToken)
    .requiredOption('--lease <duration>', 'how long, from now, up to 24h', parseDuration)
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the job is gone, with 4 when the token is not the live one.

Example:
  $ echomq-edge extend emails JOB0KHTOWnGLuC 1 --lease 10m`,
    )
    .action(run)
}

async function run(name: string, id: string, token: number, { lease, json, ...options }: Options) {
  const leaseMs = await queueOf(name, options).extend({ id, token }, lease)
  if (json) printJson({ id, status: 'extended', leaseMs })
  else print(`${id} extended  ${formatDuration(leaseMs)}`)
}
