/**
 * The bundle: reads the scripts in `lua/` and writes everything that is derived from them.
 *
 *     npm run bundle              # writes all of it
 *     npm run bundle -- --check   # changes nothing; lists the differences and fails if there is one
 *
 * Into each script: the prologue, which gives the keys and arguments of the header their names, and the text of each
 * shared block from `lua/blocks/`, because a Redis script cannot call another. Beside the scripts: `lua/manifest.json`
 * for clients in any language, and `src/protocol/scripts.generated.ts` for ours.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Manifest, ScriptContract } from '../protocol/manifest.ts'

export type { Manifest, ScriptContract }

const root = new URL('../../', import.meta.url)
const luaFolder = new URL('lua/', root)
const blockFolder = new URL('blocks/', luaFolder)
const manifestFile = new URL('manifest.json', luaFolder)
const registryFile = new URL('src/protocol/scripts.generated.ts', root)

const CORE = ['enqueue', 'claim', 'complete', 'retry', 'promote', 'reap']

/** claim.lua is fixed bytes and has no header: other clients pin its SHA-1. Its contract is kept here. */
const CLAIM_HEADER = `\
-- claim: leases the oldest pending job.
-- MOVE: pending -> active
-- KEYS:
--   pending  emq:{q}:pending
--   active   emq:{q}:active
-- ARGV:
--   jobPrefix
--   leaseMs
-- REPLIES:
--   empty array = nothing pending
--   {id, payload, token}, payload nil for a ghost
-- REPEATABLE: no, every run takes another job
`
const CLAIM_SHA1 = '2319de1e94e21dd355032c7a25b90636b53f36cd'

const REFUSALS = {
  EMQKIND: 'the id is well-formed, but not of a job',
  EMQSTALE: 'the token is not the live one, or the job is gone',
  EMQSTATE: 'the job is not in the state that the move needs',
  EMQLOCK: 'a live lease holds the job',
  EMQKEY: 'the idempotency key belongs to a batch of another size',
  EMQFULL: 'the queue holds as many pending jobs as it may',
}

type Header = ReadonlyMap<string, readonly string[]>

/** The header of a script: `-- WORD: text`, or `-- WORD:` and `--   entry` lines. A line that is indented further continues. */
export function readHeader(source: string): Header {
  const header = new Map<string, string[]>()
  let section: string[] = []
  for (const line of source.split('\n')) {
    const [, word, text, entry] = /^-- (?:([A-Za-z_][A-Za-z_ ]*):(?: (.+))?| {2}(.+))$/.exec(line) ?? []
    if (entry?.startsWith('  ')) section.push(`${section.pop()} ${entry.trimStart()}`)
    else if (entry !== undefined) section.push(entry)
    else if (word !== undefined) {
      section = text === undefined ? [] : [text]
      header.set(word, section)
    } else break
  }
  return header
}

/** A key or an argument of a header: its name, then its template or what it means. */
type Entry = { readonly name: string; readonly text: string }

const entriesOf = (header: Header, section: string): Entry[] =>
  (header.get(section) ?? []).map((line) => {
    const [name = '', text = ''] = line.split(/ {2,}/)
    return { name, text }
  })

/** What the header of a script declares. */
function layoutOf(header: Header) {
  const [eachWithSection = '', condition = ''] =
    [...header.keys()].map((section) => /^KEYS EACH WITH (\w+)$/.exec(section)).find(Boolean) ?? []
  return {
    keys: entriesOf(header, 'KEYS'),
    optionalKeys: entriesOf(header, 'OPTIONAL KEYS'),
    keysEach: entriesOf(header, 'KEYS EACH'),
    /** A further key of each item whose argument `condition` is not empty; these keys follow all others. */
    keysEachWith: entriesOf(header, eachWithSection),
    condition,
    args: entriesOf(header, 'ARGV'),
    argsEach: entriesOf(header, 'ARGV EACH'),
  }
}

