/**
 * The package, packed and linted by `npm run package` and installed in an empty project in a temporary folder.
 */
import { execFile } from 'node:child_process'
import { accessSync, constants, cpSync } from 'node:fs'
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** The first Node on PATH outside node_modules: the Node of the machine. */
export const SYSTEM_NODE: string = (() => {
  const folders = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
  const found = folders.map((folder) => join(folder, 'node')).find(isExecutable)
  if (found === undefined) throw new Error('this machine has no Node outside node_modules')
  return found
})()

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string }

/** Runs a program until it exits. */
export async function outcomeOf(
  program: string,
  args: readonly string[],
  options: { cwd: string; env?: NodeJS.ProcessEnv },
): Promise<Outcome> {
  return run(program, [...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code: Number(code), stdout, stderr }),
  )
}

export type Installed = {
  readonly folder: string
  /** The files of the tarball. */
  readonly files: readonly string[]
  remove(): Promise<void>
}

/**
 * Packs, lints and installs the package.
 *
 * @throws when `npm run package` fails or npm cannot install the tarball.
 */
export async function install(): Promise<Installed> {
  await run('npm', ['run', 'package'], { cwd: ROOT })
  const { name, version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const tarball = join(ROOT, `${name}-${version}.tgz`)
  const { stdout } = await run('tar', ['tzf', tarball])

  const folder = await realpath(await mkdtemp(join(tmpdir(), 'emq-package-')))
  await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  await run('npm', ['install', tarball, '--prefer-offline', '--no-audit', '--no-fund'], { cwd: folder })
  cpSync(join(ROOT, 'test/package/project'), folder, { recursive: true })
  return {
    folder,
    files: stdout
      .trim()
      .split('\n')
      .map((file) => file.replace(/^package\//, '')),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
