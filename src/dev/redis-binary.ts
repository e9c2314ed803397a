/**
 * Finds a Redis server program, or gets one.
 *
 * In order: `redis-server` or `valkey-server` on PATH; on Debian and Ubuntu the package, when this process may
 * install packages; elsewhere a pinned Redis that `redis-memory-server` fetches and builds once. Whatever takes
 * long or changes the machine is said on stderr first. Never asks for a password, never changes npm's tree.
 */

import { execFile, spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const PROGRAMS = ['redis-server', 'valkey-server']

/** The last Redis under the BSD licence; what is built where no package can be installed. */
const BUILT_VERSION = '7.2.7'

const HOW_TO_GET_IT =
  'No Redis was found and none could be got. Install Redis 7 or newer so that `redis-server` is on PATH ' +
  '(https://redis.io/docs/latest/operate/oss_and_stack/install/), or name a running one with --redis-url.'

/**
 * The path of a Redis server program.
 *
 * @throws {Error} with one sentence on how to get one, when there is none and none could be got.
 */
export async function findRedisBinary(path = process.env['PATH'] ?? ''): Promise<string> {
  const found = (await findOnPath(path)) ?? (await installPackage(path)) ?? (await build())
  if (found === undefined) throw new Error(HOW_TO_GET_IT)
  return found
}

async function findOnPath(path: string): Promise<string | undefined> {
  for (const program of PROGRAMS) {
    const found = await which(program, path)
    if (found !== undefined) return found
  }
  return undefined
}

async function which(program: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    const candidate = join(folder, program)
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}

async function installPackage(path: string): Promise<string | undefined> {
  const apt = await which('apt-get', path)
  if (apt === undefined) return undefined
  const prefix = await rootPrefix(path)
  if (prefix === undefined) return undefined

  say('Redis is not installed: installing the package redis-server with apt-get.')
  // The lists of a fresh machine are empty or old; where the update fails, the install may still succeed.
  await aptGet(prefix, apt, ['update'])
  await aptGet(prefix, apt, ['install', '--yes', '--no-install-recommends', 'redis-server'])
  return findOnPath(path)
}

/** What to put before a command to run it as root: nothing for root, sudo where it asks nothing; else undefined. */
async function rootPrefix(path: string): Promise<readonly string[] | undefined> {
  if (process.getuid?.() === 0) return []
  const sudo = await which('sudo', path)
  if (sudo === undefined) return undefined
  const mayRun = await promisify(execFile)(sudo, ['-n', 'true']).then(
    () => true,
    () => false,
  )
  return mayRun ? [sudo, '-n'] : undefined
}

function aptGet(prefix: readonly string[], apt: string, args: readonly string[]): Promise<void> {
  const [command = apt, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', apt, ...args]
  return new Promise((resolve) => {
    // stdout of apt-get goes to our stderr: our own stdout is for machines to read.
    const child = spawn(command, rest, { stdio: ['ignore', process.stderr, process.stderr] })
    child.once('error', () => resolve())
    child.once('exit', () => resolve())
  })
}

async function build(): Promise<string | undefined> {
  say(`Redis is not installed: fetching and building Redis ${BUILT_VERSION}, once. This takes a few minutes.`)
  try {
    // redis-memory-server checks the certificate of the download only when npm's setting says so.
    process.env['npm_config_strict_ssl'] = 'true'
    // Imported here because hardly any machine comes this far. A CommonJS module: its default is its exports.
    const module = await import('redis-memory-server/lib/util/RedisBinary.js')
    return await module.default.default.getPath({ version: BUILT_VERSION })
  } catch (error) {
    say(`Building Redis failed: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
