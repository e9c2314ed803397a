/** The command line as a child process. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url))

/** The cache keeps the stripped types: stripping them at every start takes longer than most commands. */
const SHARED_ENV = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: join(tmpdir(), 'emq-compile-cache') }

export type Surroundings = {
  /** The whole environment of the command. */
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: string
  readonly cwd?: string
}

export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

export type Running = { readonly child: ChildProcessWithoutNullStreams; readonly ended: Promise<Ended> }

function follow(child: ChildProcessWithoutNullStreams): Running {
  const ended = Promise.all([
    new Promise<number | null>((resolve) => child.once('close', resolve)),
    text(child.stdout),
    text(child.stderr),
  ]).then(([code, stdout, stderr]): Ended => ({ code, stdout, stderr }))
  return { child, ended }
}

/** Starts the command line with this text on stdin. */
export function startCli(args: readonly string[], { env = {}, stdin = '', cwd }: Surroundings = {}): Running {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...SHARED_ENV, ...env }, cwd })
  // A command that reads no stdin may end before everything is written.
  child.stdin.on('error', () => {})
  child.stdin.end(stdin)
  return follow(child)
}

export function runCli(args: readonly string[], surroundings?: Surroundings): Promise<Ended> {
  return startCli(args, surroundings).ended
}

/** Starts the command line on a terminal that `script` creates: `stdout` has everything that the terminal shows. */
export function startCliOnTerminal(args: readonly string[], { env = {} }: Surroundings = {}): Running {
  const quoted = [process.execPath, MAIN, ...args].map((arg) => `'${arg.replaceAll("'", "'\\''")}'`).join(' ')
  return follow(
    spawn('script', ['-qefc', quoted, '/dev/null'], {
      env: { ...SHARED_ENV, TERM: 'xterm', ...env },
    }),
  )
}
