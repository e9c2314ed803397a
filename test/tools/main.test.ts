/**
 * The commands as processes, as npm runs them: their output, their exit codes, and what remains after them.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DEFAULT_PORT, DEFAULT_REST_PORT, isPortFree } from '../../src/stack/ports.ts'
import { startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const START_TIMEOUT_MS = 60_000

type Run = { child: ChildProcess; stdout: () => string; stderr: () => string; exit: Promise<unknown[]> }

function run(command: string, args: readonly string[], env: Record<string, string> = {}): Run {
  const child = spawn(command, args, { cwd: PROJECT, env: { ...process.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  }
  return { child, stdout: () => output.stdout, stderr: () => output.stderr, exit: once(child, 'close') }
}

function main(...args: string[]): Run {
  return run(process.execPath, ['src/tools/main.ts', ...args])
}

async function finished({ exit, stdout, stderr }: Run) {
  const [code] = await exit
  return { code, stdout: stdout(), stderr: stderr() }
}

const ports = (...urls: string[]): number[] => urls.map((url) => Number(new URL(url).port))
const areFree = (all: readonly number[]) => Promise.all(all.map(isPortFree))

describe('dev', { timeout: START_TIMEOUT_MS }, () => {
  test('dev --json prints one line, and SIGTERM to npm ends everything', async () => {
    const dev = run('npm', ['run', '--silent', 'dev', '--', '--json', '--port', '0', '--rest-port', '0'])
    await expect.poll(dev.stdout, { timeout: START_TIMEOUT_MS }).toContain('\n')

    const ready = JSON.parse(dev.stdout())
    expect(ready).toEqual({
      ready: true,
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      restUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      restToken: expect.stringMatching(/^[0-9a-f]{48}$/),
      redisUrl: expect.stringMatching(/^redis:\/\/:[0-9a-f]{48}@127\.0\.0\.1:\d+$/),
      tokens: {
        producer: 'dev-producer',
        consumer: 'dev-consumer',
        observer: 'dev-observer',
        operator: 'dev-operator',
      },
    })
    expect((await fetch(`${ready.url}/healthz`)).status).toBe(200)
    expect(dev.stderr().match(/curl -X POST/g)).toHaveLength(3)

    const begin = performance.now()
    dev.child.kill('SIGTERM')
    await dev.exit
    expect(performance.now() - begin).toBeLessThan(5000)
    expect(await areFree(ports(ready.url, ready.restUrl, ready.redisUrl))).toEqual([true, true, true])
    expect(dev.stdout().trim().split('\n')).toHaveLength(1)
  })

  test('dev --quiet prints only the ready line, and nothing survives SIGKILL', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const dev = main('dev', '--quiet', '--port', '0', '--rest-port', '0', '--redis-url', redis.url)
    await expect
      .poll(dev.stdout, { timeout: START_TIMEOUT_MS })
      .toMatch(/^ready http:\/\/127\.0\.0\.1:\d+\n$/)
    const url = dev.stdout().trim().slice('ready '.length)
    const [port = 0] = ports(url)
    await redis.stop()
    // The Worker logs this.
    const headers = { Authorization: 'Bearer dev-operator' }
    expect((await fetch(`${url}/v1/queues`, { headers })).status).toBe(503)

    dev.child.kill('SIGKILL')

    // The output closes when the last child process has ended.
    const begin = performance.now()
    await dev.exit
    await expect.poll(() => isPortFree(port), { timeout: 10_000 }).toBe(true)
    expect(performance.now() - begin).toBeLessThan(10_000)
    expect(dev.stderr()).toBe('')
  })

  test('dev warns of invalid variables and busy ports, prints no secret, and exits with 1 when Redis ends', async () => {
    for (const port of [DEFAULT_PORT, DEFAULT_REST_PORT]) await occupy(port)
    const env = { EMQ_TOKENS: '[]', EMQ_MAX_BODY_BYTES: 'abc', EMQ_DEV_REST_TOKEN: 'a-secret' }
    const dev = run(process.execPath, ['src/tools/main.ts', 'dev', '--json'], env)
    await expect.poll(dev.stdout, { timeout: START_TIMEOUT_MS }).toContain('\n')

    const ready = JSON.parse(dev.stdout())
    const refusing = 'warning: The Worker rejects every request: '
    expect(dev.stderr()).toContain(`${refusing}EMQ_TOKENS lists no token.\n`)
    expect(dev.stderr()).toContain(`${refusing}EMQ_MAX_BODY_BYTES must be an integer`)
    expect(dev.stderr()).toContain(
      `\nPort 8787 is busy: using ${ready.url} instead. Port 8079 is busy: using ${ready.restUrl} instead.\n`,
    )
    expect(dev.stderr()).not.toMatch(/curl|dev-producer|a-secret/)
    expect(ready.restToken).toBe('a-secret')
    // EMQ_TOKENS replaces the development tokens.
    expect(ready.tokens).toEqual({})

    const redis = await createRespPort(ready.redisUrl)
    await redis.send([['SHUTDOWN', 'NOSAVE']]).catch(() => {})
    redis.close()

    expect((await dev.exit)[0]).toBe(1)
    expect(dev.stderr()).toContain('error: Redis has ended unexpectedly.\n')
    expect(await areFree(ports(ready.url, ready.restUrl))).toEqual([true, true])
  })
})

test.each([
  ['openapi'],
  ['conformance'],
  ['demo'],
  ['dev', '--json', '--quiet', '--port', '0', '--rest-port', '0'],
])('%s exits with 0 when its reader closes the pipe', { timeout: START_TIMEOUT_MS }, async (...args) => {
  const command = main(...args)
  command.child.stdout?.destroy()

  expect((await command.exit)[0]).toBe(0)
  expect(command.stderr()).toBe('')
})

test('a dev that fails or is stopped during the build exits at once and removes its temporary folders', async () => {
  const temporary = await mkdtemp(join(tmpdir(), 'emq-test-'))
  onTestFinished(() => rm(temporary, { recursive: true, force: true }))
  const started = async () => (await readdir(temporary)).filter((name) => name.startsWith('emq-'))
  const env = { TMPDIR: temporary }
  const dev = (...args: string[]) =>
    run(process.execPath, ['src/tools/main.ts', 'dev', '--port', '0', '--rest-port', '0', ...args], env)

  const failing = dev('--redis-url', 'redis://127.0.0.1:1')
  expect((await failing.exit)[0]).toBe(1)
  expect(failing.stderr()).toMatch(/error: Redis cannot be reached.\n$/)
  expect(await started()).toEqual([])

  const asked = dev()
  await expect
    .poll(started, { timeout: START_TIMEOUT_MS })
    .toEqual(expect.arrayContaining([expect.stringMatching(/^emq-worker-/)]))
  asked.child.kill('SIGTERM')
  expect((await asked.exit)[0]).toBe(0)
  await expect.poll(started, { timeout: 10_000 }).toEqual([])
})

/** Makes sure that something listens on the port. */
async function occupy(port: number): Promise<void> {
  const server = createServer().on('error', () => {})
  onTestFinished(() => void server.close())
  server.listen(port, '127.0.0.1')
  await expect.poll(() => isPortFree(port)).toBe(false)
}

