/** What the command line rejects before it sends anything, and how it prints what others have stored. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { EchoMQ } from '../../src/client/index.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { freshQueue } from '../support/api.ts'
import { runCli, startCli } from './support/cli.ts'

let stack: TestStack
let env: Record<string, string>
beforeAll(async () => {
  stack = await startStack({ port: 0, restPort: 0, testMode: true, quiet: true, cron: false })
  env = { EMQ_URL: stack.url, EMQ_TOKEN: stack.tokens.operator }
})
afterAll(() => stack?.stop())

const emq = (...args: string[]) => runCli(args, { env })
const queueOf = (name: string) => new EchoMQ({ url: stack.url, token: stack.tokens.operator }).queue(name)

const HOSTILE = 'a\u001b]52;c;eA==\u0007\u009b31m\u202eb\u2028c\u007f'
// biome-ignore lint/suspicious/noControlCharactersInRegex: the output must have none of them
const UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029]/

test.each([
  ['enqueue', '--run-at', '2027-02-30T09:00:00Z'],
  ['enqueue', '--start-by', '2027-04-31T00:00:00+02:00'],
  ['enqueue', '--run-at', '2027-01-01T24:00:00Z'],
  ['enqueue', '--run-at', '2027-13-01T00:00:00Z'],
  ['enqueue', '--run-at', '2027-01-01T09:00:00+24:00'],
  ['jobs', '--from', '2026-02-29T00:00:00Z'],
  ['redrive', '--to', '2026-02-29T00:00:00Z'],
])('109: %s rejects the instant %s %s', async (command, option, instant) => {
  const payload = command === 'enqueue' ? ['1'] : []
  const { code, stdout, stderr } = await emq(command, 'emails', ...payload, option, instant)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('It must be an instant with a zone')
})

test('109: a leap day and fractions of a second are accepted', async () => {
  const queue = freshQueue()
  await queueOf(queue).enqueue(1)
  expect(await emq('jobs', queue, '--to', '2024-02-29T23:59:59.5+02:00')).toEqual({
    code: 0,
    stdout: '',
    stderr: '',
  })
})

test('128: a payload that begins with @ is stored as it is', async () => {
  const queue = freshQueue()
  await emq('enqueue', queue, '@/etc/hostname', '--text')
  expect((await emq('claim', queue, '--json')).stdout).toContain('"text":"@/etc/hostname"')
  const { code, stderr } = await emq('enqueue', queue, '1', '--file', '/etc/hostname')
  expect([code, stderr]).toEqual([
    2,
    'error: There are two payloads: give an argument or --file, not both.\n',
  ])
})

test('129: 600 MB on stdin are rejected without reading them all', async () => {
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const child = spawn(process.execPath, [main, 'enqueue', 'emails', '--text'], {
    env: { ...process.env, ...env },
  })
  onTestFinished(() => void child.kill())
  let written = 0
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const exited = once(child, 'exit')
  child.stdin.on('error', () => {})
  const chunk = Buffer.alloc(1_000_000, 'x')
  const feed = (): void => {
    while (written < 600_000_000 && child.stdin.writable) {
      written += chunk.length
      if (!child.stdin.write(chunk)) {
        child.stdin.once('drain', feed)
        return
      }
    }
  }
  feed()

  expect(await exited).toEqual([2, null])
  expect(stderr).toBe('error: The payload is larger than 10 MiB.\n')
  expect(written).toBeLessThan(100_000_000)
})

test('162: redrive --all with a filter is a contradiction', async () => {
  const { code, stderr } = await emq('redrive', freshQueue(), '--all', '--error-contains', 'x')
  expect([code, stderr]).toEqual([2, 'error: --all contradicts a filter: give one or the other.\n'])
})

test('178: claim says that the queue is paused', async () => {
  const queue = freshQueue()
  await emq('enqueue', queue, '1')
  await emq('pause', queue)
  const { code, stderr } = await emq('claim', queue)
  expect([code, stderr]).toEqual([3, 'The queue is paused: claims return no job.\n'])
})

test('161: settings shows, changes and resets settings', async () => {
  const queue = freshQueue()
  const args = [
    '--max-attempts',
    '7',
    '--lease',
    '2m',
    '--backoff-base',
    '2s',
    '--backoff-max',
    '1m',
    '--json',
  ]
  const changed = JSON.parse((await emq('settings', queue, ...args)).stdout)
  expect(changed).toMatchObject({
    maxAttempts: 7,
    leaseMs: 120_000,
    backoff: { baseMs: 2000, maxMs: 60_000 },
  })
  expect((await emq('settings', queue, '--lease', 'default')).stdout).toMatch(/^leaseMs +30000$/m)
  expect(JSON.parse((await emq('settings', queue, '--json')).stdout)).toEqual({ ...changed, leaseMs: 30_000 })

  const { code, stderr } = await emq('settings', queue, '--backoff-base', '2s')
  expect([code, stderr]).toEqual([2, 'error: --backoff-base and --backoff-max go together.\n'])
})

test('161: schedule moves a scheduled job and runs it now', async () => {
  const queue = freshQueue()
  const { id } = JSON.parse((await emq('enqueue', queue, '1', '--delay', '1h', '--json')).stdout)
  const runAt = new Date(Date.now() + 86_400_000).toISOString()
  expect((await emq('schedule', queue, id, '--run-at', runAt)).stdout).toBe(`${id} scheduled\n`)
  expect(JSON.parse((await emq('jobs', queue, id, '--json')).stdout).runAt).toBe(runAt)

  expect((await emq('schedule', queue, id, '--now')).code).toBe(0)
  expect((await emq('claim', queue, '--wait', '5s')).stdout).toContain(id)
  expect((await emq('schedule', queue, id, '--now')).code).toBe(4)
  expect((await emq('schedule', queue, id)).code).toBe(2)
})

test('110: remove succeeds when its first answer is lost', async () => {
  const queue = freshQueue()
  const { id } = await queueOf(queue).enqueue(1)
  stack.bridge.dropReply({ match: id })
  expect(await emq('remove', queue, id)).toEqual({ code: 0, stdout: `${id} removed\n`, stderr: '' })
  expect((await emq('remove', queue, id)).code).toBe(3)
})

test('189: stored text is printed with its control characters escaped', async () => {
  const queue = freshQueue()
  await queueOf(queue).enqueue(HOSTILE)
  const [job] = await queueOf(queue).claim()
  if (job === undefined) throw new Error('The claim returned no job.')
  await queueOf(queue).fail(job, { error: HOSTILE })

  for (const args of [
    ['jobs', queue, '--state', 'dead', '--payload'],
    ['jobs', queue, job.id],
  ]) {
    const text = await emq(...args)
    expect(text.stdout).not.toMatch(UNSAFE)
    expect(text.stdout).toContain('a\\u001b]52;c;eA==\\u0007\\u009b31m\\u202eb\\u2028c\\u007f')
    const json = await emq(...args, '--json')
    expect(json.stdout).not.toMatch(UNSAFE)
    expect(JSON.parse(json.stdout)).toMatchObject({ payload: HOSTILE, lastError: HOSTILE })
  }
})

test.each([[[]], [['--json']]])(
  '189: errors of a server are printed escaped, options %j',
  async (options) => {
    const server = createServer((_, response) => {
      response.writeHead(400, { 'content-type': 'application/problem+json' })
      const errors = [
        { path: HOSTILE, message: HOSTILE },
        { path: HOSTILE, message: HOSTILE },
      ]
      response.end(JSON.stringify({ code: 'invalid', detail: HOSTILE, requestId: HOSTILE, errors }))
    })
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const commands = [
      ['stats', 'emails'],
      ['queues'],
      ['claim', 'emails'],
      ['enqueue', 'emails', '1'],
      ['complete', 'emails', 'JOB0KHTOWnGLuC', '1'],
      ['remove', 'emails', 'JOB0KHTOWnGLuC'],
      ['settings', 'emails'],
      ['audit'],
    ]
    for (const command of commands) {
      const { stdout, stderr } = await startCli([...command, ...options], { env: { ...env, EMQ_URL: url } })
        .ended
      expect(stdout + stderr).not.toMatch(UNSAFE)
      expect(stdout + stderr).toContain('\\u001b]52')
    }
  },
)
