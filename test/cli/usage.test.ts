/** What the command line says and refuses before it speaks to anybody: help, usage, the token. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runCli } from './support/cli.ts'

const SECRET = 'emq_Zm9yLXRoZS1leWVzLW9mLW5vYm9keQ'
/** Nobody listens there. */
const env = { EMQ_URL: 'http://127.0.0.1:1', EMQ_TOKEN: SECRET }

const COMMANDS = [
  ...['enqueue', 'claim', 'complete', 'retry', 'fail', 'release', 'extend', 'queues', 'stats', 'jobs'],
  ...['redrive', 'remove', 'pause', 'resume', 'watch', 'dev', 'token'],
]

test('the help names every command, the environment and the exit codes', async () => {
  const { code, stdout } = await runCli(['--help'])
  expect(code).toBe(0)
  for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^ {2}${command} `, 'm'))
  for (const word of ['EMQ_URL', 'EMQ_TOKEN', 'Exit codes:', 'Examples:']) expect(stdout).toContain(word)
})

test.each(COMMANDS.filter((command) => command !== 'token'))(
  '%s --help teaches by example',
  async (command) => {
    const { code, stdout } = await runCli([command, '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`$ echomq-edge ${command} `.trimEnd())
    expect(stdout).toContain('--json')
  },
)

test.each([
  ['no command', []],
  ['an unknown command', ['frobnicate']],
  ['an unknown option', ['stats', 'emails', '--jason']],
  ['a missing queue', ['claim']],
  ['too many arguments', ['stats', 'emails', 'orders']],
  ['a duration without a unit', ['claim', 'emails', '--lease', '30']],
  ['a count that is none', ['claim', 'emails', '--limit', '1.5']],
  ['an instant without a zone', ['enqueue', 'emails', '1', '--run-at', '2026-11-29T15:00:00']],
  ['an unknown state', ['jobs', 'emails', '--state', 'done']],
  ['a job token that is none', ['complete', 'emails', 'JOB0KHTOWnGLuC', 'x']],
  ['a job id that is none', ['complete', 'emails', '../x', '1']],
  ['a queue name that is none', ['stats', '../x']],
  ['a list of nothing', ['jobs', 'emails', '--limit', '0']],
  ['a claim of nothing', ['claim', 'emails', '--limit', '0']],
  ['a look without a pause', ['watch', 'emails', '--interval', '199ms']],
  ['an extension without a length', ['extend', 'emails', 'JOB0KHTOWnGLuC', '1']],
  ['a payload that is no JSON', ['enqueue', 'emails', '{to: ada}']],
  ['a file that is not there', ['enqueue', 'emails', '@/nonexistent']],
  ['an id for many lines', ['enqueue', 'emails', '1', '--lines', '--id', 'JOB0KHTOWnGLuC']],
  ['a redrive of nothing in particular', ['redrive', 'emails']],
  ['a redrive of one and of all', ['redrive', 'emails', 'JOB0KHTOWnGLuC', '--all']],
  ['a dry run of one', ['redrive', 'emails', 'JOB0KHTOWnGLuC', '--dry-run']],
])('%s is 2', async (_what, args) => {
  const { code, stdout, stderr } = await runCli(args, { env })
  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).not.toBe('')
  expect(stderr).not.toContain('    at ')
})

test.each([
  [
    ['complete', 'emails', 'JOB0KHTOWnGLuC', 'x'],
    'The token of a job is a number: the one that the claim printed',
  ],
  [['redrive', 'emails', 'JOB0KHTOWnGLuC', '--all'], 'exclude each other'],
  [['redrive', 'emails', 'JOB0KHTOWnGLuC', '--error-contains', 'x'], 'exclude each other'],
  [['stats', '../x'], 'queue name must match'],
  [['jobs', 'emails', '--limit', '0'], 'It must be 1 or more.'],
  [['watch', 'emails', '--interval', '0ms'], 'It must be 200ms or more.'],
])('%j is told what would do', async (args, words) => {
  const { code, stderr } = await runCli(args, { env })
  expect(stderr).toContain(words)
  expect(code).toBe(2)
})

test.each(['127.0.0.1:8787', 'localhost:8787', 'ftp://queue', 'https://me:pw@queue', 'https://queue?a=1'])(
  'the URL %s is 2, in one sentence',
  async (url) => {
    const { code, stderr } = await runCli(['stats', 'emails'], { env: { ...env, EMQ_URL: url } })
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^error: The URL \(EMQ_URL or --url\) must begin with http:\/\/ or https:\/\/ .*\n$/,
      ),
    })
  },
)

test('a token that was not copied whole is 2, and not shown', async () => {
  const { code, stderr } = await runCli(['stats', 'emails'], { env: { ...env, EMQ_TOKEN: `${SECRET} x` } })
  expect(code).toBe(2)
  expect(stderr).toContain('EMQ_TOKEN')
  expect(stderr).not.toContain(SECRET)
})

test('help says defaults with their units', async () => {
  const { stdout } = await runCli(['watch', '--help'])
  expect(stdout).toMatch(/--interval <duration> .*200ms \(default: 1s\)/)
})

test('lines that are no JSON are named, and nothing is sent', async () => {
  const stdin = '{"a":1}\n\n{b}\n2\n'
  expect(await runCli(['enqueue', 'emails', '--lines'], { env, stdin })).toEqual({
    code: 2,
    stdout: '',
    stderr: 'error: Line 3 is no JSON. Nothing was enqueued. With --text each line is stored as it is.\n',
  })
  const many = await runCli(['enqueue', 'emails', '--lines'], { env, stdin: 'x\n'.repeat(12) })
  expect(many.stderr).toMatch(/^error: Lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\. are no JSON\. Nothing/)
})

test.each([
  [{ EMQ_TOKEN: SECRET }, 'EMQ_URL'],
  [{ EMQ_URL: 'http://127.0.0.1:1' }, 'EMQ_TOKEN'],
  [{ EMQ_URL: '', EMQ_TOKEN: SECRET }, 'EMQ_URL'],
])('what is missing in the environment is named: %j', async (surroundings, name) => {
  const { code, stderr } = await runCli(['stats', 'emails'], { env: surroundings })
  expect(code).toBe(2)
  expect(stderr).toContain(name)
  expect(stderr).not.toContain(SECRET)
})

test('a token on the command line is refused, and not repeated', async () => {
  for (const args of [['--token', SECRET], [`--token=${SECRET}`], [`--api-token=${SECRET}`]]) {
    const { code, stdout, stderr } = await runCli(['stats', 'emails', ...args], { env })
    expect(code).toBe(2)
    expect(stderr).toContain('set EMQ_TOKEN')
    expect(stdout + stderr).not.toContain(SECRET)
  }
})

/** The address of a server that has gone. */
async function abandonedUrl(): Promise<string> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

test('a deployment that cannot be reached is 1, and the token is not shown', async () => {
  const url = await abandonedUrl()
  const { code, stdout, stderr } = await runCli(['pause', 'emails', '--json', '--url', url], { env })
  expect(code).toBe(1)
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: 'network', retryable: true, cause: expect.stringContaining('ECONNREFUSED') },
  })
  expect(stdout + stderr).not.toContain(SECRET)
})

test('why there was no answer is said: nobody listens, or there is no such host', async () => {
  const url = await abandonedUrl()
  const refused = await runCli(['stats', 'emails', '--url', url], { env })
  expect(refused.stderr.split('\n')).toEqual([
    `error: ${url}/v1/queues/emails: no answer`,
    expect.stringContaining('ECONNREFUSED'),
    '',
  ])
  const unknown = await runCli(['stats', 'emails', '--url', 'http://nobody.invalid'], { env })
  expect(unknown.stderr).toMatch(/no answer\n {2}.*(ENOTFOUND|EAI_AGAIN).*\n$/)
  expect(unknown.code).toBe(1)
})

test('--url wins over EMQ_URL', async () => {
  const server = createServer((socket) => socket.destroy())
  onTestFinished(() => void server.close())
  let connections = 0
  server.on('connection', () => connections++)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  expect((await runCli(['stats', 'emails', '--url', `http://127.0.0.1:${port}`], { env })).code).toBe(1)
  expect(connections).toBeGreaterThan(0)
})

test('a payload that is not UTF-8 is refused, never replaced', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'emq-cli-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'payload'), Uint8Array.of(0x22, 0xff, 0x22))
  const { code, stderr } = await runCli(['enqueue', 'emails', '@payload'], { env, cwd: folder })
  expect({ code, stderr }).toEqual({ code: 2, stderr: 'error: The payload is not UTF-8.\n' })
})

test('a token can be made without a clone', async () => {
  const { code, stdout } = await runCli([
    'token',
    '--name',
    'web',
    '--scopes',
    'produce',
    '--queues',
    'emails',
    '--json',
  ])
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ token: expect.stringMatching(/^emq_/), entry: { name: 'web' } })
})
