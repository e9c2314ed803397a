/**
 * Finds a Redis server program, or gets one.
 *
 * In order: `redis-server` or `valkey-server` on PATH; on Debian and Ubuntu the package, when this process may
 * install packages; elsewhere a pinned Redis that `redis-memory-server` fetches and builds once. Whatever takes
 * long or changes the machine is said on stderr first. Never asks for a password, never changes npm's tree.
 */

import { installPackages, say, which } from './debian.ts'

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

async function installPackage(path: string): Promise<string | undefined> {
  const installed = await installPackages(['redis-server'], 'Redis is not installed', path)
  return installed ? findOnPath(path) : undefined
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
