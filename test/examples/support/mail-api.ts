/**
 * The world outside of the examples: a mail API over HTTP that keeps a ledger of what it was handed, and is slow or
 * refuses when a test wants it to.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Delivery = {
  /** The job's id, which the examples send as idempotency key. */
  readonly id: string
  readonly to: string
  /** Which of the deliveries of this job it is, from 1 on. */
  readonly nth: number
}

export type MailApi = {
  readonly url: string
  /** All that it was handed, in order. */
  readonly ledger: readonly Delivery[]
  stop(): void
}

/** @param answer The status to answer a delivery with, now or later. */
export async function startMailApi(
  answer: (delivery: Delivery) => number | Promise<number>,
): Promise<MailApi> {
  const ledger: Delivery[] = []
  const counts = new Map<string, number>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { to } = JSON.parse(Buffer.concat(chunks).toString())
    const id = String(request.headers['idempotency-key'])
    const nth = (counts.get(id) ?? 0) + 1
    counts.set(id, nth)
    const delivery = { id, to, nth }
    ledger.push(delivery)
    response.writeHead(await answer(delivery)).end('{}')
  })
  // A keep-alive that ends between two requests of a test would look like a fault of the example.
  server.keepAliveTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/send`,
    ledger,
    stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}
