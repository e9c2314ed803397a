/** `echomq-edge remove`: deletes one job. */
import { type CommonOptions, defineCommand } from '../command.ts'
import { queueOf, sendWith } from '../connection.ts'
import { print, printJson } from '../output.ts'

export const removeCommand = defineCommand({
  usage: 'remove <queue> <id>',
  summary: 'delete one job for good',
  description: 'Deletes a job in any state, unless a live lease holds it. A deleted job cannot be restored.',
  json: 'print the result as JSON',
  notes:
    'Exits with 3 when the job no longer exists (it may have been deleted before), with 4 when a live lease holds it.',
  examples: ['remove emails JOB0KHTOWnGLuC'],
  run,
})

async function run(queueName: string, id: string, { json, ...options }: CommonOptions): Promise<void> {
  const { name } = queueOf(queueName, options)
  await sendWith(options, 'DELETE', `/v1/queues/${name}/jobs/${encodeURIComponent(id)}`)
  if (json) printJson({ id, status: 'removed' })
  else print(`${id} removed`)
}