test('a command with invalid arguments exits with 2', async () => {
  const { code, stdout, stderr } = await finished(main('dev', '--bogus'))

  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain("unknown option '--bogus'")
})

test('a command that fails exits with 1', async () => {
  const { code, stderr } = await finished(main('conformance', '--redis-url', 'redis://127.0.0.1:1'))

  expect([code, stderr]).toEqual([1, 'error: Redis cannot be reached.\n'])
})

test('deploy --dry-run builds the Worker and prints its size', { timeout: START_TIMEOUT_MS }, async () => {
  const { code, stdout } = await finished(main('deploy', '--dry-run'))

  expect(stdout).toMatch(/^The Worker: \d+\.\d kB, gzipped \d+\.\d kB of at most 122\.9 kB\.\n$/)
  expect(code).toBe(0)
})

test('172: deploy --dry-run builds the environment that --env names', {
  timeout: START_TIMEOUT_MS,
}, async () => {
  const { code, stdout } = await finished(main('deploy', '--dry-run', '--env', 'staging'))
  expect(stdout).toMatch(/^The Worker: \d+\.\d kB/)
  expect(code).toBe(0)

  const unknown = await finished(main('deploy', '--dry-run', '--env', 'nope'))
  expect(unknown.stderr).toContain('No environment found in configuration with name "nope"')
  expect(unknown.code).toBe(1)
})

test('demo plays its story and exits with 0', { timeout: START_TIMEOUT_MS }, async () => {
  const { code, stdout } = await finished(main('demo'))

  expect(code).toBe(0)
  expect(stdout).toMatch(/stats +completed 3, failed 1/)
})

test('conformance passes against an embedded endpoint', { timeout: START_TIMEOUT_MS }, async () => {
  const { code, stdout } = await finished(main('conformance'))

  expect(stdout).toMatch(/^PASS 6\/6$/m)
  expect(code).toBe(0)
})
