/** The commands that work a queue, as child processes against the whole local stack. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { EchoMQ } from '../../src/client/index.ts'
import { startStack, type TestStack } from '../../src/stack/stack.ts'
import { freshQueue } from '../support/api.ts'
import { type Ended, runCli, startCli, startCliOnTerminal } from './support/cli.ts'

let stack: TestStack
let env: Record<string, string>
beforeAll(async () => {
  stack = await startStack({ port: 0, restPort: 0, testMode: true, quiet: true, cron: false })
  env = { EMQ_URL: stack.url, EMQ_TOKEN: stack.tokens.operator }
})
afterAll(() => stack?.stop())

function emq(...args: string[]): Promise<Ended> {
  return runCli(args, { env })
}
async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await emq(...args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}
function linesOf(stdout: string): string[] {
  return stdout.split('\n').filter(Boolean)
}
// biome-ignore lint/suspicious/noExplicitAny: the tests check the output field by field
function jsonOf(stdout: string): any[] {
  return linesOf(stdout).map((line) => JSON.parse(line))
}

function queueOf(name: string) {
  return new EchoMQ({ url: stack.url, token: stack.tokens.operator }).queue(name)
}

/** A queue with this many dead letters. */
async function deadJobs(count: number, error = 'e'): Promise<string> {
  const name = freshQueue()
  const queue = queueOf(name)
  await queue.enqueueMany(Array.from({ length: count }, (_, nth) => ({ payload: nth })))
  for (let left = count; left > 0; left -= 100)
    await Promise.all((await queue.claim({ limit: 100 })).map((job) => queue.fail(job, { error })))
  return name
}

async function fileWith(text: string | Uint8Array): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'emq-cli-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'payload'), text)
  return join(folder, 'payload')
}

