/** `echomq-edge retry`: gives a claimed job back to be tried again. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'
import { parseCount, parseDuration, parseToken } from '../values.ts'

type Options = ConnectionOptions & {
  readonly error?: string
  readonly delay?: number
  readonly maxAttempts?: number
  readonly json?: true
}

export function retryCommand(): Command {
  return new Command('retry')
    .summary('give a claimed job back to be tried again')
    .description(
      'Gives a job back to be tried again. It prints `scheduled`, or `dead` when the job has been tried often enough.',
    )
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .argument('<token>', 'that the claim gave with the job', parseToken)
    .option('--error <text>', 'what went wrong')
    .option('--delay <duration>', "how long to wait (default: the queue's backoff)", parseDuration)
    .option(
      '--max-attempts <count>',
      "how often it may be started (default: the job's, then the queue's)",
      parseCount,
    )
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 4 when the token is not the live one.

Examples:
  $ echomq-edge retry emails JOB0KHTOWnGLuC 1 --error 'mail server busy'
  $ echomq-edge retry emails JOB0KHTOWnGLuC 1 --delay 10m`,
    )
    .action(run)
}

async function run(name: string, id: string, token: number, options: Options): Promise<void> {
  const { error, delay, maxAttempts, json } = options
  const job = { id, token }
  const status = await queueOf(name, options).retry(job, { error, delayMs: delay, maxAttempts })
  if (json) printJson({ id, status })
  else print(`${id} ${status}`)
}
