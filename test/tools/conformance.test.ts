import { expect, test } from 'vitest'
import type { RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { runConformance } from '../../src/tools/conformance.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()

const restPort = () => createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })

async function lines(port: RedisPort, other?: RedisPort): Promise<string[]> {
  const printed: string[] = []
  const passed = await runConformance({ port, ...(other && { other }), print: (line) => printed.push(line) })
  expect(printed.filter((line) => line.includes('FAILED'))).toEqual([])
  expect(passed).toBe(true)
  return printed
}

test('all gates pass over REST and print one line each and PASS 6/6', async () => {
  const printed = await lines(restPort())
  expect(printed[1]).toMatch(/^L2 happy ok -- claim hands out the oldest job/)
  expect(printed.filter((line) => /^L\d \w+ ok -- /.test(line))).toHaveLength(6)
  expect(printed.at(-1)).toBe('PASS 6/6')
})

test('all gates pass over RESP, and with one client on each transport', async () => {
  const resp = await createRespPort(shared.redis.url)
  try {
    expect((await lines(resp)).at(-1)).toBe('PASS 6/6')
    expect((await lines(restPort(), resp)).at(-1)).toBe('PASS 6/6')
  } finally {
    resp.close()
  }
})

test('all gates pass on a Redis whose script cache is flushed before each call', async () => {
  shared.bridge.flushScripts(true)
  try {
    expect((await lines(restPort())).at(-1)).toBe('PASS 6/6')
  } finally {
    shared.bridge.flushScripts(false)
  }
})

test('all gates fail when Redis cannot be reached', async () => {
  const printed: string[] = []
  const port = createUpstashPort({ url: 'http://127.0.0.1:9', token: 'none', timeoutMs: 500 })
  expect(await runConformance({ port, print: (line) => printed.push(line) })).toBe(false)
  expect(printed.at(-1)).toBe('FAIL 0/6')
})