describe('a job', () => {
  test('enqueue, claim, retry, complete and stats print lines for people', async () => {
    const queue = freshQueue()
    const [id = '', status] = (await ok('enqueue', queue, '{"to":"ada@example.com"}')).trim().split(' ')
    expect(status).toBe('enqueued')
    expect(await ok('claim', queue, '--lease', '1m')).toBe(`${id}  token 1  1m  {"to":"ada@example.com"}\n`)
    expect(await ok('retry', queue, id, '1', '--error', 'busy', '--delay', '0ms')).toBe(`${id} scheduled\n`)
    expect(await ok('claim', queue, '--wait', '10s')).toMatch(new RegExp(`^${id} {2}token 2 `))
    expect(await ok('complete', queue, id, '2')).toBe(`${id} completed\n`)
    expect(await ok('stats', queue)).toMatch(/^pending +0\n(.*\n)*completed +1\n/)
  })

  test('enqueue, claim, retry, complete and stats print JSON with --json', async () => {
    const queue = freshQueue()
    const [{ id, status }] = jsonOf(
      await ok('enqueue', queue, '5', '--json', '--delay', '10ms', '--key', 'k'),
    )
    expect(status).toBe('scheduled')
    expect(jsonOf(await ok('enqueue', queue, '5', '--json', '--key', 'k'))).toEqual([
      { id, status: 'duplicate' },
    ])
    const [job] = jsonOf(await ok('claim', queue, '--wait', '10s', '--limit', '5', '--json'))
    expect(job).toMatchObject({ id, queue, token: 1, payload: 5 })
    expect(jsonOf(await ok('retry', queue, id, '1', '--json'))).toEqual([{ id, status: 'scheduled' }])
    const [stats] = jsonOf(await ok('stats', queue, '--json'))
    expect(stats).toMatchObject({ queue, counts: { scheduled: 1 }, paused: false })
    await ok('claim', queue, '--wait', '10s')
    expect(jsonOf(await ok('complete', queue, id, '2', '--json'))).toEqual([{ id, status: 'completed' }])
  })

  test('a payload keeps every digit, from the file to the output', async () => {
    const queue = freshQueue()
    const payload = '{"n":9007199254740993,"x":1.0,\n  "e":1e400}'
    await ok('enqueue', queue, '--file', await fileWith(`${payload}\n`))
    const { id } = await queueOf(queue)
      .jobs()
      [Symbol.asyncIterator]()
      .next()
      .then(({ value }) => value ?? { id: '' })
    const exact = payload.replace('\n', ' ')
    expect(await ok('jobs', queue, '--payload', '--json')).toContain(`"payload":${exact}}`)
    expect(await ok('jobs', queue, id, '--json')).toContain(`"payload":${exact}}`)
    expect(await ok('claim', queue, '--json')).toContain(`"payload":${exact}}`)
  })

  test('enqueue sends the payload as it was typed, so the API rejects a duplicate key', async () => {
    const queue = freshQueue()
    const twice = await emq('enqueue', queue, '{"a":1,"a":2}')
    expect(twice).toMatchObject({ code: 2, stdout: '' })
    expect(twice.stderr).toContain('A key is given twice.')
    expect((await emq('enqueue', queue, '"\\ud800"')).code).toBe(2)
    // As text it is text.
    await ok('enqueue', queue, '--text', '{"a":1,"a":2}')
    await ok('enqueue', queue, '9007199254740993')
    const claimed = await ok('claim', queue, '--limit', '2', '--json')
    expect(claimed).toContain('"payload":{"a":1,"a":2}}\n')
    expect(claimed).toContain('"payload":9007199254740993}\n')
  })

  test('fail, release and extend print the new state of the job', async () => {
    const queue = freshQueue()
    const { id } = await queueOf(queue).enqueue(1)
    await ok('claim', queue)
    expect(await ok('extend', queue, id, '1', '--lease', '10m')).toBe(`${id} extended  10m\n`)
    expect(await ok('release', queue, id, '1')).toBe(`${id} pending\n`)
    expect(await emq('release', queue, id, '1')).toMatchObject({ code: 4, stdout: '' })
    await ok('claim', queue)
    expect(jsonOf(await ok('release', queue, id, '2', '--delay', '10ms', '--json'))).toEqual([
      { id, status: 'scheduled' },
    ])
    await ok('claim', queue, '--wait', '10s')
    expect(await ok('fail', queue, id, '3', '--error', 'no such address')).toBe(`${id} dead\n`)
    expect(await ok('jobs', queue, '--state', 'dead')).toMatch(/ {2}attempts 3 {2}\S+Z {2}no such address\n$/)
  })

  test('enqueue reads the payload from stdin, as JSON or with --text as text', async () => {
    const queue = freshQueue()
    expect((await runCli(['enqueue', queue], { env, stdin: '{"a":1}\n' })).code).toBe(0)
    expect((await runCli(['enqueue', queue, '-', '--text'], { env, stdin: 'a\u001b[31m\nb' })).code).toBe(0)
    const claimed = await ok('claim', queue, '--limit', '2')
    expect(linesOf(claimed).map((line) => line.split('  ').at(-1))).toEqual([
      '{"a":1}',
      'a\\u001b[31m\\u000ab',
    ])
  })

  test('enqueue --lines enqueues one job per line and skips empty lines', async () => {
    const queue = freshQueue()
    const input = await fileWith('1\n\n2\r\n{"three":3.0}\n')
    expect(await ok('enqueue', queue, '--file', input, '--lines')).toBe('3 enqueued\n')
    expect(jsonOf(await ok('enqueue', queue, '--file', input, '--lines', '--json'))).toEqual(
      Array(3).fill({ id: expect.stringMatching(/^JOB\w{11}$/), status: 'enqueued' }),
    )
    expect(await ok('claim', queue, '--limit', '10', '--json')).toContain('"payload":{"three":3.0}}')
  })

  test('enqueue --lines names the lines that the API rejects, and enqueues the others', async () => {
    const queue = freshQueue()
    const stdin = '1\n\n{"a":1,"a":2}\n2\n'
    const { code, stdout, stderr } = await runCli(['enqueue', queue, '--lines'], { env, stdin })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '2 enqueued, 1 refused\n' })
    expect(stderr).toMatch(/^line 3: enqueue: invalid: .*twice\.\n$/)
    const asJson = await runCli(['enqueue', queue, '--lines', '--json'], { env, stdin })
    expect(jsonOf(asJson.stdout)[1]).toMatchObject({ line: 3, error: { code: 'invalid' } })
    expect((await queueOf(queue).stats()).counts.pending).toBe(4)
  })
})

