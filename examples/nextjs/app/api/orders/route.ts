/**
 * A producer as a Next.js route handler. It runs on Vercel, in both runtimes, and wherever Next.js runs.
 *
 * It shows an idempotency key made of the order's number: if a user clicks twice, or a webhook arrives twice, one
 * receipt is sent. The handler creates the client itself, because Next.js loads this module at build time, before the
 * variables are set. Creating a client is cheap.
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
