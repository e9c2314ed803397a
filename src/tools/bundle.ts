/**
 * The bundle: reads the scripts in `lua/`, each with its contract in its header, and writes what is derived from
 * them: `lua/manifest.json` for clients in any language and `src/protocol/scripts.generated.ts` for ours.
 *
 *     npm run bundle              # writes both
 *     npm run bundle -- --check   # changes nothing, fails when one is not what the scripts say
 *
 * Blocks (`-- block: name` to `-- end: name`) stand in several scripts, because a script cannot call another. They
 * must be the same to the letter wherever they stand; this is where that is enforced.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Manifest, ScriptContract } from '../protocol/manifest.ts'

export type { Manifest, ScriptContract }

const root = new URL('../../', import.meta.url)
const luaFolder = new URL('lua/', root)
const manifestFile = new URL('manifest.json', luaFolder)
const registryFile = new URL('src/protocol/scripts.generated.ts', root)

const CORE = ['enqueue', 'claim', 'complete', 'retry', 'promote', 'reap']

/** claim.lua is fixed bytes and has no header: other clients pin its SHA-1. Its contract stands here. */
const CLAIM_HEADER = {
  KEYS: 'emq:{q}:pending emq:{q}:active',
  ARGV: 'jobPrefix, leaseMs',
  REPLIES: 'empty array = nothing pending; {id, payload, token}, payload nil for a ghost',
  REPEATABLE: 'no, every run takes another job',
}
const CLAIM_SHA1 = '2319de1e94e21dd355032c7a25b90636b53f36cd'

const REFUSALS = {
  EMQKIND: 'the id is well-formed, but not of a job',
  EMQSTALE: 'the token is not the live one, or the job is gone',
  EMQSTATE: 'the job is not in the state that the move needs',
  EMQLOCK: 'a live lease holds the job',
  EMQFULL: 'the queue holds as many pending jobs as it may',
}

/** The header of a script: its leading comment lines, `-- WORD: text`. */
export function readHeader(source: string): Record<string, string> {
  const header: Record<string, string> = {}
  for (const line of source.split('\n')) {
    const match = /^-- ([A-Za-z_ ]+): (.+)$/.exec(line)
    if (match === null) break
    header[match[1] as string] = match[2] as string
  }
  return header
}

/** `id, delayMs (empty = now), jitter? (0 to 1)` -> the words. */
function words(list: string): string[] {
  return list
    .replace(/\([^)]*\)/g, '')
    .split(',')
    .map((word) => word.trim())
}

function contractOf(name: string, source: string): ScriptContract {
  const header = name === 'claim' ? CLAIM_HEADER : readHeader(source)
  const read = (field: string): string | undefined => (header as Record<string, string>)[field]
  const must = (field: string): string => {
    const text = read(field)
    if (text === undefined) throw new Error(`lua/${name}.lua has no ${field} in its header`)
    return text
  }
  const each = [read('KEYS EACH'), read('KEYS EACH WITH AN IDEMPOTENCY KEY')].filter(
    (key) => key !== undefined,
  )
  const optional = read('OPTIONAL KEYS')
  const args = read('ARGV')
  const argsEach = read('ARGV EACH')
  if (args === undefined && argsEach === undefined)
    throw new Error(`lua/${name}.lua has no ARGV in its header`)
  return {
    name,
    file: `${name}.lua`,
    sha1: createHash('sha1').update(source).digest('hex'),
    bytes: Buffer.byteLength(source),
    keys: must('KEYS').split(' '),
    ...(optional === undefined ? {} : { optionalKeys: optional.split(' ') }),
    ...(each.length === 0 ? {} : { keysEach: each }),
    args: args === undefined ? [] : words(args),
    ...(argsEach === undefined ? {} : { argsEach: words(argsEach) }),
    replies: must('REPLIES').split('; '),
    repeatable: must('REPEATABLE').startsWith('yes'),
  }
}

/** The text of each block of a script, by name. */
export function readBlocks(source: string): Map<string, string> {
  const blocks = new Map<string, string>()
  for (const [, name, text] of source.matchAll(/^-- block: (\w+)\n(.*?)^-- end: \1\n/gms)) {
    blocks.set(name as string, text as string)
  }
  return blocks
}

function checkBlocks(sources: ReadonlyMap<string, string>): void {
  const first = new Map<string, { script: string; text: string }>()
  for (const [script, source] of sources) {
    for (const [name, text] of readBlocks(source)) {
      const known = first.get(name)
      if (known === undefined) first.set(name, { script, text })
      else if (known.text !== text)
        throw new Error(`block ${name} differs between lua/${known.script}.lua and lua/${script}.lua`)
    }
  }
}

/** A source between backticks: its lines stay lines, so that a change can be read in a diff. */
const escaped = (source: string): string => source.replace(/[`\\]|\$\{/g, '\\$&')

/** Reads the scripts and derives the manifest and the registry from them. */
export function readBundle(): { manifest: Manifest; manifestText: string; registryText: string } {
  const names = readdirSync(luaFolder)
    .filter((file) => file.endsWith('.lua'))
    .map((file) => file.slice(0, -'.lua'.length))
    .sort()
  const sources = new Map(
    names.map((name) => [name, readFileSync(new URL(`${name}.lua`, luaFolder), 'utf8')]),
  )
  checkBlocks(sources)
  const contracts = new Map([...sources].map(([name, source]) => [name, contractOf(name, source)]))
  if (contracts.get('claim')?.sha1 !== CLAIM_SHA1)
    throw new Error(`lua/claim.lua is not the contract's: ${CLAIM_SHA1}`)
  const pick = (wanted: readonly string[]) =>
    wanted.map((name) => contracts.get(name)).filter((contract) => contract !== undefined)
  const manifest: Manifest = {
    version: 1,
    core: pick(CORE),
    extensions: pick(names.filter((name) => !CORE.includes(name))),
    refusals: REFUSALS,
  }
  const entries = [...sources].map(([name, source]) => {
    const contract = contracts.get(name) as ScriptContract
    const { file: _, bytes: __, replies: ___, ...facts } = contract
    const lines = Object.entries(facts).map(([field, value]) => `    ${field}: ${JSON.stringify(value)},`)
    return `  ${name}: {\n${lines.join('\n')}\n    source: \`${escaped(source)}\`,\n  },`
  })
  return {
    manifest,
    manifestText: `${JSON.stringify(manifest, null, 2)}\n`,
    registryText: [
      '// Generated by `npm run bundle` from lua/. Do not edit: change the script, then run it again.',
      '',
      'export const SCRIPTS = {',
      ...entries,
      '} as const',
      '',
      '/** Spelled out, so that the types of the package need not carry the sources. */',
      `export type ScriptName =\n${names.map((name) => `  | '${name}'`).join('\n')}`,
      '',
    ].join('\n'),
  }
}

function main(check: boolean): void {
  const { manifestText, registryText } = readBundle()
  for (const [file, text] of [
    [manifestFile, manifestText],
    [registryFile, registryText],
  ] as const) {
    if (!check) writeFileSync(file, text)
    else if (readFileSync(file, 'utf8') !== text) {
      console.error(
        `${fileURLToPath(file)} is not what lua/ says: run \`npm run bundle\` and commit the result`,
      )
      process.exitCode = 1
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.includes('--check'))
