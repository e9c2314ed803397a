/**
 * A consumer on AWS Lambda, or on whatever else is started now and then and has to end in time.
 *
 * It shows `drain`: works the queue until it is empty or the invocation's time is over, and gives back what it could
 * not begin. Start it on a schedule, say once a minute. When nothing could be claimed it fails, which is what alarms
 * look at; a job that fails does not fail the invocation, the queue tries it again.
 *
 * The jobs are `{"to": "..."}`; the work is to hand them to a mail API.
 */
import { EchoMQ, type Handler } from 'echomq-edge/client'

type Email = { readonly to: string }

const { EMQ_URL = '', EMQ_TOKEN = '', EMQ_QUEUE = 'emails', MAIL_URL = '' } = process.env

/** What is left for a slow start and for the answer. */
const SPARE_MS = 2_000

const emails = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN }).queue<Email>(EMQ_QUEUE)

const send: Handler<Email> = async (job, { signal }) => {
  const response = await fetch(MAIL_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': job.id },
    body: JSON.stringify(job.payload),
    signal,
  })
  await response.body?.cancel()
  if (!response.ok) throw new Error(`the mail API answered ${response.status}`)
}

/** @returns How many jobs were done, failed and given back: `{ done, failed, released }`. */
export const handler = (_event: unknown, context: { getRemainingTimeInMillis(): number }) =>
  emails.drain(send, { concurrency: 10, deadlineMs: context.getRemainingTimeInMillis() - SPARE_MS })
