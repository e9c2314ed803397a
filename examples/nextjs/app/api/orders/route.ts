/**
 * A route handler of Next.js as producer: on Vercel, in either runtime, or wherever Next.js runs.
 *
 * It shows an idempotency key: a button that is pressed twice, or a webhook that is delivered twice, sends one
 * receipt, because the order's number names the job. The client is made in the handler and not beside it: Next.js
 * loads this module when it builds, where the variables are not set yet. Making one costs nothing.
 */
import { EchoMQ, EchoMQError } from 'echomq-edge/client'

export async function POST(request: Request): Promise<Response> {
  const { EMQ_URL = '', EMQ_TOKEN = '', EMQ_QUEUE = 'emails' } = process.env
  const emails = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN }).queue<{ to: string; order: string }>(
    EMQ_QUEUE,
  )

  const body: unknown = await request.json().catch(() => undefined)
  const { to, order } = Object(body)
  if (typeof to !== 'string' || typeof order !== 'string') {
    return Response.json({ error: 'to and order must be text' }, { status: 400 })
  }
  try {
    const job = await emails.enqueue({ to, order }, { idempotencyKey: `receipt-${order}` })
    return Response.json(job, { status: 202 })
  } catch (error) {
    if (!(error instanceof EchoMQError)) throw error
    return Response.json({ error: error.code }, { status: error.code === 'invalid' ? 400 : 503 })
  }
}
