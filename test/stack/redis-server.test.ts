/**
 * The Redis child: configured as promised, and gone when it should be.
 */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { access, mkdtemp, readdir, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import type { Command, Reply } from '../../src/queue/redis.ts'
import { isPortFree } from '../../src/stack/ports.ts'
import { type RedisServerOptions, startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'emq-test-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function send(url: string, command: Command): Promise<Reply | undefined> {
  const port = await createRespPort(url)
  try {
    return (await port.send([command]))[0]
  } finally {
    port.close()
  }
}

async function setting(url: string, name: string): Promise<string> {
  const reply = await send(url, ['CONFIG', 'GET', name])
  return Array.isArray(reply) && reply[1] instanceof Uint8Array ? new TextDecoder().decode(reply[1]) : ''
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

test('Redis never evicts, keeps nothing on disk, and listens on 127.0.0.1 only', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())

  expect(await setting(redis.url, 'maxmemory-policy')).toBe('noeviction')
  expect(await setting(redis.url, 'save')).toBe('')
  expect(await setting(redis.url, 'appendonly')).toBe('no')
  expect(await setting(redis.url, 'bind')).toBe('127.0.0.1')
})

test('stop ends Redis and removes its temporary folder, and may be called twice', async () => {
  const redis = await startRedis()
  const folder = await setting(redis.url, 'dir')
  expect(await exists(folder)).toBe(true)

  const start = performance.now()
  await Promise.all([redis.stop(), redis.stop()])
  expect(performance.now() - start).toBeLessThan(2000)
  expect(await isPortFree(redis.port)).toBe(true)
  expect(await exists(folder)).toBe(false)
})

test('stop ends a Redis that a script blocks', async () => {
  const redis = await startRedis()
  const busy = send(redis.url, ['EVAL', 'while true do end', 0]).catch(() => undefined)
  await expect.poll(() => answersInTime(redis.url)).toBe(false)

  await redis.stop()
  await busy
  expect(await isPortFree(redis.port)).toBe(true)
})

async function answersInTime(url: string): Promise<boolean> {
  const late = new Promise<boolean>((resolve) => setTimeout(resolve, 100, false))
  const answered = send(url, ['PING']).then(
    () => true,
    () => false,
  )
  return Promise.race([answered, late])
}

test('Redis keeps its data in the given folder', async () => {
  const data = join(await temporaryFolder(), 'data')
  const first = await startRedis({ data })
  await send(first.url, ['SET', 'kept', 'yes'])
  await first.stop()
  expect(await readdir(data)).not.toEqual([])

  const second = await startRedis({ data })
  onTestFinished(() => second.stop())
  expect(await send(second.url, ['GET', 'kept'])).toEqual(new TextEncoder().encode('yes'))
})

test('195: only the owner can read the data of Redis, and only the password of this start opens it', async () => {
  const data = await temporaryFolder()
  const umask = process.umask(0o022)
  onTestFinished(() => void process.umask(umask))
  const redis = await startRedis({ data })
  onTestFinished(() => redis.stop())
  await send(redis.url, ['SET', 'kept', 'yes'])

  const entries = await readdir(data, { recursive: true })
  expect(entries.some((name) => name.endsWith('.aof'))).toBe(true)
  for (const name of entries) {
    const stats = await stat(join(data, name))
    expect([name, (stats.mode & 0o777).toString(8)]).toEqual([name, stats.isDirectory() ? '700' : '600'])
  }

  const { password, port } = new URL(redis.url)
  expect(await send(`redis://127.0.0.1:${port}`, ['PING'])).toMatchObject({
    text: expect.stringContaining('NOAUTH'),
  })
  // Arguments are public.
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'args', '-ww'])
  expect(stdout).toContain(`--port ${port}`)
  expect(stdout).not.toContain(password)
})

/** Starts Redis in another process. */
async function startElsewhere(
  options: RedisServerOptions = {},
): Promise<{ url: string; parent: ChildProcess }> {
  const module = new URL('../../src/stack/redis-server.ts', import.meta.url).href
  const program = `
    const { startRedis } = await import(${JSON.stringify(module)})
    console.log((await startRedis(${JSON.stringify(options)})).url)
    setInterval(() => {}, 1000)
  `
  const parent = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void parent.kill('SIGKILL'))
  const url = await new Promise<string>((resolve) => {
    parent.stdout.once('data', (line: Buffer) => resolve(line.toString().trim()))
  })
  return { url, parent }
}

test('a second Redis in the same folder is rejected, even while a script blocks the first', async () => {
  const data = await temporaryFolder()
  const first = await startElsewhere({ data })
  await send(first.url, ['SET', 'kept', 'yes'])
  // A Redis in a long script does not reply, but still works in its folder.
  const busy = send(first.url, ['EVAL', 'while true do end', 0]).catch(() => undefined)
  await expect.poll(() => answersInTime(first.url)).toBe(false)

  await expect(startRedis({ data })).rejects.toThrow(
    `The data folder ${await realpath(data)} is in use by another stack, process ${first.parent.pid}.`,
  )

  first.parent.kill('SIGKILL')
  await busy
})

test('Redis starts at once in the folder of a stack that was killed', async () => {
  const data = await temporaryFolder()
  const killed = await startElsewhere({ data })
  await send(killed.url, ['SET', 'kept', 'yes'])
  killed.parent.kill('SIGKILL')

  const next = await startRedis({ data })
  onTestFinished(() => next.stop())

  expect(await isPortFree(Number(new URL(killed.url).port))).toBe(true)
  expect(await send(next.url, ['GET', 'kept'])).toEqual(new TextEncoder().encode('yes'))
})

test('Redis and its temporary folder do not survive a parent that is killed', async () => {
  const { url, parent } = await startElsewhere()
  const folder = await setting(url, 'dir')

  parent.kill('SIGKILL')
  await expect.poll(() => isPortFree(Number(new URL(url).port)), { timeout: 5000 }).toBe(true)
  await expect.poll(() => exists(folder), { timeout: 5000 }).toBe(false)
})

test('the error of a failed start has the output of Redis', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())

  await expect(startRedis({ port: redis.port })).rejects.toThrow(
    /^Redis did not start\. .*Address already in use/s,
  )
})
