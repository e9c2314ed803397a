/**
 * Finds a Redis server program or gets one: `redis-server` or `valkey-server` on PATH, else the Debian package, else a
 * pinned Redis that `redis-memory-server` downloads and builds once.
 */

import { installPackages, say, which } from './debian.ts'

/** The last Redis under the BSD licence. */
const BUILT_VERSION = '7.2.7'

/**
 * Returns the path of a Redis server program.
 *
 * @throws {Error} that says how to install Redis, when no source has one.
 */
export async function findRedisBinary(path = process.env['PATH'] ?? ''): Promise<string> {
  const found = (await findOnPath(path)) ?? (await installPackage(path)) ?? (await build())
  if (found !== undefined) return found
  throw new Error(
    'No Redis was found and none could be installed. Install Redis 7 or newer so that `redis-server` is on PATH ' +
      '(https://redis.io/docs/latest/operate/oss_and_stack/install/), or name a running Redis with --redis-url.',
  )
}

async function findOnPath(path: string): Promise<string | undefined> {
  return (await which('redis-server', path)) ?? (await which('valkey-server', path))
}

async function installPackage(path: string): Promise<string | undefined> {
  return (await installPackages(['redis-server'], 'Redis is not installed', path))
    ? findOnPath(path)
    : undefined
}

async function build(): Promise<string | undefined> {
  say(
    `Redis is not installed: downloading and building Redis ${BUILT_VERSION}. This takes a few minutes, once.`,
  )
  try {
    // redis-memory-server checks the certificate of the download only with this setting of npm.
    process.env['npm_config_strict_ssl'] = 'true'
    // Imported here because few machines need it. A CommonJS module: its default is its exports.
    const module = await import('redis-memory-server/lib/util/RedisBinary.js')
    const binary = await module.default.default.getPath({ version: BUILT_VERSION })
    say(`Built Redis ${BUILT_VERSION}.`)
    return binary
  } catch (error) {
    say(`Building Redis failed: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}
