/**
 * A real Redis as a child process, on 127.0.0.1, with `noeviction`. Not for production.
 *
 * It never outlives this process: it runs under a small shell whose stdin is a pipe from here. When the pipe closes,
 * because of `stop` or because this process was killed, the shell ends Redis and removes its temporary folder.
 */

import { spawn } from 'node:child_process'
import { mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { lockFolder, makeFolder } from './data-folder.ts'
import { freePort, LOCALHOST } from './ports.ts'
import { randomToken } from './random-token.ts'
import { findRedisBinary } from './redis-binary.ts'
import { probeRedis } from './redis-probe.ts'

/** How long Redis may load its append-only file. */
const START_TIMEOUT_MS = 30_000
const POLL_MS = 10
const MAX_ATTEMPTS = 3

/**
 * $1: a folder to remove at the end, or ''; the rest: the program and its arguments. The password comes in a variable,
 * because every user of the machine can read arguments.
 *
 * `read` returns when stdin closes. TERM lets Redis write its data; a Redis in a long script ignores it, so KILL follows.
 */
const WATCHDOG = `
folder=$1; shift
password=$EMQ_REDIS_PASSWORD; unset EMQ_REDIS_PASSWORD
umask 077
exec 3<&0
printf 'requirepass %s\\n' "$password" | "$@" - 3<&- & server=$!
{ read -r _ <&3; kill "$server"; sleep 2; kill -9 "$server"; } >/dev/null 2>&1 & guard=$!
wait "$server"
kill "$guard" 2>/dev/null
[ -z "$folder" ] || rm -rf "$folder"
`

export type RedisServerOptions = {
  /** Default: a free one. */
  readonly port?: number
  /** A folder whose data survives the stack. Default: a temporary one. */
  readonly data?: string | undefined
  /** Default: a random one. */
  readonly password?: string | undefined
}

export type RedisServer = {
  /** With the password. */
  readonly url: string
  readonly port: number
  /** Resolves when Redis has ended for any reason. */
  readonly ended: Promise<void>
  /** Ends Redis and waits for it. May be called more than once. */
  stop(): Promise<void>
}

/**
 * Starts Redis and waits until it replies.
 *
 * @throws {Error} when there is no Redis program, another Redis works in the folder, or it does not start; the text
 * ends with the output of Redis.
 */
export async function startRedis({ port, data, password }: RedisServerOptions = {}): Promise<RedisServer> {
  const binary = await findRedisBinary()
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch(binary, port ?? (await freePort()), data, password)
    } catch (error) {
      // Another process can take a free port first.
      const isTaken = port === undefined && String(error).includes('Address already in use')
      if (!isTaken || attempt === MAX_ATTEMPTS) throw error
    }
  }
}

async function launch(
  binary: string,
  port: number,
  data: string | undefined,
  password = randomToken(),
): Promise<RedisServer> {
  const isTemporary = data === undefined
  const folder = isTemporary
    ? await realpath(await mkdtemp(join(tmpdir(), 'emq-redis-')))
    : await makeFolder(data)
  const lock = isTemporary ? undefined : await lockFolder(folder, { port, password })
  const args = [
    ...['--port', String(port), '--bind', LOCALHOST, '--dir', folder],
    ...['--maxmemory-policy', 'noeviction', '--save', '', '--appendonly', isTemporary ? 'no' : 'yes'],
    ...['--daemonize', 'no', '--loglevel', 'warning'],
  ]
  // In its own session, so that a Ctrl-C in the terminal reaches only this process, which stops everything in order.
  const shell = ['-c', WATCHDOG, 'emq-redis', isTemporary ? folder : '', binary, ...args]
  const child = spawn('/bin/sh', shell, {
    stdio: 'pipe',
    detached: true,
    env: { ...process.env, EMQ_REDIS_PASSWORD: password },
  })
  // The pipe breaks when Redis ends; its exit reports that.
  child.stdin.on('error', () => {})
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-2000)
    })

  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  async function stop(): Promise<void> {
    child.stdin.end()
    await ended
    await lock?.release()
  }

  try {
    const deadline = Date.now() + START_TIMEOUT_MS
    // The probe also rules out another Redis that has taken the port first.
    while (!(await probeRedis({ port, password }, folder)).isReady) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`Redis did not start. ${output.trim()}`)
      if (Date.now() > deadline)
        throw new Error(`Redis did not answer in ${START_TIMEOUT_MS} ms. ${output.trim()}`)
      await setTimeout(POLL_MS)
    }
    await lock?.confirm()
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://:${password}@${LOCALHOST}:${port}`, port, ended, stop }
}
