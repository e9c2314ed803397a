/** A TCP relay that counts the bytes of both directions, with the headers of HTTP. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type Relay = {
  readonly url: string
  /** Since the start. */
  bytes(): number
  stop(): void
}

export async function startRelay(target: string): Promise<Relay> {
  const { hostname, port } = new URL(target)
  const open = new Set<Socket>()
  let bytes = 0
  const count = (chunk: Buffer): void => {
    bytes += chunk.length
  }
  const server = createServer({ noDelay: true }, (caller) => {
    const behind = connect({ host: hostname, port: Number(port), noDelay: true })
    for (const [socket, other] of [
      [caller, behind],
      [behind, caller],
    ] as const) {
      open.add(socket)
      socket.on('data', count)
      socket.on('error', () => {})
      socket.once('close', () => {
        open.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytes: () => bytes,
    stop() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
