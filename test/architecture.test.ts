/** The rooms of the source: imports go one way, and only `queue/` builds commands of Redis. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

const src = new URL('../src/', import.meta.url).pathname

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))

/** Every node of a file. */
function nodesOf(source: string): ts.Node[] {
  const nodes: ts.Node[] = []
  const visit = (node: ts.Node): void => {
    nodes.push(node)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('file.ts', source, ts.ScriptTarget.Latest, true))
  return nodes
}

const sources = new Map(files.map((file) => [file, nodesOf(readFileSync(join(src, file), 'utf8'))]))

type Import = { readonly from: string; readonly to: string; readonly isType: boolean }

/** The room a file is in: its folder below src, or its own name at the top. */
const roomOf = (file: string): string => file.split('/')[0]?.replace(/\.ts$/, '') ?? file

/** The module that a node names: a static import or export, `import()`, `import.meta.resolve()` or a type import. */
function moduleOf(node: ts.Node): { name: string; isType: boolean } | undefined {
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier))
    return { name: node.moduleSpecifier.text, isType: node.importClause?.isTypeOnly === true }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier))
    return { name: node.moduleSpecifier.text, isType: node.isTypeOnly }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
    return { name: node.argument.literal.getText().slice(1, -1), isType: true }
  if (!ts.isCallExpression(node)) return undefined
  const isImport =
    node.expression.kind === ts.SyntaxKind.ImportKeyword ||
    node.expression.getText() === 'import.meta.resolve'
  const [argument] = node.arguments
  return isImport && argument && ts.isStringLiteralLike(argument)
    ? { name: argument.text, isType: false }
    : undefined
}

function importsOf(file: string, nodes: readonly ts.Node[]): Import[] {
  return nodes.flatMap((node) => {
    const found = moduleOf(node)
    if (found === undefined) return []
    const { name, isType } = found
    const to = name.startsWith('.') ? relative(src, join(src, dirname(file), name)) : name
    return [{ from: file, to, isType }]
  })
}

const imports = [...sources].flatMap(([file, nodes]) => importsOf(file, nodes))
const inside = imports.filter(({ to }) => /\.tsx?$/.test(to))

/** Rooms that run on a developer's machine only. */
const LOCAL = ['stack', 'tools']
const isLocal = (room: string): boolean => LOCAL.includes(room)
/** Rooms of the Worker and the package entries that run on the edge. */
const isEdge = (file: string): boolean => ![...LOCAL, 'cli'].includes(roomOf(file))

/** The rooms that each room may import; a room that is missing here may not exist. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  errors: [],
  protocol: ['protocol'],
  env: ['protocol'],
  queue: ['protocol', 'queue'],
  wake: ['protocol', 'queue', 'wake'],
  maintenance: ['protocol', 'queue', 'maintenance'],
  deployment: ['env', 'queue', 'wake'],
  http: ['protocol', 'queue', 'wake', 'http', 'maintenance', 'errors', 'env'],
  reference: ['protocol', 'http', 'errors', 'env', 'reference'],
  app: ['protocol', 'queue', 'http', 'reference', 'maintenance', 'errors', 'env', 'deployment'],
  service: ['app', 'deployment', 'protocol', 'client', 'service', 'wake'],
  worker: ['app', 'deployment', 'maintenance', 'service', 'wake', 'env', 'queue', 'protocol'],
  bundle: ['protocol'],
  index: ['app', 'deployment', 'maintenance', 'service', 'wake'],
  client: ['client'],
  dashboard: ['client', 'dashboard'],
  cli: ['cli', 'client', 'stack', 'protocol'],
}

test('the test finds the source and its imports', () => {
  expect(files.length).toBeGreaterThan(20)
  expect(inside.length).toBeGreaterThan(50)
  const ways = `
    import a from './a.ts'
    export type { B } from './b.ts'
    export * from './c.ts'
    const d = await import('./d.ts')
    const e = import.meta.resolve('./e.ts')
    type F = import('./f.ts').F`
  const found = importsOf('queue/x.ts', nodesOf(ways))
  expect(found.map(({ to }) => to)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `queue/${name}.ts`))
  expect(found.filter(({ isType }) => isType).map(({ to }) => to)).toEqual(['queue/b.ts', 'queue/f.ts'])
})

test('every room imports only the rooms below it', () => {
  const wrong = inside.filter(({ from, to, isType }) => {
    const room = roomOf(from)
    if (isLocal(room)) return false
    if (room === 'client' && isType && roomOf(to) === 'protocol') return false
    return !MAY_IMPORT[room]?.includes(roomOf(to))
  })
  expect(wrong).toEqual([])
})

test('only the command line imports the local stack', () => {
  const users = inside.filter(({ from, to }) => !isLocal(roomOf(from)) && isLocal(roomOf(to)))
  expect(new Set(users.map(({ from }) => roomOf(from)))).toEqual(new Set(['cli']))
})

test('no file that runs on the edge imports Node', () => {
  expect(imports.filter(({ from, to }) => isEdge(from) && to.startsWith('node:'))).toEqual([])
})

test('one file on the edge sends requests to Redis', () => {
  const senders = imports.filter(({ to }) => to.startsWith('@upstash/')).map(({ from }) => from)
  expect(senders).toEqual(['queue/upstash.ts'])
})

const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

type Words = { readonly code: string; readonly first: string; readonly areMethods: boolean }

/** The arrays that begin with a word in capitals, as a command does. */
const capitalArraysIn = (nodes: readonly ts.Node[]): Words[] =>
  nodes.filter(ts.isArrayLiteralExpression).flatMap((node) => {
    const words = node.elements.map((element) => (ts.isStringLiteralLike(element) ? element.text : ''))
    const [first = ''] = words
    const areMethods = words.every((word) => HTTP_METHODS.includes(word))
    return /^[A-Z]{3,}$/.test(first) ? [{ code: node.getText(), first, areMethods }] : []
  })

