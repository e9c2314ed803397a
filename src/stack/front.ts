/**
 * A TCP front before workerd: passes bytes both ways, and tells workerd at once when a caller has hung up.
 *
 * workerd by itself takes the orderly end of a connection for half of one that still listens, and works on for nobody;
 * Cloudflare does not. So the end of a caller reaches workerd as a reset, which ends the request (`request.signal`). A
 * caller may also end its own half right behind the request and still listen: then half a second is left for the
 * answer to begin. The front knows nothing of HTTP, keeps no byte back and has no limits of its own.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { LOCALHOST } from './ports.ts'

/** An end so soon after the last byte may belong to the request. */
const BEHIND_MS = 100
/** Who ended its half like that and hears nothing for so long is taken for gone. */
const GRACE_MS = 500

export type Front = {
  readonly url: string
  /** Hangs up on everybody. */
  close(): void
}

/**
 * Listens on 127.0.0.1.
 *
 * @param port Where callers come; 0: any free one.
 * @param behind The port that each is passed on to: workerd has another one after a crash.
 * @throws {Error} when the port is busy.
 */
export async function startFront(port: number, behind: () => Promise<number>): Promise<Front> {
  const callers = new Set<Socket>()
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (caller) => {
    callers.add(caller)
    caller.once('close', () => callers.delete(caller))
    // What went wrong shows as the close that follows.
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
  // It may have gone while we asked.
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
    // Without an end what was sent may be half of an answer: the caller is not to take it for a whole one.
    if (!worker.readableEnded) caller.resetAndDestroy()
  })
}
