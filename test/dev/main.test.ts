/**
 * The commands as processes of their own, as npm runs them: what they print, how they exit, what they leave behind.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isPortFree } from '../../src/dev/ports.ts'

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
  return run(process.execPath, ['src/dev/main.ts', ...args])
}

async function finished({ exit, stdout, stderr }: Run) {
  const [code] = await exit
  return { code, stdout: stdout(), stderr: stderr() }
}

const ports = (...urls: string[]): number[] => urls.map((url) => Number(new URL(url).port))
const areFree = (all: readonly number[]) => Promise.all(all.map(isPortFree))

describe('dev', { timeout: START_TIMEOUT_MS }, () => {
  test('--json prints one line, and SIGTERM to npm ends everything', async () => {
    const dev = run('npm', ['run', '--silent', 'dev', '--', '--json', '--port', '0', '--rest-port', '0'])
    await expect.poll(dev.stdout, { timeout: START_TIMEOUT_MS }).toContain('\n')

    const ready = JSON.parse(dev.stdout())
    expect(ready).toEqual({
      ready: true,
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      restUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      restToken: 'dev-rest-token',
      redisUrl: expect.stringMatching(/^redis:\/\/127\.0\.0\.1:\d+$/),
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

  test('--quiet prints the ready line alone, and nothing survives SIGKILL', async () => {
    const dev = main('dev', '--quiet', '--port', '0', '--rest-port', '0')
    await expect
      .poll(dev.stdout, { timeout: START_TIMEOUT_MS })
      .toMatch(/^ready http:\/\/127\.0\.0\.1:\d+\n$/)
    expect(dev.stderr()).toBe('')
    const [port = 0] = ports(dev.stdout().trim().slice('ready '.length))

    dev.child.kill('SIGKILL')

    // Closed when the last process that was started has let go of the output.
    const begin = performance.now()
    await dev.exit
    await expect.poll(() => isPortFree(port), { timeout: 10_000 }).toBe(true)
    expect(performance.now() - begin).toBeLessThan(10_000)
  })
})

test('a command that is not understood exits with 2', async () => {
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

  expect(stdout).toMatch(/^The Worker: \d+\.\d kB, gzipped \d+\.\d kB of at most 120\.0 kB\.\n$/)
  expect(code).toBe(0)
})

test('demo tells its story and exits with 0', { timeout: START_TIMEOUT_MS }, async () => {
  const { code, stdout } = await finished(main('demo'))

  expect(code).toBe(0)
  expect(stdout).toMatch(/stats +completed 3, failed 1/)
})

test('conformance passes against an embedded endpoint', { timeout: START_TIMEOUT_MS }, async () => {
  const { code, stdout } = await finished(main('conformance'))

  expect(stdout).toMatch(/^PASS 6\/6$/m)
  expect(code).toBe(0)
})