/** The words that begin commands in `queue/`, and others that tests use. */
const COMMANDS = new Set([
  ...['DEL', 'EVAL', 'EVALSHA', 'EXISTS', 'HGET', 'HSET', 'INFO', 'MGET', 'TIME', 'XADD', 'ZADD', 'ZREM'],
  ...[...sources]
    .filter(([file]) => roomOf(file) === 'queue')
    .flatMap(([, nodes]) => capitalArraysIn(nodes).map(({ first }) => first)),
])

/** The code of each array that is a command, and no list of HTTP methods. */
const commandsIn = (nodes: readonly ts.Node[]): string[] =>
  capitalArraysIn(nodes)
    .filter(({ first, areMethods }) => COMMANDS.has(first) && !areMethods)
    .map(({ code }) => code)

/** Calls of a method `send`, as a port has it. */
const sendsIn = (nodes: readonly ts.Node[]): string[] =>
  nodes
    .filter(ts.isCallExpression)
    .map(({ expression }) => expression)
    .filter((called) => ts.isPropertyAccessExpression(called) && called.name.text === 'send')
    .map((called) => called.getText())
    // A WebSocket of a waiting claim.
    .filter((called) => called !== 'socket.send')

test('only queue/ builds commands of Redis and sends them', () => {
  // The client sends requests to the API, and may not import the queue.
  const others = [...sources].filter(([file]) => isEdge(file) && !['queue', 'client'].includes(roomOf(file)))
  const built = others.flatMap(([file, nodes]) =>
    [...commandsIn(nodes), ...sendsIn(nodes)].map((code) => ({ file, code })),
  )
  expect(built).toEqual([])
  const makers = ['queue/scripts.ts', 'queue/replies.ts']
  const users = inside.filter(
    ({ from, to }) => makers.includes(to) && isEdge(from) && roomOf(from) !== 'queue',
  )
  expect(users).toEqual([])
  // The search itself finds them where they are.
  const registry = sources.get('queue/registry.ts') ?? []
  expect(commandsIn(registry).length).toBeGreaterThan(2)
  expect(sendsIn(sources.get('queue/scripts.ts') ?? [])).toContain('port.send')
  expect(commandsIn(nodesOf("const methods = ['GET', 'HEAD']"))).toEqual([])
})

test('the client has no dependency', () => {
  const outside = imports.filter(({ from, to }) => roomOf(from) === 'client' && !/\.tsx?$/.test(to))
  expect(outside).toEqual([])
})

test('folders are named by role', () => {
  const kinds = files.filter((file) => /(^|\/)(utils?|types?|helpers?|interfaces?)(\/|\.ts$)/.test(file))
  expect(kinds).toEqual([])
})
