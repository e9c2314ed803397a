/**
 * Builds the Worker exactly as `wrangler deploy` would upload it, with wrangler as a child process. The local stack
 * runs this build, code and settings.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

export type WorkerModule =
  | { readonly type: 'esm' | 'text'; readonly contents: string }
  | { readonly type: 'wasm' | 'data'; readonly contents: Uint8Array<ArrayBuffer> }

export type BuiltWorker = {
  readonly mainModule: string
  /** By the name that the code imports. */
  readonly modules: Readonly<Record<string, WorkerModule>>
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
  /** The variables of wrangler.toml. */
  readonly vars: Readonly<Record<string, Json>>
  /** The static assets and the name of their binding. */
  readonly assets?: { readonly binding: string; readonly directory: string }
  /** The classes of Durable Objects by the name of their binding. */
  readonly durableObjects: Readonly<Record<string, string>>
  /** Size of all modules together. */
  readonly bytes: number
  readonly gzippedBytes: number
}

/** The settings in an upload. */
type Metadata = {
  readonly main_module: string
  readonly compatibility_date: string
  readonly compatibility_flags?: readonly string[]
  readonly bindings: readonly Binding[]
}
type Binding = {
  readonly name: string
  readonly type: string
  readonly text?: string
  readonly json?: Json
  readonly class_name?: string
}

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

/** The folder of the static assets. wrangler.toml names it too, but an upload does not. */
export const SITE = join(PROJECT, 'dist', 'site')
const WRANGLER_CONFIG = join(PROJECT, 'wrangler.toml')

const builds = new Map<string, Promise<BuiltWorker>>()

/**
 * Builds the Worker of a wrangler.toml, by default the project's, once per process.
 *
 * @param environment A section `[env.NAME]` of the file. Default: the settings at its top level.
 * @throws {Error} with the output of wrangler, when the build fails.
 */
export function buildWorker(config = WRANGLER_CONFIG, environment = ''): Promise<BuiltWorker> {
  const key = JSON.stringify([config, environment])
  const building = builds.get(key) ?? build(config, environment)
  builds.set(key, building)
  return building
}

/** Starts wrangler in the folder of the project. It ends with this process at the latest. */
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

async function build(config: string, environment: string): Promise<BuiltWorker> {
  // Synchronously, so that this process cannot end between making the folder and removing it.
  const folder = mkdtempSync(join(tmpdir(), 'emq-worker-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    const file = join(folder, 'upload')
    const writing = writeUpload(config, environment, file)
    // Registered after wrangler's handler, so that wrangler ends first.
    process.once('exit', remove)
    await writing
    return await readUpload(await readFile(file))
  } finally {
    process.off('exit', remove)
    remove()
  }
}

async function writeUpload(config: string, environment: string, file: string): Promise<void> {
  const args = ['deploy', '--dry-run', '--config', config, '--env', environment, '--outfile', file]
  const child = spawnWrangler(args, 'pipe')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  }
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`The Worker does not build.\n${output.trim()}`)
}

/** Reads an upload: a form whose files are the modules. */
async function readUpload(upload: Buffer<ArrayBuffer>): Promise<BuiltWorker> {
  const boundary = upload.subarray(2, upload.indexOf('\r\n')).toString()
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  const form = await new Response(upload, { headers }).formData()

  const modules: Record<string, WorkerModule> = {}
  const contents: Uint8Array[] = []
  for (const [name, part] of form) {
    if (typeof part === 'string' || part.type === 'application/source-map') continue
    const bytes = await part.bytes()
    modules[name] = toModule(part.type, bytes)
    contents.push(bytes)
  }
  const all = Buffer.concat(contents)
  const metadata: Metadata = JSON.parse(String(form.get('metadata')))
  const assets = metadata.bindings.find(({ type }) => type === 'assets')
  const objects = metadata.bindings.filter(({ type }) => type === 'durable_object_namespace')
  return {
    mainModule: metadata.main_module,
    modules,
    compatibilityDate: metadata.compatibility_date,
    compatibilityFlags: metadata.compatibility_flags ?? [],
    vars: Object.fromEntries(
      metadata.bindings
        .filter((binding) => binding !== assets && !objects.includes(binding))
        .map((binding) => [binding.name, toVariable(binding)]),
    ),
    durableObjects: Object.fromEntries(objects.map(({ name, class_name = '' }) => [name, class_name])),
    ...(assets === undefined ? {} : { assets: { binding: assets.name, directory: SITE } }),
    bytes: all.length,
    gzippedBytes: gzipSync(all, { level: 9 }).length,
  }
}

const MODULE_TYPES: Readonly<Record<string, WorkerModule['type']>> = {
  'application/javascript+module': 'esm',
  'text/plain': 'text',
  'application/wasm': 'wasm',
  'application/octet-stream': 'data',
}

function toModule(mediaType: string, bytes: Uint8Array<ArrayBuffer>): WorkerModule {
  const type = MODULE_TYPES[mediaType]
  if (type === undefined)
    throw new Error(`The local stack does not support Worker modules of type ${mediaType}.`)
  if (type === 'wasm' || type === 'data') return { type, contents: bytes }
  return { type, contents: Buffer.from(bytes).toString() }
}

function toVariable({ name, type, text, json }: Binding): Json {
  if (type === 'plain_text' && text !== undefined) return text
  if (type === 'json' && json !== undefined) return json
  throw new Error(
    `The local stack does not support bindings of type ${type}, such as ${name} in wrangler.toml.`,
  )
}