function contractOf(name: string, source: string): ScriptContract {
  const header = readHeader(name === 'claim' ? CLAIM_HEADER : source)
  for (const section of ['KEYS', 'REPLIES', 'REPEATABLE'])
    if ((header.get(section) ?? []).length === 0)
      throw new Error(`lua/${name}.lua has no ${section} in its header`)
  const { keys, optionalKeys, keysEach, keysEachWith, args, argsEach } = layoutOf(header)
  if (args.length + argsEach.length === 0) throw new Error(`lua/${name}.lua has no ARGV in its header`)
  const templates = (entries: readonly Entry[]): string[] => entries.map(({ text }) => text)
  const words = (entries: readonly Entry[]): string[] => entries.map((entry) => entry.name)
  const each = templates([...keysEach, ...keysEachWith])
  return {
    name,
    file: `${name}.lua`,
    sha1: createHash('sha1').update(source).digest('hex'),
    bytes: Buffer.byteLength(source),
    keys: templates(keys),
    ...(optionalKeys.length === 0 ? {} : { optionalKeys: templates(optionalKeys) }),
    ...(each.length === 0 ? {} : { keysEach: each }),
    args: words(args),
    ...(argsEach.length === 0 ? {} : { argsEach: words(argsEach) }),
    replies: header.get('REPLIES') ?? [],
    repeatable: header.get('REPEATABLE')?.[0]?.startsWith('yes') === true,
  }
}

/** `head{a = KEYS[1], ...}`, wrapped to 118 characters. */
function luaTable(head: string, fields: readonly string[]): string[] {
  const line = `${head}{${fields.join(', ')}}`
  if (line.length <= 118) return [line]
  const indent = ' '.repeat(head.search(/\S/))
  const wrapped =
    `${fields.join(', ')},`.match(new RegExp(`\\S.{1,${113 - indent.length}},(?= |$)`, 'g')) ?? []
  return [`${head}{`, ...wrapped.map((part) => `${indent}  ${part}`), `${indent}}`]
}

/** The prologue of a script: `keys`, `args` and, for a script that takes a list, `items`, by the names of the header. */
function prologueOf(source: string): string {
  const { keys, optionalKeys, keysEach, keysEachWith, condition, args, argsEach } = layoutOf(
    readHeader(source),
  )
  const named = (entries: readonly Entry[], from: string, place: (nth: number) => string): string[] =>
    entries.map(({ name }, index) => `${name.replace('?', '')} = ${from}[${place(index + 1)}]`)
  const lines = luaTable('local keys = ', named([...keys, ...optionalKeys], 'KEYS', String))
  if (args.length > 0) lines.push(...luaTable('local args = ', named(args, 'ARGV', String)))
  if (argsEach.length > 0) {
    const [before, size] = [args.length, argsEach.length]
    const values = before === 0 ? '#ARGV' : `#ARGV - ${before}`
    const count = size === 1 ? values : `${before === 0 ? values : `(${values})`} / ${size}`
    const fields = [
      ...named(keysEach, 'KEYS', () => `${keys.length} + nth`),
      ...named(argsEach, 'ARGV', (nth) => (size === 1 ? `${before} + nth` : `at + ${nth}`)),
    ]
    lines.push('local items = {}')
    if (condition !== '') lines.push(`local further = ${keys.length} + ${count}`)
    lines.push(`for nth = 1, ${count} do`)
    if (size > 1) lines.push(`  local at = ${before === 0 ? '' : `${before} + `}(nth - 1) * ${size}`)
    lines.push(...luaTable('  items[nth] = ', fields))
    for (const { name } of keysEachWith)
      lines.push(
        `  if items[nth].${condition} ~= '' then`,
        '    further = further + 1',
        `    items[nth].${name} = KEYS[further]`,
        '  end',
      )
    lines.push('end')
  }
  return `${lines.join('\n')}\n`
}

const BLOCK = /^-- block: (\w+)\n(.*?)^-- end: \1\n/gms
const PROLOGUE = /^-- prologue\n(.*?)^-- end: prologue\n/ms

/** The text of each block of a script, by name. */
const readBlocks = (source: string): Map<string, string> =>
  new Map([...source.matchAll(BLOCK)].map(([, name = '', text = '']) => [name, text]))

