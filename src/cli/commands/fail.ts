/** `echomq-edge fail`: puts a claimed job among the dead letters. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'
import { parseToken } from '../values.ts'

type Options = ConnectionOptions & { readonly error?: string; readonly json?: true }

export function failCommand(): Command {
  return new Command('fail')
    .summary('put a claimed job among the dead letters')
    .description('Puts a job among the dead letters: it is not tried again until somebody redrives it.')
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .argument('<token>', 'that the claim gave with the job', parseToken)
    .option('--error <text>', 'what went wrong')
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the job is gone, with 4 when the token is not the live one.

Example:
  $ echomq-edge fail emails JOB0KHTOWnGLuC 1 --error 'no such address'`,
    )
    .action(run)
}

async function run(name: string, id: string, token: number, { error, json, ...options }: Options) {
  await queueOf(name, options).fail({ id, token }, { error })
  if (json) printJson({ id, status: 'dead' })
  else print(`${id} dead`)
}
