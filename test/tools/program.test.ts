/** The arguments that the commands accept and reject, and the output of the small commands. */

import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
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
  [['deploy', '--dry-run', 'extra'], '--dry-run takes no further arguments'],
  [['nonsense'], "unknown command 'nonsense'"],
])('%j exits with 2 and says why', async (args, message) => {
  expect(await runProgram(args)).toBe(2)

  expect(stdout).toBe('')
  expect(stderr).toContain(message)
})

test.each(['dev', 'demo', 'conformance', 'deploy'])('%s --help prints its usage', async (name) => {
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

test('a command that fails exits with 1 and prints one sentence', async () => {
  expect(await runProgram(['conformance', '--redis-url', 'redis://127.0.0.1:1'])).toBe(1)

  expect(stderr).toBe('error: Redis cannot be reached.\n')
})
