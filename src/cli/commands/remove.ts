/** `echomq-edge remove`: deletes a job for good. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, transportTo, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'

type Options = ConnectionOptions & { readonly json?: true }

export function removeCommand(): Command {
  return new Command('remove')
    .summary('delete a job for good')
    .description(
      'Deletes a job that no live lease holds, whatever state it is in. It cannot be brought back.',
    )
    .argument('<queue>')
    .argument('<id>', 'of the job')
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Exits with 3 when the job is gone (it may have been deleted before), with 4 when a live lease holds it.

Example:
  $ echomq-edge remove emails JOB0KHTOWnGLuC`,
    )
    .action(run)
}

async function run(queueName: string, id: string, { json, ...options }: Options): Promise<void> {
  const { name } = queueOf(queueName, options)
  const { repeat, send } = transportTo(options, deleting)
  await repeat(() => send(`/v1/queues/${name}/jobs/${encodeURIComponent(id)}`, 'status'))
  if (json) printJson({ id, status: 'removed' })
  else print(`${id} removed`)
}

/** The API answers a deletion with 204 and nothing; the client takes only JSON for an answer. */
async function deleting(address: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(address, { ...init, method: 'DELETE' })
  return answer.status === 204 ? Response.json({ status: 'removed' }) : answer
}
