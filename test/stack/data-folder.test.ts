/** The folder of the embedded Redis: made where there is none, and worked in by one Redis at a time. */

import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
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

/** The id of a process that has ended. */
const deadProcess = (): number => spawnSync('/bin/true').pid

test('is made with what is above it, and is where it really is', async () => {
  const folder = await temporaryFolder()

  expect(await makeFolder(join(folder, 'a', 'b'))).toBe(join(folder, 'a', 'b'))
  expect(await makeFolder(join(folder, 'a', '..', 'a'))).toBe(join(folder, 'a'))
})

test('is refused in one sentence where it cannot be made', async () => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'file'), '')

  for (const impossible of ['/proc/nope', join(folder, 'file'), join(folder, 'file', 'below')])
    await expect(makeFolder(impossible)).rejects.toThrow(`The data folder ${impossible} cannot be made.`)
})

test('is locked once, and free again when it is released', async () => {
  const folder = await temporaryFolder()
  const first = await lockFolder(folder, await freePort())
  await first.confirm()
  await first.release()
  expect(await readdir(folder)).toEqual([])

  const second = await lockFolder(folder, await freePort())
  await first.release()
  await second.confirm()
})

test('whose lock cannot be written is refused in one sentence', async () => {
  const folder = await temporaryFolder()
  await mkdir(join(folder, 'emq.lock'))
  // Nobody is taken to hold it, and it cannot be put aside.
  await expect(lockFolder(folder, await freePort(), 50)).rejects.toThrow(
    `The data folder ${folder} cannot be used:`,
  )
})

test.each([
  ['of a process that has ended', () => `${deadProcess()} 1\n`, 5_000],
  ['of a process that somebody else is by now', () => `${process.pid} 1\n`, 50],
  ['that was never written to the end', () => '', 50],
])('a lock %s stops nobody', async (_whose, text, patienceMs) => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'emq.lock'), text())
  const startedAt = performance.now()

  const lock = await lockFolder(folder, await freePort(), patienceMs)

  await lock.confirm()
  expect(performance.now() - startedAt).toBeLessThan(2_000)
})

test('a lock that somebody else has put in the place of ours is theirs', async () => {
  const folder = await temporaryFolder()
  const lock = await lockFolder(folder, await freePort())
  await writeFile(join(folder, 'emq.lock'), `${deadProcess()} 1\n`)

  await expect(lock.confirm()).rejects.toThrow(`The data folder ${folder} is in use by another stack`)
  await lock.release()
  expect(await readdir(folder)).toEqual(['emq.lock'])
})
