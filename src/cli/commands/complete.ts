/** `echomq-edge complete`: says that a claimed job is done. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { EXIT } from '../exit-codes.ts'
import { print, printJson } from '../output.ts'
import { parseToken } from '../values.ts'

type Options = ConnectionOptions & { readonly json?: true }

export function completeCommand(): Command {
  return new Command('complete')
    .summary('say that a claimed job is done')
    .description('Says that a job is done: nothing of it remains.')
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .argument('<token>', 'that the claim gave with the job', parseToken)
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the job is gone (it may have been completed before), with 4 when the token is not the live one.

Example:
  $ echomq-edge complete emails JOB0KHTOWnGLuC 1`,
    )
    .action(run)
}

async function run(name: string, id: string, token: number, options: Options): Promise<void> {
  const status = await queueOf(name, options).complete({ id, token })
  if (status === 'gone') process.exitCode = EXIT.nothing
  if (options.json) printJson({ id, status })
  else print(`${id} ${status}`)
}
