/**
 * Redis goes away and comes back: the bridge says so at once, and needs no restart.
 */

import { expect, onTestFinished, test } from 'vitest'
import { UpstreamError } from '../../../src/queue/redis.ts'
import { createBridge } from '../../../src/stack/bridge/bridge.ts'
import { freePort } from '../../../src/stack/ports.ts'
import { startRedis } from '../../../src/stack/redis-server.ts'
import { createRespPort } from '../../../src/stack/resp-port.ts'

const token = 'token'

async function ping(url: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}/ping`, { headers: { authorization: `Bearer ${token}` } })
  return { status: response.status, body: await response.json() }
}

test('answers 503 while Redis is away, and works again when it is back', async () => {
  const first = await startRedis()
  onTestFinished(() => first.stop())
  const bridge = await createBridge({ redisUrl: first.url, token, testMode: true })
  onTestFinished(() => bridge.stop())
  const port = await createRespPort(first.url)
  onTestFinished(() => port.close())

  await first.stop()
  const start = performance.now()
  expect(await ping(bridge.url)).toEqual({ status: 503, body: { error: 'ERR Redis is not reachable' } })
  await expect(port.send([['PING']])).rejects.toThrow(UpstreamError)
  expect(performance.now() - start).toBeLessThan(1000)

  const second = await startRedis({ port: first.port, password: new URL(first.url).password })
  onTestFinished(() => second.stop())
  await expect.poll(() => ping(bridge.url)).toEqual({ status: 200, body: { result: 'PONG' } })
  await expect.poll(() => port.send([['ECHO', 'x']])).toEqual([new TextEncoder().encode('x')])

  await bridge.reset()
  await ping(bridge.url)
  expect(await bridge.counts()).toEqual({ requests: 1, total: 1, commands: { ping: 1 } })
})

test('does not start without Redis', async () => {
  const redisUrl = `redis://127.0.0.1:${await freePort()}`

  await expect(createBridge({ redisUrl, token })).rejects.toThrow('Redis cannot be reached.')
})

test('does not start on a port that is taken', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const options = { redisUrl: redis.url, token, testMode: true }
  const bridge = await createBridge(options)
  onTestFinished(() => bridge.stop())

  await expect(createBridge({ ...options, port: bridge.port })).rejects.toThrow('EADDRINUSE')
})

test('keeps connections open, and closes them when it stops', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const bridge = await createBridge({ redisUrl: redis.url, token })
  await ping(bridge.url)

  const start = performance.now()
  await bridge.stop()
  await bridge.stop()
  expect(performance.now() - start).toBeLessThan(1000)
  await expect(ping(bridge.url)).rejects.toThrow()
})
