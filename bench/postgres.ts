/**
 * A PostgreSQL of our own for the peers that need one: in a temporary folder, on a Unix socket in it, without TCP.
 *
 * It does not wait for the disk, because the Redis beside it does not either. It ends with this process.
 */

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Pool } from 'pg'

export type PostgresPrograms = { readonly server: string; readonly initdb: string }

export type Postgres = {
  readonly connection: { readonly host: string; readonly user: string; readonly database: string }
  stop(): Promise<void>
}

const SYSTEM_FOLDER = '/usr/lib/postgresql'
const USER = 'postgres'
const START_ATTEMPTS = 200
const ATTEMPT_MS = 50

const FAST = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'shared_buffers=256MB']

/** $1: the folder to remove at the end; the rest: the server. `read` returns when our end of the pipe closes. */
const WATCHDOG = `
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & server=$!
read -r _ <&3
kill -INT "$server"
wait "$server"
rm -rf "$folder"
`

/** The newest PostgreSQL of the system, or undefined. */
export function findPostgres(): PostgresPrograms | undefined {
  const versions = existsSync(SYSTEM_FOLDER) ? readdirSync(SYSTEM_FOLDER).map(Number) : []
  const folders = versions
    .toSorted((a, b) => b - a)
    .map((version) => join(SYSTEM_FOLDER, String(version), 'bin'))
  return folders
    .map((folder) => ({ server: join(folder, 'postgres'), initdb: join(folder, 'initdb') }))
    .find(({ server, initdb }) => existsSync(server) && existsSync(initdb))
}

/** Starts it and waits until it answers. */
export async function startPostgres({ server, initdb }: PostgresPrograms): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), 'emq-pg-'))
  // PostgreSQL refuses to run as root.
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid)
  const data = join(folder, 'data')
  execFileSync(initdb, ['-D', data, '-U', USER, '--auth=trust', '--no-sync', '-E', 'UTF8'], {
    ...owner,
    cwd: folder,
    stdio: 'ignore',
  })
  const settings = ['listen_addresses=', `unix_socket_directories=${folder}`, ...FAST]
  const args = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])]
  const child = spawn('/bin/sh', ['-c', WATCHDOG, 'emq-pg', folder, server, ...args], {
    ...owner,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  const exited = once(child, 'exit')
  const connection = { host: folder, user: USER, database: 'postgres' }
  async function stop(): Promise<void> {
    child.stdin.end()
    await exited
  }
  try {
    await untilAnswering(connection)
  } catch (error) {
    await stop()
    throw error
  }
  return { connection, stop }
}

const idOf = (option: '-u' | '-g'): number =>
  Number(execFileSync('id', [option, USER], { encoding: 'utf8' }).trim())

async function untilAnswering(connection: Postgres['connection']): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const pool = new Pool(connection)
    try {
      await pool.query('select 1')
      return
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw new Error('PostgreSQL did not start.', { cause: error })
      await setTimeout(ATTEMPT_MS)
    } finally {
      await pool.end()
    }
  }
}
