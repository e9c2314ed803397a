/**
 * A long-running consumer: a Node process that works a queue over HTTPS until it gets SIGTERM.
 *
 * It shows ten jobs in parallel, what a handler may throw, the events, and the shutdown. On SIGTERM the consumer stops
 * claiming, finishes the running jobs and releases the others; then the process exits. The client renews the leases, so
 * a job may take longer than its lease.
 *
 * A job is `{"to": "..."}`. The work is one request to a mail API. Every event is one line of JSON on stdout.
 *
 *   EMQ_URL=https://queue.example.com EMQ_TOKEN=... MAIL_URL=https://mail.example.com/send node consumer.ts
 */
import { deadLetter, EchoMQ, type Job, retryIn } from 'echomq-edge/client'

type Email = { readonly to: string }

const {
  EMQ_URL = 'http://127.0.0.1:8787',
  EMQ_TOKEN = 'dev-consumer',
  EMQ_QUEUE = 'emails',
  MAIL_URL,
} = process.env
if (MAIL_URL === undefined) throw new Error('MAIL_URL must be the address of a mail API.')

const emails = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN }).queue<Email>(EMQ_QUEUE)

const consumer = emails.consume(
  async (job, { signal }) => {
    // A job can be delivered twice. With its id, the mail API can detect that.
    const response = await fetch(MAIL_URL, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': job.id },
      body: JSON.stringify(job.payload),
      signal,
    })
    await response.body?.cancel()
    if (response.status === 429) throw retryIn(60_000)
    if (response.status === 422) throw deadLetter('the mail API rejects the address')
    if (!response.ok) throw new Error(`the mail API returned ${response.status}`)
  },
  { concurrency: 10 },
)

const say = (event: string, job?: Job): void => {
  console.log(JSON.stringify({ event, id: job?.id, token: job?.token }))
}
consumer.on('completed', ({ job, status }) => say(status, job))
consumer.on('retried', ({ job }) => say('retried', job))
consumer.on('dead', ({ job }) => say('dead', job))
consumer.on('leaseLost', ({ job }) => say('leaseLost', job))
consumer.on('idle', () => say('idle'))
consumer.on('error', ({ error }) => console.error(error))
consumer.on('stopped', () => say('stopped'))

// A consumer stops by itself only if its API token is rejected. The exit code then reports a failure.
process.exitCode = 1
process.once('SIGTERM', async () => {
  say('stopping')
  await consumer.stop({ timeoutMs: 10_000 })
  process.exitCode = 0
})
