/** A mail API over HTTP that records its deliveries. A test decides how it answers, and when. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Delivery = {
  /** The id of the job, which the examples send as idempotency key. */
  readonly id: string
  readonly to: string
  /** The number of this delivery among those of its job, from 1. */
  readonly nth: number
}

export type MailApi = {
  readonly url: string
  /** All deliveries in order. */
  readonly ledger: readonly Delivery[]
  stop(): void
}

/** @param answer Returns the status for a delivery. */
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
  // A keep-alive that ends between two requests would look like an error of the example.
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
