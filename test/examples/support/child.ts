/** An example in its own process, as a user starts it. It is killed at the end of its test. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'

export const PROJECT = fileURLToPath(new URL('../../..', import.meta.url))
const FROM_SOURCE = fileURLToPath(new URL('./from-source.ts', import.meta.url))

/** A line that an example printed: an event and its job. */
export type Line = {
  readonly event: string
  readonly id?: string
  readonly token?: number
  readonly port?: number
  readonly answer?: unknown
  readonly remainingMs?: number
}

export type Child = {
  readonly process: ChildProcess
  /** The lines that it has printed so far. */
  readonly lines: readonly Line[]
  readonly stderr: () => string
  /** Its exit code or the signal that ended it, after all of its output was read. */
  readonly ended: Promise<number | string>
  /** Waits for a line with these fields. */
  until(wanted: Partial<Line>, withinMs?: number): Promise<Line>
}

export type Env = Readonly<Record<string, string>>

export function start(command: string, args: readonly string[], env: Env = {}): Child {
  const child = spawn(command, args, { cwd: PROJECT, env: { ...process.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines: Line[] = []
  let rest = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => {
    const parts = (rest + chunk.toString()).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts.map((text): Line => JSON.parse(text)))
  })
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  return {
    process: child,
    lines,
    stderr: () => stderr,
    ended: once(child, 'close').then(([code, signal]) => code ?? signal),
    async until(wanted, withinMs = 30_000) {
      const find = () =>
        lines.find((line) => Object.entries(wanted).every(([k, v]) => line[k as keyof Line] === v))
      await expect
        .poll(() => find() ?? { lines, stderr, exit: child.exitCode }, { timeout: withinMs, interval: 10 })
        .toMatchObject(wanted)
      return find() as Line
    },
  }
}

/** Starts a file of the project with Node. */
export const startNode = (file: string, env: Env, args: readonly string[] = []): Child =>
  start(process.execPath, ['--import', FROM_SOURCE, file, ...args], env)
