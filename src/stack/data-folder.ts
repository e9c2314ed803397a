/**
 * The folder in which the embedded Redis keeps its data. Only one Redis may work in it: two would append to one file
 * and return the same jobs with the same tokens.
 *
 * The lock is a file with a process id and the port and password of its Redis. It holds while both are alive, so a killed stack does
 * not block the next one; a Redis that outlives its stack for a moment is waited for.
 */

import { execFile } from 'node:child_process'
import { readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Address, probeRedis } from './redis-probe.ts'

export type FolderLock = {
  /**
   * Call this when Redis listens: two stacks that find the same old lock may both replace it.
   *
   * @throws {Error} when another stack holds the lock.
   */
  confirm(): Promise<void>
  /** Frees the folder, unless another stack holds the lock. */
  release(): Promise<void>
}

/** How long a Redis may take to listen after its start, and to end after its stack. */
const PATIENCE_MS = 5_000
const POLL_MS = 50

/**
 * Makes the folder, for its owner only, and its parents, and returns its real path. An existing folder stays as it is.
 *
 * @throws {Error}
 */
export async function makeFolder(folder: string): Promise<string> {
  try {
    // Node's own `mkdir` never returns for a folder below /proc.
    await promisify(execFile)('mkdir', ['-p', '-m', '700', '--', folder])
  } catch {
    throw new Error(`The data folder ${folder} cannot be made.`)
  }
  return realpath(folder)
}

/**
 * Locks the folder for the Redis that is about to listen on the port.
 *
 * @throws {Error} when another stack works in the folder, or the lock cannot be written.
 */
export async function lockFolder(
  folder: string,
  { port, password }: Address,
  patienceMs = PATIENCE_MS,
): Promise<FolderLock> {
  const file = join(folder, 'emq.lock')
  const ours = `${process.pid} ${port} ${password}\n`
  try {
    while (!(await create(file, ours))) {
      await untilAbandoned(folder, file, patienceMs)
      await rm(file, { force: true })
    }
  } catch (error) {
    if (error instanceof InUse) throw error
    throw new Error(
      `The data folder ${folder} cannot be used: ${error instanceof Error ? error.message : error}`,
    )
  }
  return {
    async confirm() {
      if ((await read(file)) !== ours) throw new InUse(folder)
    },
    async release() {
      if ((await read(file)) === ours) await rm(file, { force: true })
    },
  }
}

class InUse extends Error {
  constructor(folder: string, pid?: number) {
    super(`The data folder ${folder} is in use by another stack${pid ? `, process ${pid}` : ''}.`)
  }
}

/** Returns false when the file exists already. */
function create(file: string, text: string): Promise<boolean> {
  return writeFile(file, text, { flag: 'wx', mode: 0o600 }).then(() => true, on('EEXIST', false))
}

/** Returns undefined when there is no file. */
function read(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(on('ENOENT', undefined))
}

/** Waits until nobody holds the lock. Throws when a stack does. */
async function untilAbandoned(folder: string, file: string, patienceMs: number): Promise<void> {
  const deadline = Date.now() + patienceMs
  for (;;) {
    const text = await read(file)
    if (text === undefined) return
    // The file is empty while it is being written.
    const [pid = 0, port = 0] = text.split(' ', 2).map(Number)
    const password = text.trim().split(' ')[2] ?? ''
    const isAlive = pid === 0 || exists(pid)
    const isAtWork = port !== 0 && (await probeRedis({ port, password }, folder)).mayBeAtWork
    const isLate = Date.now() > deadline
    if (isAtWork && (isAlive || isLate)) throw new InUse(folder, pid)
    // A live process without a Redis has only reused the id.
    if (!isAtWork && (!isAlive || isLate)) return
    await setTimeout(POLL_MS)
  }
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Makes a handler that returns a value for an error with this code, and throws every other error. */
function on<Value>(code: string, value: Value): (error: unknown) => Value {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code === code) return value
    throw error
  }
}
