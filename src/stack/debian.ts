/**
 * Finds programs on PATH and installs Debian packages where this process may. Says on stderr what it changes on the
 * machine, before and after. Never asks for a password.
 */

import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

/** Returns the path of a program, or undefined when it is not on PATH. */
export async function which(program: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    const file = join(folder, program)
    const isExecutable = access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (await isExecutable) return file
  }
  return undefined
}

/**
 * Installs packages with apt-get, as root or through a sudo that needs no password. Returns whether it succeeded.
 *
 * @param why The reason, for the line that announces the installation.
 */
export async function installPackages(
  packages: readonly string[],
  why: string,
  path = process.env['PATH'] ?? '',
): Promise<boolean> {
  const isRoot = process.getuid?.() === 0
  const sudo = isRoot ? undefined : await which('sudo', path)
  const apt = await which('apt-get', path)
  if (apt === undefined) return false
  if (!isRoot && !(sudo && (await succeeds([sudo, '-n', 'true'], 'ignore')))) return false

  const names = packages.join(', ')
  say(`${why}: installing ${names} with apt-get.`)
  const aptGet = [...(sudo ? [sudo, '-n'] : []), 'env', 'DEBIAN_FRONTEND=noninteractive', apt]
  // A new machine has no package lists. When the update fails, the installation may still succeed.
  await succeeds([...aptGet, 'update'], process.stderr)
  const install = [...aptGet, 'install', '--yes', '--no-install-recommends', ...packages]
  const isInstalled = await succeeds(install, process.stderr)
  say(isInstalled ? `Installed ${names}.` : `apt-get could not install ${names}.`)
  return isInstalled
}

function succeeds(
  [command = '', ...args]: string[],
  output: 'ignore' | NodeJS.WriteStream,
): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', output, output] })
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
  })
}

/** Prints a line on stderr. stdout is for machines to read. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
