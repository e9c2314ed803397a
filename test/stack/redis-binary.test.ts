/** The sources of a Redis program: PATH first, then the package manager. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { findRedisBinary } from '../../src/stack/redis-binary.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'emq-path-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

async function program(name: string, body = '', mode = 0o755): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, `#!/bin/sh\n${body}\n`, { mode })
  return file
}

test('findRedisBinary prefers redis-server to valkey-server', async () => {
  await program('valkey-server')
  const redis = await program('redis-server')

  expect(await findRedisBinary(folder)).toBe(redis)
})

test('findRedisBinary ignores a file that is not executable', async () => {
  const valkey = await program('valkey-server')
  await program('redis-server', '', 0o644)

  expect(await findRedisBinary(folder)).toBe(valkey)
})

test('findRedisBinary searches the folders of PATH in order', async () => {
  const redis = await program('redis-server')

  expect(await findRedisBinary(`/nonexistent::${folder}:/usr/bin`)).toBe(redis)
})

test('findRedisBinary installs the Debian package and reports it before and after', async () => {
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const log = join(folder, 'log')
  const redis = join(folder, 'redis-server')
  // For users other than root: a sudo without a password.
  await program('sudo', 'shift; exec "$@"')
  await program(
    'apt-get',
    `echo "$DEBIAN_FRONTEND $*" >> ${log}; [ "$1" = update ] || install -m 755 /dev/null ${redis}`,
  )

  expect(await findRedisBinary(folder)).toBe(redis)

  expect(await readFile(log, 'utf8')).toBe(
    'noninteractive update\nnoninteractive install --yes --no-install-recommends redis-server\n',
  )
  expect(stderr.mock.calls).toEqual([
    ['Redis is not installed: installing redis-server with apt-get.\n'],
    ['Installed redis-server.\n'],
  ])
  stderr.mockRestore()
})
