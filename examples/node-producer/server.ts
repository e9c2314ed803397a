/**
 * A producer on Node: a Hono app with a route that enqueues a job.
 *
 * The server responds at once, and a consumer does the slow part. If a sign-up is sent twice, one email is sent. If the
 * queue does not respond, the server soon returns 503, so that no request waits long.
 *
 *   EMQ_URL=https://queue.example.com EMQ_TOKEN=... node server.ts
 */
import { serve } from '@hono/node-server'
import { EchoMQ, EchoMQError } from 'echomq-edge/client'
import { Hono } from 'hono'

const {
  EMQ_URL = 'http://127.0.0.1:8787',
  EMQ_TOKEN = 'dev-producer',
  EMQ_QUEUE = 'emails',
  PORT = '3000',
} = process.env

const emq = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN, timeoutMs: 2_000, retry: 1 })
const emails = emq.queue<{ to: string }>(EMQ_QUEUE)

const app = new Hono()

app.post('/signup', async (c) => {
  const { user, email } = await c.req.json()
  if (typeof user !== 'string' || typeof email !== 'string') return c.json({ error: 'user and email' }, 400)

  const { id } = await emails.enqueue({ to: email }, { idempotencyKey: `welcome-${user}` })
  return c.json({ job: id }, 202)
})

app.onError((error, c) => {
  if (error instanceof SyntaxError) return c.json({ error: 'the body is not JSON' }, 400)
  if (!(error instanceof EchoMQError)) throw error
  console.error(error)
  if (error.code === 'invalid') return c.json({ error: 'user or email is invalid' }, 400)
  return c.json({ error: 'try again later' }, 503, { 'Retry-After': '5' })
})

const server = serve({ fetch: app.fetch, port: Number(PORT) }, ({ port }) => {
  console.log(JSON.stringify({ event: 'listening', port }))
})
process.once('SIGTERM', () => server.close())