const LUA_WORDS = new Set(
  (
    'and break do else elseif end false for function if in local nil not or repeat return then true until while ' +
    'ipairs math pairs redis select string table tonumber tostring type unpack'
  ).split(' '),
)

/** The names that a piece of Lua reads and does not declare. */
function freeNames(lua: string): Set<string> {
  const code = lua.replace(/--.*$/gm, '').replace(/'[^'\n]*'/g, "''")
  const declarations = code.matchAll(
    /\blocal function (\w+)|\blocal (?!function\b)([\w, ]+)|\bfunction ?\w*\(([^)]*)\)|\bfor ([\w, ]+?) (?:in|=) /g,
  )
  // The first alternative consumes the name of a local function, so its parameters need a search of their own.
  const parameters = code.matchAll(/\blocal function \w+\(([^)]*)\)/g)
  const declared = new Set(
    [...declarations, ...parameters].flatMap(([, ...lists]) =>
      lists.flatMap((list) => list?.split(/[, ]+/) ?? []),
    ),
  )
  const used = [...code.matchAll(/(?<![\w.:])[A-Za-z_]\w*\b(?!\s*=(?!=))/g)].map(([name]) => name)
  return new Set(used.filter((name) => !declared.has(name) && !LUA_WORDS.has(name)))
}

/** Throws if a marker has no end, a block is not needed, or a name has no declaration. */
function checkScript(name: string, source: string): void {
  const code = source.replace(PROLOGUE, '').replace(/--.*$/gm, '')
  const fail = (fault: string): never => {
    throw new Error(`lua/${name}.lua: ${fault}`)
  }
  if (!PROLOGUE.test(source)) fail('there is no prologue: add the lines `-- prologue` and `-- end: prologue`')
  const blocks = readBlocks(source)
  if (source.match(/^-- block: /gm)?.length !== (blocks.size || undefined))
    fail('a block has no end, or is twice')
  const above = new Set<string>()
  for (const [block, text] of blocks) {
    const unknown = [...freeNames(text)].find((free) => !above.has(free))
    if (unknown !== undefined)
      fail(`block ${block} uses ${unknown}, which is neither a parameter nor a block above it`)
    if (code.match(new RegExp(`\\b${block}\\(`, 'g'))?.length === 1) fail(`block ${block} is not used`)
    above.add(block)
  }
  if (/\b(KEYS|ARGV)\b/.test(code)) fail('use the names of the header, not KEYS and ARGV')
  const own = freeNames(source.replace(PROLOGUE, '').replace(BLOCK, ''))
  const unknown = [...own].find((free) => !above.has(free) && !['keys', 'args', 'items'].includes(free))
  if (unknown !== undefined) fail(`${unknown} is not declared`)
  const { keys, optionalKeys, args } = layoutOf(readHeader(source))
  const declared = [
    ...[...keys, ...optionalKeys].map((key) => `keys.${key.name}`),
    ...args.map((arg) => `args.${arg.name.replace('?', '')}`),
  ]
  for (const [word] of code.matchAll(/\b(keys|args)\.\w+/g))
    if (!declared.includes(word)) fail(`${word} is not in the header`)
}

/** A script with its prologue and blocks filled in, and where the file differs from that. */
function fillIn(name: string, source: string, blocks: ReadonlyMap<string, string>) {
  const differences: string[] = []
  const compare = (found: string, wanted: string, difference: string): void => {
    if (found !== wanted) differences.push(`lua/${name}.lua: ${difference}`)
  }
  const filled = source
    .replace(PROLOGUE, (_, found: string) => {
      const wanted = prologueOf(source)
      compare(found, wanted, 'the prologue differs from the header')
      return `-- prologue\n${wanted}-- end: prologue\n`
    })
    .replace(BLOCK, (_, block: string, found: string) => {
      const wanted = blocks.get(block)
      if (wanted === undefined) throw new Error(`lua/${name}.lua: there is no lua/blocks/${block}.lua`)
      compare(found, wanted, `block ${block} differs from lua/blocks/${block}.lua`)
      return `-- block: ${block}\n${wanted}-- end: ${block}\n`
    })
  checkScript(name, filled)
  return { filled, differences }
}

