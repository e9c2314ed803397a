/** `echomq-edge token`: the tokens that it makes, and the shell command that it prints. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { readTokens } from '../../src/protocol/tokens.ts'
import { commandLine } from './support/in-process.ts'

const run = commandLine()
const args = ['token', '--name', "it's web", '--scopes', 'produce,consume', '--queues', 'emails,orders.*']

test('token makes a token and an entry that the Worker accepts', async () => {
  const { code, stdout } = await run([...args, '--json'])

  expect(code).toBe(0)
  const { token, entry } = JSON.parse(stdout)
  expect(token).toMatch(/^emq_[\w-]{43}$/)
  expect(entry).toEqual({
    name: "it's web",
    sha256: createHash('sha256').update(token).digest('hex'),
    scopes: ['produce', 'consume'],
    queues: ['emails', 'orders.*'],
  })
  expect(readTokens(JSON.stringify([entry]))).toEqual({ value: [entry] })
})

test('token prints the token once, and a shell command that stores its entry', async () => {
  const { stdout } = await run(args)

  const token = /emq_[\w-]{43}/.exec(stdout)?.[0] ?? ''
  expect(stdout.split(token)).toHaveLength(2)
  const command = /echo .*(?= \| npx wrangler secret put EMQ_TOKENS)/.exec(stdout)?.[0] ?? ''
  const echoed = spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' })
  expect(JSON.parse(echoed.stdout)).toEqual([
    {
      name: "it's web",
      sha256: createHash('sha256').update(token).digest('hex'),
      scopes: ['produce', 'consume'],
      queues: ['emails', 'orders.*'],
    },
  ])
})

test.each([
  [['--scopes', 'prod'], 'the token needs "scopes", a list of at least one of produce, consume, observe,'],
  [['--scopes', ''], 'the token needs "scopes", a list of at least one of produce, consume, observe,'],
  [['--queues', '*x'], 'the token needs "queues", a list of at least one queue name or prefix ending in *'],
  [['--queues', 'a, b'], 'the token needs "queues", a list of at least one queue name or prefix ending in *'],
  [['--name', ''], 'the token needs a "name" of 1 to 128 printable characters'],
])('token rejects %j', async (override, message) => {
  const { code, stdout, stderr } = await run([...args, ...override])

  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(`error: ${message}`)
})

test('token names a required option that is missing', async () => {
  const { code, stdout, stderr } = await run(['token', '--name', 'web'])

  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain("error: required option '--scopes <list>' not specified\n")
})