describe('observing and operating', () => {
  test('jobs lists the jobs of a state, and shows one job with its fields', async () => {
    const queue = await deadJobs(3, 'mailbox\u001b]0;x full')
    const dead = linesOf(await ok('jobs', queue, '--state', 'dead', '--limit', '2'))
    expect(dead).toHaveLength(2)
    expect(dead[0]).toMatch(/^JOB\w{11} {2}dead {2}attempts 1 {2}\S+Z {2}mailbox\\u001b\]0;x full$/)
    const [first] = jsonOf(await ok('jobs', queue, '--state', 'dead', '--oldest', '--limit', '1', '--json'))
    const one = await ok('jobs', queue, first.id)
    expect(one).toMatch(/^state +dead$/m)
    expect(one).toMatch(/^payload +0$/m)
    expect(await ok('jobs', queue)).toBe('')
  })

  test('redrive moves one job, the jobs of a filter, or all jobs', async () => {
    const queue = await deadJobs(12)
    const [{ id }] = jsonOf(await ok('jobs', queue, '--state', 'dead', '--limit', '1', '--json'))
    expect(await ok('redrive', queue, id)).toBe(`${id} pending\n`)
    expect(await ok('redrive', queue, '--error-contains', 'other')).toBe('0 redriven\n')
    expect(await ok('redrive', queue, '--error-contains', 'e', '--dry-run')).toBe('11 would be redriven\n')
    expect(jsonOf(await ok('redrive', queue, '--all', '--json'))).toEqual([{ redriven: 11, dryRun: false }])
    expect((await queueOf(queue).stats()).counts).toMatchObject({ pending: 12, dead: 0 })
  })

  test('redrive shows a progress bar on a terminal', async () => {
    const queue = await deadJobs(600)
    const shown = await startCliOnTerminal(['redrive', queue, '--all'], { env }).ended
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain('redriving [-')
    expect(shown.stdout).toContain('83%  500/600')
    expect(shown.stdout).toContain('\r\u001b[K600 redriven')
  })

  test('pause stops claims, and resume allows them again', async () => {
    const queue = freshQueue()
    await ok('enqueue', queue, '1')
    expect(await ok('pause', queue)).toBe(`${queue} paused\n`)
    expect(await emq('claim', queue)).toMatchObject({ code: 3, stdout: '' })
    expect(jsonOf(await ok('resume', queue, '--json'))).toEqual([{ queue, paused: false, known: true }])
    expect(await ok('claim', queue)).toMatch(/^JOB\w{11} {2}token 1 {2}30s {2}1\n$/)
  })
})

describe('a queue that was never used', () => {
  test('pause and resume accept a queue that was never used, with a note on stderr', async () => {
    const queue = freshQueue()
    const note = `note: ${queue} was never used. Is the name correct?\n`
    expect(await emq('pause', queue)).toEqual({ code: 0, stdout: `${queue} paused\n`, stderr: note })
    const other = freshQueue()
    const { stdout, stderr } = await emq('resume', other, '--json')
    expect(jsonOf(stdout)).toEqual([{ queue: other, paused: false, known: false }])
    expect(stderr).toBe(`note: ${other} was never used. Is the name correct?\n`)
  })

  test('jobs exits with 3 for a queue that was never used, and with 0 for an empty queue', async () => {
    const queue = freshQueue()
    expect(await emq('jobs', queue)).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringContaining('not_found'),
    })
    const { id } = await queueOf(queue).enqueue(1)
    expect(await ok('jobs', queue, '--state', 'dead')).toBe('')
    expect(await ok('remove', queue, id)).toBe(`${id} removed\n`)
    expect(await emq('remove', queue, id)).toMatchObject({ code: 3, stdout: '' })
  })
})

test('remove exits with 4 when a live lease holds the job', async () => {
  const queue = freshQueue()
  const { id } = await queueOf(queue).enqueue(1)
  await ok('claim', queue)
  expect(await emq('remove', queue, id)).toMatchObject({ code: 4, stdout: '' })
})

