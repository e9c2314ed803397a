/**
 * Programs of the system: finds one on PATH, and installs Debian's packages where this process may. What changes the
 * machine is said on stderr first. Never asks for a password.
 */

import { execFile, spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** Where a program is; undefined when it is nowhere on PATH. */
export async function which(program: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    const candidate = join(folder, program)
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/**
 * Installs packages on Debian and Ubuntu, as root or by a sudo that asks nothing; false where that is not to be had.
 *
 * @param why What is missing, for the line that says what is being done.
 */
export async function installPackages(
  packages: readonly string[],
  why: string,
  path = process.env['PATH'] ?? '',
): Promise<boolean> {
  const apt = await which('apt-get', path)
  const prefix = apt === undefined ? undefined : await rootPrefix(path)
  if (apt === undefined || prefix === undefined) return false

  say(`${why}: installing ${packages.join(', ')} with apt-get.`)
  // The lists of a fresh machine are empty or old; where the update fails, the install may still succeed.
  await aptGet(prefix, apt, ['update'])
  await aptGet(prefix, apt, ['install', '--yes', '--no-install-recommends', ...packages])
  return true
}

/** What to put before a command to run it as root: nothing for root, sudo where it asks nothing; else undefined. */
async function rootPrefix(path: string): Promise<readonly string[] | undefined> {
  if (process.getuid?.() === 0) return []
  const sudo = await which('sudo', path)
  if (sudo === undefined) return undefined
  const mayRun = await promisify(execFile)(sudo, ['-n', 'true']).then(
    () => true,
    () => false,
  )
  return mayRun ? [sudo, '-n'] : undefined
}

function aptGet(prefix: readonly string[], apt: string, args: readonly string[]): Promise<void> {
  const [command = apt, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', apt, ...args]
  return new Promise((resolve) => {
    // stdout of apt-get goes to our stderr: our own stdout is for machines to read.
    const child = spawn(command, rest, { stdio: ['ignore', process.stderr, process.stderr] })
    child.once('error', () => resolve())
    child.once('exit', () => resolve())
  })
}

/** A line on stderr: our own stdout is for machines to read. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
