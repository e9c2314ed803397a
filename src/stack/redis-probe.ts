/** Asks a port of 127.0.0.1 whether a Redis listens there and in which folder it works. */

import { connect } from 'node:net'
import { LOCALHOST } from './ports.ts'

const SILENCE_MS = 1_000

/** A Redis of the local stack. */
export type Address = { readonly port: number; readonly password: string }

export type Probe = {
  /** A Redis works in the folder and has loaded its data. */
  readonly isReady: boolean
  /** A Redis may work in the folder: it may be loading its data or running a long script. */
  readonly mayBeAtWork: boolean
}

export async function probeRedis(address: Address, folder: string): Promise<Probe> {
  const reply = await ask(address)
  const isOfFolder = reply?.includes(`\r\n${folder}\r\n`) ?? false
  return {
    isReady: isOfFolder && reply?.endsWith('+PONG\r\n') === true,
    // An error after the password was accepted: it is busy. One before: it is another Redis.
    mayBeAtWork: isOfFolder || reply === '' || reply?.startsWith('+OK\r\n-') === true,
  }
}

/** Returns undefined when nothing listens, '' when nothing replies in time. */
function ask({ port, password }: Address): Promise<string | undefined> {
  return new Promise((resolve) => {
    let reply: string | undefined
    const socket = connect({ port, host: LOCALHOST })
    socket.setTimeout(SILENCE_MS, () => socket.destroy())
    socket.once('error', () => {})
    socket.once('close', () => resolve(reply))
    socket.once('connect', () => {
      reply = ''
      socket.write(`AUTH ${password}\r\nCONFIG GET dir\r\nPING\r\n`)
    })
    socket.on('data', (chunk: Buffer) => {
      reply += chunk.toString()
      // The reply to PING is the last, or any error.
      if (/^(\+PONG|-[^\r]*)\r\n$/m.test(reply ?? '')) socket.destroy()
    })
  })
}