function luaFilesOf(folder: URL): Map<string, string> {
  const files = readdirSync(folder).filter((file) => file.endsWith('.lua'))
  return new Map(files.sort().map((file) => [file.slice(0, -4), readFileSync(new URL(file, folder), 'utf8')]))
}

/** A source between backticks: its lines stay lines, so that a change can be read in a diff. */
const escaped = (source: string): string => source.replace(/[`\\]|\$\{/g, '\\$&')

/** A source that takes its blocks from the constant `BLOCKS`: the Worker carries each block once. */
const assembled = (source: string): string =>
  escaped(source).replace(BLOCK, (_, block: string) => `\${BLOCKS.${block}}`)

/** Reads the scripts and derives everything from them. `differences` says where the scripts are not up to date. */
export function readBundle(): {
  sources: ReadonlyMap<string, string>
  differences: readonly string[]
  manifestText: string
  registryText: string
} {
  const [blocks, sources, differences] = [luaFilesOf(blockFolder), luaFilesOf(luaFolder), [] as string[]]
  for (const [name, source] of sources) {
    if (name === 'claim') continue
    const script = fillIn(name, source, blocks)
    sources.set(name, script.filled)
    differences.push(...script.differences)
  }
  for (const block of blocks.keys())
    if (![...sources.values()].some((source) => readBlocks(source).has(block)))
      throw new Error(`lua/blocks/${block}.lua: no script has this block`)
  const contracts = [...sources].map(([name, source]) => contractOf(name, source))
  if (contracts.find(({ name }) => name === 'claim')?.sha1 !== CLAIM_SHA1)
    throw new Error(`The SHA-1 of lua/claim.lua is not ${CLAIM_SHA1}`)
  const manifest: Manifest = {
    version: 1,
    core: CORE.flatMap((core) => contracts.filter(({ name }) => name === core)),
    extensions: contracts.filter(({ name }) => !CORE.includes(name)),
    refusals: REFUSALS,
  }
  const entries = contracts.map(({ file: _, bytes: __, replies: ___, ...facts }) => {
    const lines = Object.entries(facts).map(([field, value]) => `    ${field}: ${JSON.stringify(value)},`)
    return `  ${facts.name}: {\n${lines.join('\n')}\n    source: \`${assembled(sources.get(facts.name) ?? '')}\`,\n  },`
  })
  return {
    sources,
    differences,
    manifestText: `${JSON.stringify(manifest, null, 2)}\n`,
    registryText: [
      '// Generated by `npm run bundle` from lua/. Do not edit: change the script, then run it again.',
      '',
      'const BLOCKS = {',
      ...[...blocks].map(
        ([name, text]) => `  ${name}: \`-- block: ${name}\\n${escaped(text)}-- end: ${name}\\n\`,`,
      ),
      '}',
      '',
      'export const SCRIPTS = {',
      ...entries,
      '} as const',
      '',
      '/** Spelled out, so that the types of the package need not carry the sources. */',
      `export type ScriptName =\n${contracts.map(({ name }) => `  | '${name}'`).join('\n')}`,
      '',
    ].join('\n'),
  }
}

function main(check: boolean): void {
  const { sources, differences, manifestText, registryText } = readBundle()
  const derived = [
    [manifestFile, manifestText],
    [registryFile, registryText],
  ] as const
  if (!check) {
    for (const [name, source] of sources) writeFileSync(new URL(`${name}.lua`, luaFolder), source)
    for (const [file, text] of derived) writeFileSync(file, text)
    return
  }
  const stale = derived
    .filter(([file, text]) => readFileSync(file, 'utf8') !== text)
    .map(([file]) => `${relative(fileURLToPath(root), fileURLToPath(file))} differs from the scripts`)
  for (const difference of [...differences, ...stale]) console.error(difference)
  if (differences.length + stale.length === 0) return
  console.error('Run `npm run bundle` and commit the result.')
  process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.includes('--check'))
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