test('queues lists the queues of all pages', async () => {
  const names = Array.from({ length: 52 }, freshQueue)
  await Promise.all(names.map((name) => queueOf(name).enqueue(1)))
  const listed = jsonOf(await ok('queues', '--json'))
  expect(listed.map(({ queue }) => queue)).toEqual(expect.arrayContaining(names))
  const lines = linesOf(await ok('queues'))
  expect(lines).toHaveLength(listed.length)
  expect(lines.find((line) => line.startsWith(`${names[0]} `))).toMatch(
    /^\S+ +pending 1 +active 0 +scheduled 0 +dead 0$/,
  )
})

describe('purge', () => {
  test('purge --yes deletes all jobs of one state, also more than one request deletes', async () => {
    const queue = await deadJobs(1)
    await queueOf(queue).enqueueMany(Array.from({ length: 1_100 }, (_, nth) => ({ payload: nth })))
    expect(await ok('purge', queue, '--state', 'pending', '--yes')).toBe('1100 removed\n')
    expect((await queueOf(queue).stats()).counts).toEqual({ pending: 0, active: 0, scheduled: 0, dead: 1 })
    expect(await ok('purge', queue, '--state', 'pending', '--yes')).toBe('0 removed\n')
  })

  test('purge --limit deletes the oldest jobs and no more than the limit', async () => {
    const queue = await deadJobs(3)
    const [oldest] = jsonOf(await ok('jobs', queue, '--state', 'dead', '--oldest', '--limit', '1', '--json'))
    const purged = await ok('purge', queue, '--state', 'dead', '--limit', '1', '--yes', '--json')
    expect(jsonOf(purged)).toEqual([{ queue, state: 'dead', removed: 1 }])
    expect(await queueOf(queue).job(oldest.id)).toBeUndefined()
    expect((await queueOf(queue).stats()).counts.dead).toBe(2)
  })

  test('purge without --yes deletes nothing where stdin is not a terminal', async () => {
    const queue = await deadJobs(1)
    expect(await emq('purge', queue, '--state', 'dead')).toEqual({
      code: 2,
      stdout: '',
      stderr: 'error: Nobody can confirm this: stdin is not a terminal. Give --yes to delete the jobs.\n',
    })
    expect((await queueOf(queue).stats()).counts.dead).toBe(1)
  })

  test.each([
    ['the name of the queue', (queue: string) => queue, 0, 0],
    ['another text', () => 'yes', 2, 1],
  ])('purge on a terminal asks for the name of the queue: typing %s', async (_, typed, code, left) => {
    const queue = await deadJobs(1)
    const { child, ended } = startCliOnTerminal(['purge', queue, '--state', 'dead'], { env })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.stdin.write(`${typed(queue)}\n`)
    const purged = await ended
    expect(purged.stdout).toContain(`Deletes 1 dead jobs of ${queue} for good.`)
    expect(purged.code).toBe(code)
    expect((await queueOf(queue).stats()).counts.dead).toBe(left)
  })
})

