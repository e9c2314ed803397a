/**
 * The folder in which the embedded Redis keeps its data: made where there is none, worked in by one Redis at a time.
 *
 * Two of them would append to one file, and hand out the same jobs under the same tokens. The lock is a file with the
 * process that took it and the port of its Redis, and holds for as long as those are there: what a killed stack left
 * behind stops nobody, but a Redis that has outlived its stack for a moment is waited for.
 */

import { execFile } from 'node:child_process'
import { readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { probeRedis } from './redis-probe.ts'

export type FolderLock = {
  /**
   * To be called when Redis listens: of two that met the same old lock, the second may have put the first one's aside.
   *
   * @throws {Error} when the folder is somebody else's.
   */
  confirm(): Promise<void>
  /** Frees the folder, if it is still ours. */
  release(): Promise<void>
}

const LOCK = 'emq.lock'

/** How long a Redis that starts takes to listen, and one that is left behind takes to end. */
const PATIENCE_MS = 5_000
const POLL_MS = 50

/**
 * Makes the folder, and those above it, and answers where it really is.
 *
 * @throws {Error} in one sentence.
 */
export async function makeFolder(folder: string): Promise<string> {
  try {
    // By the program: Node's own `mkdir` never returns from a place like /proc where no folder can be made.
    await promisify(execFile)('mkdir', ['-p', '--', folder])
  } catch {
    throw new Error(`The data folder ${folder} cannot be made.`)
  }
  return realpath(folder)
}

/**
 * Takes the folder for the Redis that is about to listen on the port.
 *
 * @throws {Error} in one sentence, when another stack works in it, or the lock cannot be written.
 */
export async function lockFolder(
  folder: string,
  port: number,
  patienceMs = PATIENCE_MS,
): Promise<FolderLock> {
  const file = join(folder, LOCK)
  const mine = `${process.pid} ${port}\n`
  const isMine = async (): Promise<boolean> => (await read(file)) === mine
  try {
    while (!(await create(file, mine))) {
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
      if (!(await isMine())) throw new InUse(folder)
    },
    async release() {
      if (await isMine()) await rm(file, { force: true })
    },
  }
}

class InUse extends Error {
  constructor(folder: string, pid?: number) {
    super(`The data folder ${folder} is in use by another stack${pid ? `, process ${pid}` : ''}.`)
  }
}

/** Whether the file was not there and is now. */
async function create(file: string, text: string): Promise<boolean> {
  try {
    await writeFile(file, text, { flag: 'wx' })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

/** Undefined when there is no such file. */
async function read(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Returns when nobody is there who holds the lock; throws when somebody does. */
async function untilAbandoned(folder: string, file: string, patienceMs: number): Promise<void> {
  const endsAt = Date.now() + patienceMs
  for (;;) {
    const text = await read(file)
    if (text === undefined) return
    // Both are 0 while the file is written.
    const [pid = 0, port = 0] = text.split(' ').map(Number)
    const lives = pid === 0 || isAlive(pid)
    const atWork = port !== 0 && (await probeRedis(port, folder)).mayBeAtWork
    const isLate = Date.now() > endsAt
    if (atWork && (lives || isLate)) throw new InUse(folder, pid)
    // A number that is alive with no Redis behind it is somebody else's by now.
    if (!atWork && (!lives || isLate)) return
    await setTimeout(POLL_MS)
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) !== 'ESRCH'
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code
