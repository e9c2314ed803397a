/** The version check: an isolate remembers an acceptance, and reads the version again after a rejection. */
import { beforeEach, expect, test } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { createFence, WireVersionError } from '../../src/queue/fence.ts'
import { UpstreamError } from '../../src/queue/redis.ts'
import { bareRedis, recording } from './support/bare.ts'
import { type Readable, readable } from './support/world.ts'

const redis = bareRedis()
beforeEach(() => redis.port.send([['DEL', GLOBAL_KEYS.version]]))

const accept = ['echomq:2.', 'echomq:3.']

test('the version check accepts an absent or accepted version, and reads it once', async () => {
  for (const version of [undefined, 'echomq:2.4.2', 'echomq:3.0.0']) {
    await redis.port.send([['DEL', GLOBAL_KEYS.version]])
    if (version !== undefined) await set(version)
    const { port, sent } = recording(redis.port)
    const fence = createFence(port, { accept, claim: undefined })
    for (let i = 0; i < 3; i++) await fence.pass()
    expect(sent).toHaveLength(1)
    expect(await stored()).toBe(version ?? null)
  }
})

test('the version check rejects any other version and reads it again until the database has an accepted one', async () => {
  for (const version of ['echomq:4.0.0', 'echomq:30.0', 'echomq:3', 'bullmq:3.0', ' echomq:3.0', '']) {
    await set(version)
    const { port, sent } = recording(redis.port)
    const fence = createFence(port, { accept, claim: undefined })
    await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
    await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
    expect(sent).toHaveLength(2)
    expect(await stored()).toBe(version)
    await set('echomq:3.1.0')
    await fence.pass()
    await fence.pass()
    expect(sent).toHaveLength(3)
  }
})

test('the version check claims a version only on a database that has none, and judges the one that is stored', async () => {
  const claim = 'echomq:3.0.0'
  await createFence(redis.port, { accept, claim }).pass()
  expect(await stored()).toBe(claim)

  await set('echomq:2.9.9')
  await createFence(redis.port, { accept, claim }).pass()
  expect(await stored()).toBe('echomq:2.9.9')

  await set('echomq:4.0.0')
  await expect(createFence(redis.port, { accept, claim }).pass()).rejects.toBeInstanceOf(WireVersionError)
  expect(await stored()).toBe('echomq:4.0.0')
})

test('the version check forgets its acceptance when a later read finds another version', async () => {
  const fence = createFence(redis.port, { accept, claim: undefined })
  await fence.pass()
  await set('echomq:5.0.0')
  await expect(fence.check()).rejects.toBeInstanceOf(WireVersionError)
  await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
})

test('the version check throws when the key has the wrong type', async () => {
  await redis.port.send([['LPUSH', GLOBAL_KEYS.version, 'x']])
  await expect(createFence(redis.port, { accept, claim: undefined }).pass()).rejects.toBeInstanceOf(
    UpstreamError,
  )
})

async function set(version: string): Promise<void> {
  await redis.port.send([['SET', GLOBAL_KEYS.version, version]])
}

async function stored(): Promise<Readable> {
  return readable((await redis.port.send([['GET', GLOBAL_KEYS.version]]))[0])
}
