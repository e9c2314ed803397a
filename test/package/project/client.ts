/** A user's producer and consumer. Run by package.test.ts, where the package is installed. */
import { deadLetter, EchoMQ, EchoMQError, type Job } from 'echomq-edge/client'

const { EMQ_URL = '', EMQ_TOKEN = '', QUEUE = '' } = process.env
const emails = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN }).queue<{ to: string }>(QUEUE)

// @ts-expect-error a payload must have the type of the queue
const wrong = () => emails.enqueue({ from: 'ada@example.com' })

const { status } = await emails.enqueue({ to: 'ada@example.com' })
await emails.enqueueMany([{ payload: { to: 'grace@example.com' } }, { payload: { to: '' } }])

const [first]: Job<{ to: string }>[] = await emails.claim()
if (first === undefined) throw new Error('there is no job')
const stale = await emails.complete({ ...first, token: 99 }).catch((error: unknown) => error)
const { done, failed } = await emails.drain(async ({ payload }) => {
  if (payload.to === '') throw deadLetter('no address')
})
console.log(
  JSON.stringify({
    status,
    to: first.payload.to,
    completed: await emails.complete(first),
    stale: stale instanceof EchoMQError && stale.code,
    drained: [done, failed],
    wrong: typeof wrong,
  }),
)
