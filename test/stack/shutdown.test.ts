/** How a command ends: real processes and real signals. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'

const MODULE = JSON.stringify(new URL('../../src/stack/shutdown.ts', import.meta.url).href)

type Run = { child: ChildProcess; output: () => string; exit: Promise<unknown[]> }

/** Runs a program that has called `stopWhenAsked(stop)`, and waits until it has. */
async function start(
  stop: string,
  options: { command?: string; args?: string[]; npm?: boolean } = {},
): Promise<Run> {
  const program = `
    const { stopWhenAsked } = await import(${MODULE})
    stopWhenAsked(${stop})
    console.log('ready', process.pid)
    setInterval(() => {}, 1000)
  `
  const { npm_lifecycle_event: _, ...env } = process.env
  const { command = process.execPath, args = [] } = options
  const child = spawn(command, [...args, '--input-type=module', '-e', program], {
    env: options.npm ? { ...env, npm_lifecycle_event: 'dev' } : env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const exit = once(child, 'close')
  await expect.poll(() => output, { timeout: 10_000 }).toContain('ready')
  return { child, output: () => output, exit }
}

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s stops the program in order, which exits with 0',
  async (signal) => {
    const { child, output, exit } = await start(`async () => console.log('stopped')`)

    child.kill(signal)

    expect(await exit).toEqual([0, null])
    expect(output()).toContain('stopped')
  },
)

test('a Ctrl-C that arrives twice, from the terminal and from npm, stops once', async () => {
  const { child, output, exit } = await start(
    `async () => { console.log('stopping'); process.kill(process.pid, 'SIGINT'); await new Promise(setImmediate) }`,
  )

  child.kill('SIGINT')

  expect(await exit).toEqual([0, null])
  expect(output().match(/stopping/g)).toHaveLength(1)
})

test('a stop that hangs is cut off within five seconds', async () => {
  const { child, exit } = await start('() => new Promise(() => {})')
  const begin = performance.now()

  child.kill('SIGTERM')

  expect(await exit).toEqual([1, null])
  expect(performance.now() - begin).toBeLessThan(5000)
})

test('the program stops when the npm that started it is killed', async () => {
  // A shell in the place of npm: it is killed, and cannot pass that on.
  const args = ['-c', '"$0" "$@" & wait', process.execPath]
  const { child, output, exit } = await start(`async () => console.log('stopped')`, {
    command: '/bin/sh',
    args,
    npm: true,
  })

  child.kill('SIGKILL')

  // The output is closed when the last process that holds it has ended.
  await exit
  expect(output()).toContain('stopped')
})
