/** The arguments that the commands accept and reject, and the output of the small commands. */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { readTokens } from '../../src/env.ts'
import { runProgram } from '../../src/tools/program.ts'

let stdout = ''
let stderr = ''
beforeEach(() => {
  stdout = ''
  stderr = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += text
    return true
  })
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += text
    return true
  })
})
afterEach(() => void vi.restoreAllMocks())

test.each([
  [['dev', '--bogus'], "unknown option '--bogus'"],
  [['dev', '--port', 'x'], 'It must be a number from 0 to 65535'],
  [['dev', '--port', '65536'], 'It must be a number from 0 to 65535'],
  [['dev', '--rest-port', '80.5'], 'It must be a number from 0 to 65535'],
  [['dev', '--redis-url', 'http://x'], 'It must be a URL that begins with redis:// or rediss://'],
  [['dev', '--rest-url', 'redis://x'], 'It must be a URL that begins with https:// or http://'],
  [['dev', '--rest-url', 'https://x.upstash.io'], 'A REST URL needs its token.'],
  [['dev', '--redis-url', 'redis://x', '--data', '/tmp'], 'A data folder is for the embedded Redis only.'],
  [['dev', '--data', ''], 'It must be the path of a directory.'],
  [['dev', '--data', '/etc/hostname'], 'Not a directory.'],
  [['dev', 'extra'], 'too many arguments'],
  [['demo', '--bogus'], "unknown option '--bogus'"],
  [['conformance', '--url', 'https://x.upstash.io'], '--url and --token go together'],
  [
    ['conformance', '--url', 'https://x.upstash.io', '--token', 'x', '--redis-url', 'redis://x'],
    'exclude each other',
  ],
  [['token', '--name', 'web'], "required option '--scopes <list>' not specified"],
  [['deploy', '--dry-run', 'extra'], '--dry-run takes no further arguments'],
  [['nonsense'], "unknown command 'nonsense'"],
])('%j exits with 2 and says why', async (args, message) => {
  expect(await runProgram(args)).toBe(2)

  expect(stdout).toBe('')
  expect(stderr).toContain(message)
})

test.each(['dev', 'demo', 'conformance', 'token', 'deploy'])('%s --help prints its usage', async (name) => {
  expect(await runProgram([name, '--help'])).toBe(0)

  expect(stdout).toContain(`Usage: echomq-edge ${name}`)
})

test.each([
  ['dev', ['EMQ_DEV_REDIS_URL', 'EMQ_DEV_REST_TOKEN']],
  ['conformance', ['EMQ_CONFORMANCE_REDIS_URL', 'EMQ_CONFORMANCE_TOKEN']],
])('196: %s --help names the variables for its secrets and says why', async (name, variables) => {
  await runProgram([name, '--help'])

  for (const variable of variables) expect(stdout.replace(/\s+/g, ' ')).toContain(`(env: ${variable})`)
  expect(stdout.replace(/\s+/g, ' ')).toContain('Every user of this machine can read the arguments')
})

test.each([
  ['dev', 'EMQ_DEV_REDIS_URL'],
  ['conformance', 'EMQ_CONFORMANCE_REDIS_URL'],
])('196: %s reads %s', async (name, variable) => {
  vi.stubEnv(variable, 'http://not-redis')
  onTestFinished(() => void vi.unstubAllEnvs())

  expect(await runProgram([name])).toBe(2)
  expect(stderr).toContain('It must be a URL that begins with redis:// or rediss://')
})

test.each([
  ['token', '$ echomq-edge token --'],
  ['audit', '$ npm run audit -- --'],
])('%s --help has examples', async (name, example) => {
  await runProgram([name, '--help'])

  expect(stdout).toContain(`Examples:\n  ${example}`)
})

test('audit --help lists its exit codes', async () => {
  await runProgram(['audit', '--help'])

  expect(stdout.match(/^ {2}\d .*$/gm)?.map((line) => Number(line.trim()[0]))).toEqual([0, 1, 2, 3])
})

test('a command that fails exits with 1 and prints one sentence', async () => {
  expect(await runProgram(['conformance', '--redis-url', 'redis://127.0.0.1:1'])).toBe(1)

  expect(stderr).toBe('error: Redis cannot be reached.\n')
})

describe('token', () => {
  const args = ['token', '--name', "it's web", '--scopes', 'produce,consume', '--queues', 'emails,orders.*']

  test('token makes a token and an entry that the Worker accepts', async () => {
    expect(await runProgram([...args, '--json'])).toBe(0)

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
    await runProgram(args)

    const token = /emq_[\w-]{43}/.exec(stdout)?.[0] ?? ''
    expect(stdout.split(token)).toHaveLength(2)
    const command = /echo .*(?= \| npx wrangler secret put EMQ_TOKENS)/.exec(stdout)?.[0] ?? ''
    const echoed = spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' })
    expect(JSON.parse(echoed.stdout)).toMatchObject([{ name: "it's web" }])
  })

  test.each([
    [['--scopes', 'prod'], 'the token needs "scopes"'],
    [['--scopes', ''], 'the token needs "scopes"'],
    [['--queues', '*x'], 'the token needs "queues"'],
    [['--queues', 'a, b'], 'the token needs "queues"'],
    [['--name', ''], 'the token needs a "name"'],
  ])('token rejects %j', async (override, message) => {
    expect(await runProgram([...args, ...override])).toBe(2)

    expect(stdout).toBe('')
    expect(stderr).toContain(message)
  })
})
