/**
 * A sign-up Worker: it enqueues the welcome mail over a service binding and responds at once. It needs neither a URL
 * nor a token of the queue.
 *
 *   curl -X POST http://127.0.0.1:8787/signup -d '{"email":"ada@example.com"}'
 */
import type { QueueBinding } from 'echomq-edge'

type Env = { readonly EMQ: QueueBinding }

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (request.method !== 'POST' || pathname !== '/signup')
      return new Response('POST /signup\n', { status: 404 })

    const form: unknown = await request.json().catch(() => undefined)
    const email: unknown = Object(form).email
    if (typeof email !== 'string') return new Response('no email\n', { status: 400 })

    try {
      // The key makes two clicks one mail. It is a digest, because an address has characters that a key must not have.
      const { id, status } = await env.EMQ.enqueue(
        'welcome-mails',
        { to: email },
        { idempotencyKey: await sha256(email) },
      )
      return Response.json({ id, status }, { status: status === 'duplicate' ? 200 : 202 })
    } catch (error) {
      // An error that crossed the binding has the fields of `EchoMQError`, but not its class.
      const { code, retryable } = error as { readonly code?: string; readonly retryable?: boolean }
      console.error(`not enqueued: ${code}`, error)
      return new Response('try again\n', { status: retryable ? 503 : 500 })
    }
  },
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
