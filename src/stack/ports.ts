/**
 * Ports on 127.0.0.1, the only address the local stack ever listens on.
 */

import { createServer } from 'node:net'

export const LOCALHOST = '127.0.0.1'

/** Where the HTTP API and the bridge are when nobody asks for another place and nobody else is there. */
export const DEFAULT_PORT = 8787
export const DEFAULT_REST_PORT = 8079

/** Says whether nobody listens on the port now. Another process can still take it a moment later. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await tryListen(port)) !== undefined
}

/** A port that nobody listens on now, chosen by the system. */
export async function freePort(): Promise<number> {
  const port = await tryListen(0)
  if (port === undefined) throw new Error('This machine has no free port on 127.0.0.1.')
  return port
}

/**
 * The port to listen on: the asked one, which must be free; without one, the default, or 0 (let the system choose)
 * when the default is busy.
 *
 * @throws {Error} when the asked port is busy.
 */
export async function choosePort(asked: number | undefined, preferred: number): Promise<number> {
  if (await isPortFree(asked ?? preferred)) return asked ?? preferred
  if (asked === undefined) return 0
  throw new Error(`Port ${asked} of ${LOCALHOST} is busy. Stop what listens there, or ask for another port.`)
}

function tryListen(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen({ port, host: LOCALHOST, exclusive: true }, () => {
      const address = server.address()
      const bound = typeof address === 'object' && address !== null ? address.port : undefined
      server.close(() => resolve(bound))
    })
  })
}
