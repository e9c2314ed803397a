/** `echomq-edge release`: gives a claimed job back as if it had not been claimed. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'
import { parseDuration, parseToken } from '../values.ts'

type Options = ConnectionOptions & { readonly delay?: number; readonly json?: true }

export function releaseCommand(): Command {
  return new Command('release')
    .summary('give a claimed job back, untried')
    .description('Gives a job back as if it had not been claimed: it costs no attempt.')
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .argument('<token>', 'that the claim gave with the job', parseToken)
    .option('--delay <duration>', 'how long it then waits (default: not at all)', parseDuration)
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the job is gone, with 4 when the token is not the live one.

Example:
  $ echomq-edge release emails JOB0KHTOWnGLuC 1`,
    )
    .action(run)
}

async function run(name: string, id: string, token: number, { delay, json, ...options }: Options) {
  await queueOf(name, options).release({ id, token }, { delayMs: delay })
  const status = delay ? 'scheduled' : 'pending'
  if (json) printJson({ id, status })
  else print(`${id} ${status}`)
}
