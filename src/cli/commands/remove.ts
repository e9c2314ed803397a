/** `echomq-edge remove`: deletes one job. */
import { type CommonOptions, defineCommand } from '../command.ts'
import { queueOf, transportTo } from '../connection.ts'
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
  const { repeat, send } = transportTo(options, deleting)
  await repeat(() => send(`/v1/queues/${name}/jobs/${encodeURIComponent(id)}`, 'status'))
  if (json) printJson({ id, status: 'removed' })
  else print(`${id} removed`)
}

/** The API responds to a DELETE with 204 and no body, and the client accepts only JSON. */
async function deleting(address: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(address, { ...init, method: 'DELETE' })
  return answer.status === 204 ? Response.json({ status: 'removed' }) : answer
}
