/** Imports go one way; this reads them and enforces it. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const src = new URL('../src/', import.meta.url).pathname

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))

type Import = { readonly from: string; readonly to: string; readonly isType: boolean }

/** The room a file is in: its folder below src, or its own name at the top. */
const roomOf = (file: string): string => file.split('/')[0]?.replace(/\.ts$/, '') ?? file

function importsOf(file: string): Import[] {
  const source = readFileSync(join(src, file), 'utf8')
  const statements = source.matchAll(/^\s*(?:import|export)\s+(type\s)?[^'"`;]*?from\s+'([^']+)'/gm)
  return [...statements].map(([, type, to = '']) => ({
    from: file,
    to: to.startsWith('.') ? relative(src, join(src, dirname(file), to)) : to,
    isType: type !== undefined,
  }))
}

const imports = files.flatMap(importsOf)
const inside = imports.filter(({ to }) => /\.tsx?$/.test(to))

/** Rooms that run on a developer's machine only. */
const LOCAL = ['stack', 'tools']
const isLocal = (room: string): boolean => LOCAL.includes(room)

/** What each room may import; a room that is not listed here may not exist. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  errors: [],
  protocol: ['protocol'],
  env: ['protocol'],
  queue: ['protocol', 'queue', 'env', 'wake'],
  wake: ['queue', 'wake'],
  maintenance: ['protocol', 'queue', 'maintenance'],
  deployment: ['env', 'queue', 'wake'],
  http: ['protocol', 'queue', 'wake', 'http', 'maintenance', 'errors', 'env'],
  reference: ['protocol', 'http', 'errors', 'env', 'reference'],
  app: ['protocol', 'queue', 'http', 'reference', 'maintenance', 'errors', 'env', 'deployment'],
  service: ['app', 'deployment', 'protocol', 'client', 'service'],
  worker: ['app', 'deployment', 'maintenance', 'service', 'wake', 'env', 'queue', 'protocol'],
  bundle: ['protocol'],
  index: ['app', 'deployment', 'maintenance', 'service'],
  client: ['client'],
  cli: ['cli', 'client', 'protocol', 'stack'],
}

test('the source was found', () => {
  expect(files.length).toBeGreaterThan(20)
  expect(inside.length).toBeGreaterThan(50)
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

test('nothing imports the local stack but the command line that starts it', () => {
  const users = inside.filter(({ from, to }) => !isLocal(roomOf(from)) && isLocal(roomOf(to)))
  expect(new Set(users.map(({ from }) => roomOf(from)))).toEqual(new Set(['cli']))
})

test('what runs on the edge imports nothing of Node', () => {
  const edge = imports.filter(({ from }) => ![...LOCAL, 'cli'].includes(roomOf(from)))
  expect(edge.filter(({ to }) => to.startsWith('node:'))).toEqual([])
})

test('one file sends to Redis on the edge', () => {
  const senders = imports.filter(({ to }) => to.startsWith('@upstash/')).map(({ from }) => from)
  expect(senders).toEqual(['queue/upstash.ts'])
})

test('the client has no dependency', () => {
  const outside = imports.filter(({ from, to }) => roomOf(from) === 'client' && !/\.tsx?$/.test(to))
  expect(outside).toEqual([])
})

test('folders are named by role', () => {
  const kinds = files.filter((file) => /(^|\/)(utils?|types?|helpers?|interfaces?)(\/|\.ts$)/.test(file))
  expect(kinds).toEqual([])
})
