/**
 * Serves the route of the Next.js example over HTTP, as Next.js does: a module that is imported, whose `POST` answers
 * the POST requests.
 */
import { serve } from '@hono/node-server'
import { POST } from '../../../examples/nextjs/app/api/orders/route.ts'

serve({ fetch: POST, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  console.log(JSON.stringify({ event: 'listening', port }))
})
