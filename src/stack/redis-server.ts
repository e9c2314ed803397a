/**
 * A real Redis as a child process, on 127.0.0.1, for as long as this process lives.
 *
 * It never evicts (`noeviction`), and it never outlives its parent: it runs under a small shell whose stdin is a
 * pipe from us. When that pipe closes, because we closed it or because we were killed, the shell ends Redis and
 * removes the folder that was made for it. Not for production.
 */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { lockFolder, makeFolder } from './data-folder.ts'
import { freePort, LOCALHOST } from './ports.ts'
import { findRedisBinary } from './redis-binary.ts'
import { probeRedis } from './redis-probe.ts'

/** How long Redis may take to answer its first PING; a large append-only file takes longest. */
const START_TIMEOUT_MS = 30_000
const POLL_MS = 10
const MAX_ATTEMPTS = 3

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
  /** Resolves when it has ended, whether it was stopped or not. */
  readonly ended: Promise<void>
  /** Ends Redis and waits for it. May be called more than once. */
  stop(): Promise<void>
}

/**
 * Starts Redis and waits until it answers.
 *
 * @throws {Error} when there is no Redis program, another Redis works in the folder, or it does not start; the text
 * ends with what Redis printed.
 */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const binary = await findRedisBinary()
  if (options.port !== undefined) return launch(binary, options.port, options.data)
  // A port that was free a moment ago may be taken by now.
  for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt += 1) {
    try {
      return await launch(binary, await freePort(), options.data)
    } catch (error) {
      if (!String(error).includes('Address already in use')) throw error
    }
  }
  return launch(binary, await freePort(), options.data)
}

async function launch(binary: string, port: number, data: string | undefined): Promise<RedisServer> {
  const isTemporary = data === undefined
  const folder = isTemporary
    ? await realpath(await mkdtemp(join(tmpdir(), 'emq-redis-')))
    : await makeFolder(data)
  const lock = isTemporary ? undefined : await lockFolder(folder, port)
  const args = [
    ...['--port', String(port), '--bind', LOCALHOST, '--dir', folder],
    ...['--maxmemory-policy', 'noeviction', '--save', '', '--appendonly', isTemporary ? 'no' : 'yes'],
    ...['--daemonize', 'no', '--loglevel', 'warning'],
  ]
  const child = spawn('/bin/sh', ['-c', WATCHDOG, 'emq-redis', isTemporary ? folder : '', binary, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // A session of its own, so that Ctrl-C in the terminal reaches only us: we then end Redis in our own order.
    detached: true,
  })
  // The pipe breaks when Redis ends by itself; that is seen by its exit.
  child.stdin.on('error', () => {})

  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  async function stop(): Promise<void> {
    child.stdin.end()
    await ended
    await lock?.release()
  }

  try {
    await untilAnswering(child, port, folder)
    await lock?.confirm()
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://${LOCALHOST}:${port}`, port, ended, stop }
}

/** Resolves when Redis answers; rejects when it ends before, or does not answer in time. */
async function untilAnswering(
  child: ChildProcessWithoutNullStreams,
  port: number,
  folder: string,
): Promise<void> {
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-2000)
    })
  }
  const deadline = Date.now() + START_TIMEOUT_MS
  while (child.exitCode === null && child.signalCode === null) {
    // Ours, and not one that took the port before it.
    if ((await probeRedis(port, folder)).isReady) return
    if (Date.now() > deadline)
      throw new Error(`Redis did not answer in ${START_TIMEOUT_MS} ms. ${output.trim()}`)
    await setTimeout(POLL_MS)
  }
  throw new Error(`Redis did not start. ${output.trim()}`)
}
