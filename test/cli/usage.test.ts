/** The command line before it sends anything: help, rejected arguments, the API token. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runCli } from './support/cli.ts'

const SECRET = 'emq_Zm9yLXRoZS1leWVzLW9mLW5vYm9keQ'
/** Nothing listens there. */
const env = { EMQ_URL: 'http://127.0.0.1:1', EMQ_TOKEN: SECRET }

const COMMANDS = [
  ...['enqueue', 'claim', 'complete', 'retry', 'fail', 'release', 'extend', 'queues', 'stats', 'jobs'],
  ...['redrive', 'remove', 'purge', 'pause', 'resume', 'watch', 'audit', 'dev', 'token'],
]

test('--help lists every command, the environment variables and the exit codes', async () => {
  const { code, stdout } = await runCli(['--help'])
  expect(code).toBe(0)
  for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^ {2}${command} `, 'm'))
  for (const word of ['EMQ_URL', 'EMQ_TOKEN', 'Exit codes:', 'Examples:']) expect(stdout).toContain(word)
})

test.each(COMMANDS)('%s --help shows an example and the option --json', async (command) => {
  const { code, stdout } = await runCli([command, '--help'])
  expect(code).toBe(0)
  expect(stdout).toMatch(new RegExp(`^ {2}\\$ echomq-edge ${command}( |$)`, 'm'))
  expect(stdout).toMatch(/^ {2}--json /m)
})

test.each([
  ['no command', []],
  ['an unknown command', ['frobnicate']],
  ['an unknown option', ['stats', 'emails', '--jason']],
  ['a missing queue', ['claim']],
  ['too many arguments', ['stats', 'emails', 'orders']],
  ['a duration without a unit', ['claim', 'emails', '--lease', '30']],
  ['a malformed count', ['claim', 'emails', '--limit', '1.5']],
  ['an instant without a zone', ['enqueue', 'emails', '1', '--run-at', '2026-11-29T15:00:00']],
  ['an unknown state', ['jobs', 'emails', '--state', 'done']],
  ['a malformed fencing token', ['complete', 'emails', 'JOB0KHTOWnGLuC', 'x']],
  ['a malformed job id', ['complete', 'emails', '../x', '1']],
  ['a malformed queue name', ['stats', '../x']],
  ['a list with the limit 0', ['jobs', 'emails', '--limit', '0']],
  ['a claim with the limit 0', ['claim', 'emails', '--limit', '0']],
  ['an interval below 200ms', ['watch', 'emails', '--interval', '199ms']],
  ['an extend without --lease', ['extend', 'emails', 'JOB0KHTOWnGLuC', '1']],
  ['a payload that is not JSON', ['enqueue', 'emails', '{to: ada}']],
  ['a missing file', ['enqueue', 'emails', '--file', '/nonexistent']],
  ['--id together with --lines', ['enqueue', 'emails', '1', '--lines', '--id', 'JOB0KHTOWnGLuC']],
  ['a redrive that selects no job', ['redrive', 'emails']],
  ['a redrive of one job and of all', ['redrive', 'emails', 'JOB0KHTOWnGLuC', '--all']],
  ['a dry run of one job', ['redrive', 'emails', 'JOB0KHTOWnGLuC', '--dry-run']],
  ['a purge without --state', ['purge', 'emails', '--yes']],
  ['a purge of active jobs', ['purge', 'emails', '--state', 'active', '--yes']],
])('the command line exits with 2 for %s', async (_what, args) => {
  const { code, stdout, stderr } = await runCli(args, { env })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  if (args.length > 0) expect(stderr).toMatch(/^error: [^\n]+\n/)
  expect(stderr).not.toContain('    at ')
})

test.each([
  [
    ['complete', 'emails', 'JOB0KHTOWnGLuC', 'x'],
    'error: The fencing token is a number: claim prints it beside the id of the job.\n',
  ],
  [['redrive', 'emails', 'JOB0KHTOWnGLuC', '--all'], 'The id of one job excludes --all and filters'],
  [
    ['redrive', 'emails', 'JOB0KHTOWnGLuC', '--error-contains', 'x'],
    'The id of one job excludes --all and filters',
  ],
  [['stats', '../x'], 'queue name must match'],
  [['jobs', 'emails', '--limit', '0'], 'It must be 1 or more.'],
  [['watch', 'emails', '--interval', '0ms'], 'It must be 200ms or more.'],
])('the error of %j says what would be right', async (args, words) => {
  const { code, stderr } = await runCli(args, { env })
  expect(stderr).toContain(words)
  expect(code).toBe(2)
})

test.each(['127.0.0.1:8787', 'localhost:8787', 'ftp://queue', 'https://me:pw@queue', 'https://queue?a=1'])(
  'the command line rejects the URL %s in one sentence and exits with 2',
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

test('the command line rejects a malformed token, exits with 2 and does not print the token', async () => {
  const { code, stderr } = await runCli(['stats', 'emails'], { env: { ...env, EMQ_TOKEN: `${SECRET} x` } })
  expect(code).toBe(2)
  expect(stderr).toContain('EMQ_TOKEN')
  expect(stderr).not.toContain(SECRET)
})

test('--help prints defaults with their units', async () => {
  const { stdout } = await runCli(['watch', '--help'])
  expect(stdout).toMatch(/--interval <duration> .*200ms \(default: 1s\)/)
})

test('enqueue --lines names the lines that are not JSON, and sends nothing', async () => {
  const stdin = '{"a":1}\n\n{b}\n2\n'
  expect(await runCli(['enqueue', 'emails', '--lines'], { env, stdin })).toEqual({
    code: 2,
    stdout: '',
    stderr: 'error: Line 3 is not JSON. Nothing was enqueued. To store each line as text, give --text.\n',
  })
  const many = await runCli(['enqueue', 'emails', '--lines'], { env, stdin: 'x\n'.repeat(12) })
  expect(many.stderr).toMatch(/^error: Lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\. are not JSON\. Nothing/)
})

test.each([
  [{ EMQ_TOKEN: SECRET }, 'EMQ_URL'],
  [{ EMQ_URL: 'http://127.0.0.1:1' }, 'EMQ_TOKEN'],
  [{ EMQ_URL: '', EMQ_TOKEN: SECRET }, 'EMQ_URL'],
])(
  'with the environment %j the command line exits with 2 and names the missing variable',
  async (surroundings, name) => {
    const { code, stderr } = await runCli(['stats', 'emails'], { env: surroundings })
    expect(code).toBe(2)
    expect(stderr).toMatch(new RegExp(`^error: The .* is missing: set ${name}\\b.*\\n$`))
    expect(stderr).not.toContain(SECRET)
  },
)

test('the command line rejects a token among its arguments and does not print it', async () => {
  for (const args of [['--token', SECRET], [`--token=${SECRET}`], [`--api-token=${SECRET}`]]) {
    const { code, stdout, stderr } = await runCli(['stats', 'emails', ...args], { env })
    expect(code).toBe(2)
    expect(stderr).toContain('set EMQ_TOKEN')
    expect(stdout + stderr).not.toContain(SECRET)
  }
})

/** The URL of a server that was closed. */
async function abandonedUrl(): Promise<string> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

test('the command line exits with 1 when nothing listens, and does not print the token', async () => {
  const url = await abandonedUrl()
  const { code, stdout, stderr } = await runCli(['pause', 'emails', '--json', '--url', url], { env })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: 'network', retryable: true, cause: expect.stringContaining('ECONNREFUSED') },
  })
  expect(stderr).not.toContain(SECRET)
})

test('the error names the cause: nothing listens, or the host does not exist', async () => {
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

test('--url takes precedence over EMQ_URL', async () => {
  const server = createServer((socket) => socket.destroy())
  onTestFinished(() => void server.close())
  let connections = 0
  server.on('connection', () => connections++)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  expect((await runCli(['stats', 'emails', '--url', `http://127.0.0.1:${port}`], { env })).code).toBe(1)
  // The first attempt and three repeats.
  expect(connections).toBe(4)
})

test('enqueue rejects a payload that is not UTF-8', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'emq-cli-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'payload'), Uint8Array.of(0x22, 0xff, 0x22))
  const { code, stderr } = await runCli(['enqueue', 'emails', '--file', 'payload'], { env, cwd: folder })
  expect({ code, stderr }).toEqual({ code: 2, stderr: 'error: The payload is not UTF-8.\n' })
})
