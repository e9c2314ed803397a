/** The fence of versions: whose database it is, asked once where the answer was yes, and anew where it was no. */
import { beforeEach, describe, expect, test } from 'vitest'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { createFence, WireVersionError } from '../../src/queue/fence.ts'
import { type RedisPort, UpstreamError } from '../../src/queue/redis.ts'
import { bareRedis } from './support/bare.ts'
import { readable } from './support/world.ts'

const redis = bareRedis()
const set = (version: string) => redis.port.send([['SET', GLOBAL_KEYS.version, version]])
const stored = async () => readable((await redis.port.send([['GET', GLOBAL_KEYS.version]]))[0])
beforeEach(() => redis.port.send([['DEL', GLOBAL_KEYS.version]]))

function counting() {
  const count = { trips: 0 }
  const port: RedisPort = {
    send(commands) {
      count.trips += 1
      return redis.port.send(commands)
    },
  }
  return { count, port }
}

const accept = ['echomq:2.', 'echomq:3.']

describe('the fence', () => {
  test('lets through where no version stands, or one that is accepted, and asks once', async () => {
    for (const version of [undefined, 'echomq:2.4.2', 'echomq:3.0.0']) {
      await redis.port.send([['DEL', GLOBAL_KEYS.version]])
      if (version !== undefined) await set(version)
      const { count, port } = counting()
      const fence = createFence(port, { accept, claim: undefined })
      for (let i = 0; i < 3; i++) await fence.pass()
      expect(count.trips).toBe(1)
      expect(await stored()).toBe(version ?? null)
    }
  })

  test('refuses any other, changes nothing, and asks again until the database is mended', async () => {
    for (const version of ['echomq:4.0.0', 'echomq:30.0', 'echomq:3', 'bullmq:3.0', ' echomq:3.0', '']) {
      await set(version)
      const { count, port } = counting()
      const fence = createFence(port, { accept, claim: undefined })
      await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
      await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
      expect(count.trips).toBe(2)
      expect(await stored()).toBe(version)
      await set('echomq:3.1.0')
      await fence.pass()
      await fence.pass()
      expect(count.trips).toBe(3)
    }
  })

  test('claims a version only when it is told to, only where none stands, and reads back what does', async () => {
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

  test('closes again when a later look finds that the version was changed', async () => {
    const fence = createFence(redis.port, { accept, claim: undefined })
    await fence.pass()
    await set('echomq:5.0.0')
    await expect(fence.check()).rejects.toBeInstanceOf(WireVersionError)
    await expect(fence.pass()).rejects.toBeInstanceOf(WireVersionError)
  })

  test('lets nobody through who could not be asked about', async () => {
    await redis.port.send([['LPUSH', GLOBAL_KEYS.version, 'x']])
    await expect(createFence(redis.port, { accept, claim: undefined }).pass()).rejects.toBeInstanceOf(
      UpstreamError,
    )
  })
})
