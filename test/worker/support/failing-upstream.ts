/**
 * A proxy of the bridge. While it fails, every second response is an error with a long body. It counts the bodies that
 * were not read to their end, and how many responses are open at once.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type FailingUpstream = {
  readonly url: string
  failing: boolean
  requests: number
  errors: number
  /** Responses that are not finished. */
  open: number
  mostOpen: number
  /** Responses whose body was not read to its end. */
  cutOff: number
  stop(): void
}

/** Half of the requests, in no rhythm that the requests of a run could fall into. The same ones in each test run. */
function drawsFailure(request: number): boolean {
  const mixed = Math.imul(request, 0x85ebca6b)
  return (Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35) >>> 16) % 2 === 1
}

export async function startFailingUpstream(bridgeUrl: () => string): Promise<FailingUpstream> {
  const server = createServer(async (request, response) => {
    upstream.requests += 1
    upstream.open += 1
    upstream.mostOpen = Math.max(upstream.mostOpen, upstream.open)
    response.once('close', () => {
      upstream.open -= 1
      if (!response.writableFinished) upstream.cutOff += 1
    })
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (upstream.failing && drawsFailure(upstream.requests)) {
      upstream.errors += 1
      // Longer than every buffer on the way: it finishes only when it is read.
      response.writeHead(upstream.errors % 3 === 0 ? 200 : 500).end('<html>'.repeat(400_000))
      return
    }
    const answer = await fetch(`${bridgeUrl()}${request.url}`, {
      method: 'POST',
      headers: { Authorization: String(request.headers.authorization), 'Upstash-Encoding': 'base64' },
      body: Buffer.concat(chunks),
    })
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const upstream: FailingUpstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    failing: true,
    requests: 0,
    errors: 0,
    open: 0,
    mostOpen: 0,
    cutOff: 0,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
  return upstream
}
