/**
 * The licence notices of the packages whose code is in a build: the Worker and the command line contain code of their
 * dependencies without its comments. Lists all that may be in a build, which is more than is.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

/** The development dependencies, and theirs, that the build puts into the command line. */
export const BUNDLED = [
  '@hono/node-server',
  '@ioredis/commands',
  'cluster-key-slot',
  'debug',
  'denque',
  'ioredis',
  'ms',
  'redis-errors',
  'standard-as-callback',
  'supports-color',
]

type Manifest = {
  readonly name: string
  readonly version: string
  readonly license?: string
  readonly dependencies?: Readonly<Record<string, string>>
}

/** Returns the notices of the dependencies and of all that these depend on, in the order of their names. */
export async function licenceNotices(): Promise<string> {
  const { dependencies = {} } = await manifestIn(PROJECT)
  const folders = new Map<string, string>()
  const waiting = [...Object.keys(dependencies), ...BUNDLED]
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const folder = join(PROJECT, 'node_modules', name)
    if (folders.has(name)) continue
    folders.set(name, folder)
    waiting.push(...Object.keys((await manifestIn(folder)).dependencies ?? {}))
  }
  const names = [...folders.keys()].sort()
  const notices = await Promise.all(names.map((name) => noticeOf(folders.get(name) ?? '')))
  return `EchoMQ Edge contains code of these packages.\n\n${notices.join('\n')}`
}

async function noticeOf(folder: string): Promise<string> {
  const { name, version, license } = await manifestIn(folder)
  const files = (await readdir(folder)).filter((file) => /^(licen[cs]e|notice)\b/i.test(file)).sort()
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return [`${name} ${version} (${license ?? 'see below'})`, ...texts.map((text) => text.trim()), ''].join(
    '\n\n',
  )
}

async function manifestIn(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
}
