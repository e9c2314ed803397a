/**
 * The Worker as `wrangler deploy` would upload it, and wrangler itself as a child process.
 *
 * The local stack runs the bytes that this builds, so what works here is what is deployed.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

export type WorkerModule = {
  readonly type: 'esm' | 'wasm' | 'text' | 'data'
  readonly contents: string | Uint8Array<ArrayBuffer>
}

export type BuiltWorker = {
  readonly name: string
  readonly mainModule: string
  /** By the name under which the code imports it. */
  readonly modules: Readonly<Record<string, WorkerModule>>
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
  /** The variables of wrangler.toml. */
  readonly vars: Readonly<Record<string, Json>>
  /** Of all modules together. */
  readonly bytes: number
  readonly gzippedBytes: number
}

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
export const WRANGLER_CONFIG = join(PROJECT, 'wrangler.toml')

const builds = new Map<string, Promise<BuiltWorker>>()

/**
 * Builds the Worker, once in the life of this process.
 *
 * @throws {Error} with what wrangler printed, when it does not build.
 */
export function buildWorker(config = WRANGLER_CONFIG): Promise<BuiltWorker> {
  const building = builds.get(config) ?? build(config)
  builds.set(config, building)
  return building
}

/** Starts wrangler in the project's folder. It ends with this process at the latest. */
export function spawnWrangler(args: readonly string[], stdio: 'inherit' | 'pipe'): ChildProcess {
  const manifest = createRequire(import.meta.url).resolve('wrangler/package.json')
  const program = join(dirname(manifest), 'bin', 'wrangler.js')
  const child = spawn(process.execPath, [program, ...args], {
    cwd: PROJECT,
    stdio: stdio === 'inherit' ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false' },
  })
  const kill = (): void => void child.kill()
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  return child
}

async function build(config: string): Promise<BuiltWorker> {
  const folder = await mkdtemp(join(tmpdir(), 'emq-worker-'))
  try {
    const [settings] = await Promise.all([readSettings(config), runDryDeploy(config, folder)])
    const modules = await readModules(folder)
    const contents = Object.values(modules).map((module) => Buffer.from(module.contents))
    return {
      ...settings,
      modules,
      bytes: contents.reduce((sum, content) => sum + content.length, 0),
      gzippedBytes: gzipSync(Buffer.concat(contents), { level: 9 }).length,
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runDryDeploy(config: string, folder: string): Promise<void> {
  const child = spawnWrangler(['deploy', '--dry-run', '--config', config, '--outdir', folder], 'pipe')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  }
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`The Worker does not build.\n${output.trim()}`)
}

async function readSettings(
  config: string,
): Promise<Omit<BuiltWorker, 'modules' | 'bytes' | 'gzippedBytes'>> {
  // Imported here: it takes more than a second, as long as wrangler builds in the meantime.
  const { unstable_readConfig } = await import('wrangler')
  const { name, main, compatibility_date, compatibility_flags, vars } = unstable_readConfig({ config })
  if (main === undefined || compatibility_date === undefined) {
    throw new Error(`${config} names no main module or no compatibility_date.`)
  }
  return {
    name: name ?? 'worker',
    mainModule: `${basename(main, extname(main))}.js`,
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    vars,
  }
}

async function readModules(folder: string): Promise<Record<string, WorkerModule>> {
  const modules: Record<string, WorkerModule> = {}
  for (const name of await readdir(folder)) {
    const module = toModule(extname(name), await readFile(join(folder, name)))
    if (module !== undefined) modules[name] = module
  }
  return modules
}

/** As wrangler's default rules have it; what is no module (source maps, a README) is not uploaded either. */
function toModule(extension: string, contents: Buffer): WorkerModule | undefined {
  switch (extension) {
    case '.js':
    case '.mjs':
      return { type: 'esm', contents: contents.toString() }
    case '.txt':
    case '.html':
    case '.sql':
      return { type: 'text', contents: contents.toString() }
    case '.wasm':
      return { type: 'wasm', contents: Uint8Array.from(contents) }
    case '.bin':
      return { type: 'data', contents: Uint8Array.from(contents) }
    default:
      return undefined
  }
}
