/**
 * A TCP proxy before workerd that reports at once when a caller hangs up.
 *
 * workerd treats the orderly end of a connection as a half-closed one and continues to work; Cloudflare does not. The
 * proxy turns the end into a reset, which aborts the request (`request.signal`). A caller may also close its own half
 * right after the request and still read: the response then has half a second to begin. The proxy does not parse HTTP,
 * does not buffer, and has no limits.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { LOCALHOST } from './ports.ts'

/** An end this soon after the last byte may belong to the request. */
const BEHIND_MS = 100
/** How long the response to such a caller may take to begin. */
const GRACE_MS = 500

export type Front = {
  readonly url: string
  /** Closes all connections. */
  close(): void
}

/**
 * Listens on 127.0.0.1.
 *
 * @param port The port for callers; 0: any free one.
 * @param behind Returns the port of workerd, which changes after a crash.
 * @throws {Error} when the port is busy.
 */
export async function startFront(port: number, behind: () => Promise<number>): Promise<Front> {
  const callers = new Set<Socket>()
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (caller) => {
    callers.add(caller)
    caller.once('close', () => callers.delete(caller))
    // The close that follows an error is handled.
    caller.on('error', () => {})
    behind().then(
      (target) => passOn(caller, target),
      () => caller.resetAndDestroy(),
    )
  })
  server.listen({ port, host: LOCALHOST, exclusive: true })
  await once(server, 'listening')
  return {
    url: `http://${LOCALHOST}:${(server.address() as AddressInfo).port}`,
    close() {
      server.close()
      for (const caller of callers) caller.destroy()
    },
  }
}

function passOn(caller: Socket, behind: number): void {
  // The caller may have gone in the meantime.
  if (caller.destroyed) return
  const worker = connect({ port: behind, host: LOCALHOST, noDelay: true })
  worker.on('error', () => {})

  caller.pipe(worker, { end: false })
  let heardAt = performance.now()
  caller.on('data', () => {
    heardAt = performance.now()
  })
  caller.once('end', () => {
    const isBehindRequest = performance.now() - heardAt <= BEHIND_MS
    const patience = setTimeout(() => worker.resetAndDestroy(), isBehindRequest ? GRACE_MS : 0)
    worker.once('close', () => clearTimeout(patience))
    worker.once('data', () => {
      clearTimeout(patience)
      worker.end()
    })
  })
  caller.once('close', () => worker.resetAndDestroy())

  worker.pipe(caller)
  worker.once('close', () => {
    // Without an orderly end the response may be incomplete: the caller must see a reset.
    if (!worker.readableEnded) caller.resetAndDestroy()
  })
}
