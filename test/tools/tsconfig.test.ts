/** The TypeScript configuration of the edge: no Node types, and every file that runs there. */
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { filesBelow, PROJECT } from '../support/typescript.ts'

const { config } = ts.readConfigFile(join(PROJECT, 'tsconfig.edge.json'), (file) =>
  readFileSync(file, 'utf8'),
)
const parsed = ts.parseJsonConfigFileContent(config, ts.sys, PROJECT)

test('the edge is compiled without Node types', () => {
  expect(parsed.options.types).toEqual([])
})

test('the configuration of the edge covers every file of src except stack, tools and cli', () => {
  const edge = filesBelow('src').filter((file) => !/^src\/(stack|tools|cli)\//.test(relative(PROJECT, file)))
  expect(parsed.fileNames.toSorted()).toEqual(edge.toSorted())
})
