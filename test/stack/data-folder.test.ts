/** The folder of the embedded Redis: made when it is missing, used by one Redis at a time. */

import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { lockFolder, makeFolder } from '../../src/stack/data-folder.ts'
import { freePort } from '../../src/stack/ports.ts'

async function temporaryFolder(): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'emq-test-')))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const address = async () => ({ port: await freePort(), password: 'secret' })

/** Returns the id of a process that has ended. */
const deadProcess = (): number => spawnSync('/bin/true').pid

test('makeFolder makes the folder and its parents and returns its real path', async () => {
  const folder = await temporaryFolder()

  expect(await makeFolder(join(folder, 'a', 'b'))).toBe(join(folder, 'a', 'b'))
  expect(await makeFolder(join(folder, 'a', '..', 'a'))).toBe(join(folder, 'a'))
})

test('195: makeFolder gives a new folder to its owner only, and leaves an existing one as it is', async () => {
  const folder = await temporaryFolder()
  const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)
  const umask = process.umask(0o022)
  onTestFinished(() => void process.umask(umask))

  expect(await mode(await makeFolder(join(folder, 'new')))).toBe('700')
  await mkdir(join(folder, 'old'))
  expect(await mode(await makeFolder(join(folder, 'old')))).toBe('755')
})

test('makeFolder rejects a path where no folder can be made', async () => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'file'), '')

  for (const impossible of ['/proc/nope', join(folder, 'file'), join(folder, 'file', 'below')])
    await expect(makeFolder(impossible)).rejects.toThrow(`The data folder ${impossible} cannot be made.`)
})

test('a released folder can be locked again, and the old lock has no effect on the new one', async () => {
  const folder = await temporaryFolder()
  const first = await lockFolder(folder, await address())
  await first.confirm()
  await first.release()
  expect(await readdir(folder)).toEqual([])

  const second = await lockFolder(folder, await address())
  await first.release()
  await second.confirm()
})

test('a folder whose lock cannot be written is rejected', async () => {
  const folder = await temporaryFolder()
  await mkdir(join(folder, 'emq.lock'))
  // No stack holds it, and it cannot be removed.
  await expect(lockFolder(folder, await address(), 50)).rejects.toThrow(
    `The data folder ${folder} cannot be used:`,
  )
})

test.each([
  ['of a process that has ended', () => `${deadProcess()} 1 secret\n`, 5_000],
  ['of a process without a Redis', () => `${process.pid} 1 secret\n`, 50],
  ['that was never written completely', () => '', 50],
])('a lock %s does not block the next stack', async (_whose, text, patienceMs) => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'emq.lock'), text())
  const startedAt = performance.now()

  const lock = await lockFolder(folder, await address(), patienceMs)

  await lock.confirm()
  expect(performance.now() - startedAt).toBeLessThan(2_000)
})

test('a lock that another stack has replaced is neither confirmed nor removed', async () => {
  const folder = await temporaryFolder()
  const lock = await lockFolder(folder, await address())
  await writeFile(join(folder, 'emq.lock'), `${deadProcess()} 1 secret\n`)

  await expect(lock.confirm()).rejects.toThrow(`The data folder ${folder} is in use by another stack`)
  await lock.release()
  expect(await readdir(folder)).toEqual(['emq.lock'])
})
