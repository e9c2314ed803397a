/** The documentation of the client: the examples in its comments, and `docs/client.md`. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { PROJECT, programOf, wrongIn } from '../support/typescript.ts'
import { TABLES, tableOfCodes, tablesOfTypes } from './support/reference.ts'

function read(file: string): string {
  return readFileSync(join(PROJECT, file), 'utf8')
}

/** The names that the examples use. */
const GIVEN = `
import { Consumer, deadLetter, EchoMQ, EchoMQError, type Handler, type Job, type Queue, retryIn } from 'echomq-edge/client'
import * as z from 'zod'
type Email = { readonly to: string }
declare const emq: EchoMQ
declare const emails: Queue<Email>
declare const job: Job<Email>
declare const consumer: Consumer<Email>
declare const id: string
declare const send: (payload: Email, init?: { signal: AbortSignal }) => Promise<Response>
declare const undo: (job: Job<Email>) => void
declare const alert: (...words: unknown[]) => void
`

/** Compiles each example in its own function; an example need not use its variables. */
function wrongWith(examples: readonly string[]): string {
  const file = join(PROJECT, 'test/client/examples.ts')
  const functions = examples.map((code, nth) => `export async function example${nth}() {\n${code}\n}\n`)
  const options = { noUnusedLocals: false, noUnusedParameters: false }
  return wrongIn(programOf([], { [file]: GIVEN + functions.join('') }, options), [file])
}

test('the examples in the comments of the client compile', () => {
  const sources = readdirSync(join(PROJECT, 'src/client')).map((file) => read(`src/client/${file}`))
  const examples = sources.flatMap((source) =>
    [...source.matchAll(/^ *\* @example\n((?: *\*(?!\/| @).*\n)+)/gm)].map(([, lines = '']) =>
      lines.replaceAll(/^ *\* ?/gm, ''),
    ),
  )
  expect(examples.length).toBeGreaterThan(20)
  expect(wrongWith(examples)).toBe('')
})

describe('docs/client.md', () => {
  const document = read('docs/client.md')

  test('the examples of docs/client.md compile', () => {
    const examples = [...document.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) =>
      code.replaceAll(/^import .*\n/gm, ''),
    )
    expect(examples.length).toBeGreaterThan(4)
    expect(wrongWith(examples)).toBe('')
  })

  test('docs/client.md has the table of every type, as the comments describe it', () => {
    const tables = [...tablesOfTypes().values(), tableOfCodes()]
    expect(tables.filter((table) => !document.includes(`\n\n${table}\n`))).toEqual([])
  })

  test('docs/client.md names every export of the client', () => {
    const index = read('src/client/index.ts').replaceAll(/\/\*.*?\*\//gs, '')
    const exported = [...index.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names = '']) =>
      names.split(',').map((name) => name.replace('type ', '').trim()),
    )
    const types = Object.keys(TABLES)
    const unnamed = exported.filter((name) => name && !types.includes(name) && !document.includes(name))
    expect(exported.length).toBeGreaterThan(25)
    expect(unnamed).toEqual([])
  })
})
