/**
 * A consumer on AWS Lambda, or on any platform that starts a function for a limited time.
 *
 * It shows `drain`: it works the queue until it is empty or the time is over, and releases the jobs that it could not
 * start. Run it on a schedule, for example each minute. The invocation fails if the queue cannot be reached, so an alarm
 * on failed invocations works. A failed job does not fail the invocation: the queue retries it.
 *
 * A job is `{"to": "..."}`. The work is one request to a mail API.
 */
import { EchoMQ, type Handler } from 'echomq-edge/client'

type Email = { readonly to: string }

const { EMQ_URL = '', EMQ_TOKEN = '', EMQ_QUEUE = 'emails', MAIL_URL = '' } = process.env

/** Time in reserve for a slow start and for the response. */
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
  if (!response.ok) throw new Error(`the mail API returned ${response.status}`)
}

/** @returns The numbers of jobs: `{ done, failed, released }`. */
export const handler = (_event: unknown, context: { getRemainingTimeInMillis(): number }) =>
  emails.drain(send, { concurrency: 10, deadlineMs: context.getRemainingTimeInMillis() - SPARE_MS })
