/**
 * A real Redis as a child process, on 127.0.0.1, for as long as this process lives.
 *
 * It never evicts (`noeviction`), and it never outlives its parent: it runs under a small shell whose stdin is a
 * pipe from us. When that pipe closes, because we closed it or because we were killed, the shell ends Redis and
 * removes the folder that was made for it. Not for production.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, LOCALHOST } from './ports.ts'
import { findRedisBinary } from './redis-binary.ts'

/** How long Redis may take to answer its first PING; a large append-only file takes longest. */
const START_TIMEOUT_MS = 30_000

/**
 * $1: a folder to remove at the end, or nothing; the rest: the program and its arguments.
 *
 * `read` returns when stdin closes. TERM lets Redis write out what it has; a Redis that is deep in a script does
 * not hear it, so KILL follows.
 */
const WATCHDOG = `
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ read -r _ <&3; kill "$server"; sleep 2; kill -9 "$server"; } >/dev/null 2>&1 & guard=$!
wait "$server"
kill "$guard" 2>/dev/null
[ -z "$folder" ] || rm -rf "$folder"
`

export type RedisServerOptions = {
  /** Default: a free one. */
  readonly port?: number
  /** A folder whose data survives the stack. Default: a temporary one that is removed at the end. */
  readonly data?: string
}

export type RedisServer = {
  readonly url: string
  readonly port: number
  /** Ends Redis and waits for it. May be called more than once. */
  stop(): Promise<void>
}

/**
 * Starts Redis and waits until it answers.
 *
 * @throws {Error} when there is no Redis program, or it does not start; the text ends with what Redis printed.
 */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const binary = await findRedisBinary()
  const port = options.port ?? (await freePort())
  const temporary = options.data === undefined ? await mkdtemp(join(tmpdir(), 'emq-redis-')) : undefined
  const folder = temporary ?? options.data ?? ''
  await mkdir(folder, { recursive: true })

  const persistence = options.data === undefined ? ['--appendonly', 'no'] : ['--appendonly', 'yes']
  const args = [
    ...['--port', String(port), '--bind', LOCALHOST, '--dir', folder],
    ...['--maxmemory-policy', 'noeviction', '--save', '', ...persistence],
    ...['--daemonize', 'no', '--loglevel', 'warning'],
  ]
  const child = spawn('/bin/sh', ['-c', WATCHDOG, 'emq-redis', temporary ?? '', binary, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // A session of its own, so that Ctrl-C in the terminal reaches only us: we then end Redis in our own order.
    detached: true,
  })
  // The pipe breaks when Redis ends by itself; that is seen by its exit.
  child.stdin?.on('error', () => {})

  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  async function stop(): Promise<void> {
    child.stdin?.end()
    await ended
  }

  try {
    await untilAnswering(child, port)
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://${LOCALHOST}:${port}`, port, stop }
}

/** Resolves when Redis answers PING; rejects when it ends first, or in time does neither. */
async function untilAnswering(child: ChildProcess, port: number): Promise<void> {
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-2000)
    })
  }
  const deadline = Date.now() + START_TIMEOUT_MS
  while (child.exitCode === null && child.signalCode === null) {
    if (await answersPing(port)) {
      // Somebody else may have taken the port in between: then our own Redis is on its way out.
      if (child.exitCode === null) return
      break
    }
    if (Date.now() > deadline)
      throw new Error(`Redis did not answer within ${START_TIMEOUT_MS} ms. ${output.trim()}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`Redis did not start. ${output.trim()}`)
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: LOCALHOST })
    const finish = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(1000, () => finish(false))
    socket.once('error', () => finish(false))
    socket.once('close', () => finish(false))
    socket.once('connect', () => socket.write('PING\r\n'))
    // While it still loads its data, Redis answers an error.
    socket.once('data', (data) => finish(data.toString().startsWith('+PONG')))
  })
}
