/** Ports on 127.0.0.1, the only address that the local stack listens on. */

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

export const LOCALHOST = '127.0.0.1'

/** Default port of the HTTP API. */
export const DEFAULT_PORT = 8787
/** Default port of the bridge. */
export const DEFAULT_REST_PORT = 8079

/** Returns whether nothing listens on the port now. Another process can still take it. */
export async function isPortFree(port: number): Promise<boolean> {
  return tryListen(port).then(
    () => true,
    () => false,
  )
}

/** Returns a port that nothing listens on now. */
export function freePort(): Promise<number> {
  return tryListen(0)
}

/**
 * Returns the port to listen on: the requested one; without one the default, or 0 (any free port) when that is busy.
 *
 * @throws {Error} when the requested port is busy.
 */
export async function choosePort(requested: number | undefined, preferred: number): Promise<number> {
  if (await isPortFree(requested ?? preferred)) return requested ?? preferred
  if (requested === undefined) return 0
  throw new Error(
    `Port ${requested} of ${LOCALHOST} is busy. Stop the program that uses it, or choose another port.`,
  )
}

async function tryListen(port: number): Promise<number> {
  const server = createServer().listen({ port, host: LOCALHOST, exclusive: true })
  await once(server, 'listening')
  const { port: bound } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return bound
}