describe('watch', () => {
  test('watch --until-empty prints a line per reading until the queue is empty', async () => {
    const name = freshQueue()
    const queue = queueOf(name)
    await queue.enqueueMany([{ payload: 1 }, { payload: 2 }])
    const { child, ended } = startCli(['watch', name, '--until-empty', '--interval', '200ms'], { env })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    for (const job of await queue.claim({ limit: 2 })) await queue.complete(job)
    const { code, stdout } = await ended
    expect(code).toBe(0)
    const lines = linesOf(stdout)
    expect(lines[0]).toBe('pending 2  active 0  scheduled 0  dead 0  completed 0  failed 0  0/s')
    expect(lines.at(-1)).toMatch(
      /^pending 0 {2}active 0 {2}scheduled 0 {2}dead 0 {2}completed 2 {2}failed 0 {2}[\d.]+\/s$/,
    )
  })

  test('watch --json prints JSON lines and exits with 0 on SIGINT', async () => {
    const name = freshQueue()
    await queueOf(name).enqueue(1)
    const { child, ended } = startCli(['watch', name, '--json', '--interval', '200ms'], { env })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.kill('SIGINT')
    const { code, stdout, stderr } = await ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(jsonOf(stdout)[0]).toMatchObject({ queue: name, counts: { pending: 1 } })
  })

  test('watch redraws in place on a terminal, with a progress bar', async () => {
    const name = freshQueue()
    const queue = queueOf(name)
    await queue.enqueueMany(Array.from({ length: 40 }, (_, nth) => ({ payload: nth })))
    const { child, ended } = startCliOnTerminal(['watch', name, '--until-empty', '--interval', '200ms'], {
      env,
    })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    const draining = queue.drain(() => new Promise((resolve) => setTimeout(resolve, 40)))
    const { code, stdout } = await ended
    await draining
    expect(code).toBe(0)
    expect(stdout).toContain(`\u001b[8A`)
    expect(stdout).toMatch(/drained {4}\[#+-*\] +\d+% {2}\d+\/40/)
    expect(stdout).toMatch(/pending {4}0\r?\n/)
  })

  test('watch prints that Redis is away and continues', async () => {
    const name = freshQueue()
    await queueOf(name).enqueue(1)
    const { child, ended } = startCli(['watch', name, '--interval', '200ms'], { env })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    stack.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }, { times: Number.POSITIVE_INFINITY })
    await new Promise((resolve) => child.stderr.once('data', resolve))
    await stack.bridge.reset()
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.kill('SIGTERM')
    const { code, stderr } = await ended
    expect(code).toBe(0)
    expect(stderr).toContain('upstream')
    expect(stderr).not.toContain('boom')
  })
})

describe('exit codes', () => {
  test('the command line exits with 3 when it finds nothing', async () => {
    const queue = freshQueue()
    expect(await emq('claim', queue)).toEqual({ code: 3, stdout: '', stderr: 'There is no job to claim.\n' })
    expect(await emq('claim', queue, '--json')).toEqual({ code: 3, stdout: '', stderr: '' })
    expect(await emq('jobs', queue, 'JOB0KHTOWnGLuC')).toMatchObject({
      code: 3,
      stderr: 'There is no such job.\n',
    })
    expect(await emq('complete', queue, 'JOB0KHTOWnGLuC', '1')).toMatchObject({
      code: 3,
      stdout: 'JOB0KHTOWnGLuC gone\n',
    })
    expect(await emq('stats', queue)).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringContaining('not_found'),
    })
  })

  test('the command line exits with 4 for a stale token, a wrong state and a missing scope', async () => {
    const queue = freshQueue()
    const { id } = await queueOf(queue).enqueue(1)
    await ok('claim', queue)
    const stale = await emq('complete', queue, id, '7', '--json')
    expect(stale).toMatchObject({ code: 4, stdout: '' })
    expect(JSON.parse(stale.stderr)).toMatchObject({
      error: { code: 'stale', reason: 'superseded', status: 409 },
    })
    expect(await emq('redrive', queue, id)).toMatchObject({ code: 4, stdout: '' })
    const producer = { ...env, EMQ_TOKEN: stack.tokens.producer }
    expect(await runCli(['claim', queue], { env: producer })).toMatchObject({ code: 4, stdout: '' })
  })

  test('the command line exits with 2 and names the field when the API rejects a value', async () => {
    const { code, stderr } = await emq('claim', freshQueue(), '--limit', '101')
    expect(code).toBe(2)
    expect(stderr).toMatch(/^error: .*: invalid: limit .*\n {2}request [\w-]+\n$/)
    const lines = await runCli(['enqueue', freshQueue(), '--lines', '--delay', '367d'], {
      env,
      stdin: '1\n2\n',
    })
    expect(lines).toMatchObject({ code: 2, stdout: '2 refused\n' })
    expect(lines.stderr).toMatch(
      /^line 1: enqueue: invalid: delayMs .*\nline 2: enqueue: invalid: delayMs .*\n$/,
    )
  })

  test('the command line exits with 1 when Redis is away', async () => {
    stack.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }, { times: Number.POSITIVE_INFINITY })
    onTestFinished(() => stack.bridge.reset())
    expect(await emq('stats', freshQueue())).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('upstream'),
    })
  })
})
