/** What a port says when it is asked whether it is a Redis, and in which folder it works. */

import { connect } from 'node:net'
import { LOCALHOST } from './ports.ts'

const SILENCE_MS = 1_000

export type Probe = {
  /** Whether it is a Redis that works in the folder and has loaded its data. */
  readonly isReady: boolean
  /** Whether it may be a Redis that works in the folder: one that loads its data, or is deep in a script, too. */
  readonly mayBeAtWork: boolean
}

/** Asks whoever listens on the port of 127.0.0.1. */
export async function probeRedis(port: number, folder: string): Promise<Probe> {
  const answer = await ask(port)
  const isOfFolder = answer?.includes(`\r\n${folder}\r\n`) ?? false
  return {
    isReady: isOfFolder && answer?.endsWith('+PONG\r\n') === true,
    mayBeAtWork: isOfFolder || answer === '' || answer?.startsWith('-') === true,
  }
}

/** Undefined when nobody listens, empty when nobody answers in time. */
function ask(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer: string | undefined
    const socket = connect({ port, host: LOCALHOST })
    socket.setTimeout(SILENCE_MS, () => socket.destroy())
    socket.once('error', () => {})
    socket.once('close', () => resolve(answer))
    socket.once('connect', () => {
      answer = ''
      socket.write('CONFIG GET dir\r\nPING\r\n')
    })
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString()
      // The last one is the answer to PING: a status, or an error while Redis loads its data.
      if (/^[+-][^\r]*\r\n$/m.test(answer ?? '')) socket.destroy()
    })
  })
}
