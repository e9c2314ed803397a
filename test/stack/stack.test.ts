/**
 * The local stack in one process: the real Worker on a real Redis, its environment, its cron, and its end.
 */

import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createBridge } from '../../src/stack/bridge/bridge.ts'
import { isPortFree } from '../../src/stack/ports.ts'
import { startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { type Stack, type StackOptions, startStack, type TestStack } from '../../src/stack/stack.ts'
import { playStory } from '../../src/tools/demo.ts'

const ANY_PORT = { port: 0, restPort: 0 }

// The first start in a process builds the Worker.
const START_TIMEOUT_MS = 60_000

function post(stack: Stack, path: string, token: string, body: unknown): Promise<Response> {
  return fetch(`${stack.url}/v1/queues/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

function portsOf({ url, restUrl, redisUrl }: Stack): number[] {
  return [url, restUrl, redisUrl ?? restUrl].map((each) => Number(new URL(each).port))
}

/** `fetch` cannot set `Host`. */
async function statusOf(url: URL, headers: OutgoingHttpHeaders): Promise<number | undefined> {
  const [response] = (await once(request(url, { headers }).end(), 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

async function occupy(port = 0): Promise<{ server: Server; port: number }> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const address = server.address()
  onTestFinished(() => void server.close())
  return { server, port: typeof address === 'object' && address !== null ? address.port : 0 }
}

describe('a stack', () => {
  let stack: TestStack
  beforeAll(async () => {
    const env = { EMQ_MAX_BODY_BYTES: '1000', UPSTASH_REDIS_REST_URL: 'https://elsewhere.example.com' }
    stack = await startStack({ ...ANY_PORT, testMode: true, cron: false, quiet: true, env })
  }, START_TIMEOUT_MS)
  afterAll(() => stack.stop())

  test('a stack serves the Worker, with a token for each role', async () => {
    const { producer, consumer, observer, operator } = stack.tokens

    expect((await fetch(`${stack.url}/readyz`)).status).toBe(200)
    expect((await post(stack, 'roles/jobs', producer, { payload: 1 })).status).toBe(201)
    expect((await post(stack, 'roles/claim', producer, { limit: 1 })).status).toBe(403)
    expect((await post(stack, 'roles/claim', consumer, { limit: 1 })).status).toBe(200)
    expect((await post(stack, 'roles/pause', consumer, {})).status).toBe(403)
    expect((await post(stack, 'roles/pause', operator, {})).status).toBe(200)
    const seen = await fetch(`${stack.url}/v1/queues/roles/jobs?payload=true`, {
      headers: { authorization: `Bearer ${observer}` },
    })
    expect(seen.status).toBe(200)
  })

  test('194: API, bridge and test controls answer a foreign Host with 421', async () => {
    const { url, restUrl, restToken } = stack
    const get = (base: string, path: string, host: string) =>
      statusOf(new URL(path, base), { host, authorization: `Bearer ${restToken}` })
    const places = [
      [url, '/healthz', 200],
      [url, '/v1/queues', 401],
      [restUrl, '/ping', 200],
      [restUrl, '/__test/nothing', 404],
    ] as const
    for (const [base, path, status] of places) {
      for (const host of ['rebind.example', 'rebind.example:8787', '127.0.0.1.rebind.example', 'localhost.'])
        expect([path, host, await get(base, path, host)]).toEqual([path, host, 421])
      for (const host of ['127.0.0.1:8787', 'localhost', 'LOCALHOST:1', '[::1]:8787'])
        expect([path, host, await get(base, path, host)]).toEqual([path, host, status])
    }
  })

  test('193: each start has its own REST token', async () => {
    expect(stack.restToken).toMatch(/^[0-9a-f]{48}$/)
    const other = await startStack({ ...ANY_PORT, redisUrl: stack.redisUrl, cron: false, quiet: true })
    onTestFinished(() => other.stop())
    expect(other.restToken).not.toBe(stack.restToken)
  })

  test('only variables EMQ_* reach the Worker', async () => {
    const { producer } = stack.tokens

    expect((await post(stack, 'variables/jobs', producer, { payload: 'short' })).status).toBe(201)
    expect((await post(stack, 'variables/jobs', producer, { payload: 'x'.repeat(1000) })).status).toBe(413)
  })

  test('runCron runs the scheduled handler', async () => {
    const port = await createRespPort(stack.redisUrl)
    onTestFinished(() => port.close())
    await port.send([['DEL', '{emq}:maintenance']])

    await stack.runCron()

    expect(await port.send([['EXISTS', '{emq}:maintenance']])).toEqual([1])
  })

  test('runCron rejects when the scheduled handler fails', async () => {
    stack.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }, { times: Number.POSITIVE_INFINITY })
    onTestFinished(() => stack.bridge.reset())

    await expect(stack.runCron()).rejects.toThrow('The scheduled handler ended with: exception.')
  })

  test('the story of the demo runs on a stack', async () => {
    const lines: string[] = []
    await playStory(stack, (line) => lines.push(line))

    const verbs = lines.flatMap((line) => /^ {2}(\w+)/.exec(line)?.[1] ?? [])
    expect(verbs).toEqual([
      ...['enqueue', 'claim', 'retry', 'claim', 'complete'],
      ...['enqueue', 'claim', 'crash', 'claim', 'reap', 'late', 'complete'],
      ...['enqueue', 'claim', 'fail', 'redrive', 'claim', 'complete', 'stats'],
    ])
  })

  test('a stack rejects a requested port that is busy', async () => {
    const { port } = await occupy()

    await expect(startStack({ ...ANY_PORT, port })).rejects.toThrow(
      `Port ${port} of 127.0.0.1 is busy. Stop the program that uses it, or choose another port.`,
    )
    await expect(startStack({ ...ANY_PORT, restPort: port })).rejects.toThrow(
      `Port ${port} of 127.0.0.1 is busy.`,
    )
  })

  test('a stack can use an existing database', async () => {
    const { restUrl, restToken } = stack
    const second = await startStack({ port: 0, restUrl, restToken, cron: false, quiet: true })
    onTestFinished(() => second.stop())

    expect([second.redisUrl, second.bridge, second.restUrl]).toEqual([null, null, restUrl])
    expect((await post(second, 'shared/jobs', second.tokens.producer, { payload: 'x' })).status).toBe(201)
    const claimed = await post(stack, 'shared/claim', stack.tokens.consumer, { limit: 1 })
    expect(await claimed.json()).toMatchObject({ jobs: [{ payload: 'x' }] })

    expect(second.warnings).toEqual([])
    await second.stop()
    expect((await fetch(`${stack.url}/readyz`)).status).toBe(200)
  })

  test('a stack rejects a database that does not answer or rejects the token', async () => {
    const { restUrl } = stack
    // Variables of the Worker, even one under which no database is quick enough, refuse nothing.
    const env = { EMQ_REDIS_TIMEOUT_MS: '1' }
    const start = (options: StackOptions) =>
      startStack({ port: 0, cron: false, quiet: true, env, ...options })
    stack.bridge.delay(200, { match: 'GET' })
    const slow = await start({ restUrl, restToken: stack.restToken })
    onTestFinished(() => slow.stop())
    expect(slow.warnings).toEqual(['The Worker gets no answer from Redis in time.'])

    await expect(start({ restUrl, restToken: 'wrong' })).rejects.toThrow(
      `The database at ${restUrl} rejects the REST token.`,
    )
    await expect(start({ restUrl: 'http://127.0.0.1:9', restToken: 'x' })).rejects.toThrow(
      'No Upstash database answers at http://127.0.0.1:9.',
    )
  })
})

test('an empty EMQ_TOKENS replaces the development tokens: the Worker rejects every request', async () => {
  const stack = await startStack({ ...ANY_PORT, cron: false, quiet: true, env: { EMQ_TOKENS: '' } })
  onTestFinished(() => stack.stop())

  const refused = await post(stack, 'emails/jobs', stack.tokens.operator, { payload: 1 })
  expect(refused.status).toBe(503)
  expect((await fetch(`${stack.url}/readyz`)).status).toBe(503)
  expect((await fetch(`${stack.url}/healthz`)).status).toBe(200)
  expect(stack.warnings).toEqual(['The Worker rejects every request: EMQ_TOKENS is missing.'])
})

test('a stack warns of an unaccepted wire version and of an evicting Redis', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const port = await createRespPort(redis.url)
  onTestFinished(() => port.close())
  await port.send([
    ['SET', '{emq}:version', 'echomq:9.0.0'],
    ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru'],
  ])
  const stack = await startStack({ ...ANY_PORT, redisUrl: redis.url, cron: false, quiet: true })
  onTestFinished(() => stack.stop())

  expect(stack.warnings).toEqual([
    expect.stringContaining('the database uses a wire version'),
    expect.stringContaining('This Redis may delete jobs when memory is short'),
  ])
  await stack.stop()
  expect(await stack.ended).toBe(undefined)
})

test('a stack runs the scheduled handler at the start and leaves a given Redis running', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const stack = await startStack({ ...ANY_PORT, redisUrl: redis.url, quiet: true })
  onTestFinished(() => stack.stop())
  const port = await createRespPort(redis.url)
  onTestFinished(() => port.close())

  expect(stack.redisUrl).toBe(redis.url)
  await expect.poll(() => port.send([['EXISTS', '{emq}:maintenance']]), { timeout: 5000 }).toEqual([1])
  await stack.stop()
  expect(await port.send([['PING']])).toEqual([new TextEncoder().encode('PONG')])
})

test('a stack uses free ports when the defaults are busy, and frees all ports at the end', async () => {
  for (const port of [8787, 8079]) {
    // Busy may be by us or by anybody.
    if (await isPortFree(port)) await occupy(port)
  }
  const stack = await startStack({ cron: false, quiet: true })
  const ports = portsOf(stack)
  expect(ports).not.toContain(8787)
  expect(ports).not.toContain(8079)

  const start = performance.now()
  await Promise.all([stack.stop(), stack.stop()])
  await stack.stop()
  expect(performance.now() - start).toBeLessThan(5000)
  expect(await Promise.all(ports.map(isPortFree))).toEqual([true, true, true])
})

test('a failed start leaves nothing running', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const bridge = await createBridge({ redisUrl: redis.url, token: 'x' })
  const { port: restPort } = bridge
  await bridge.stop()

  const wranglerConfig = '/nonexistent/wrangler.toml'
  const failing = startStack({ port: 0, restPort, redisUrl: redis.url, cron: false, wranglerConfig })

  await expect(failing).rejects.toThrow()
  expect(await isPortFree(restPort)).toBe(true)
})

test.each([
  [{ restUrl: 'https://x.upstash.io' }, 'A REST URL needs its token.'],
  [{ restUrl: 'https://x.upstash.io', restToken: 'x', redisUrl: 'redis://x' }, 'not both'],
  [{ restUrl: 'https://x.upstash.io', restToken: 'x', restPort: 1 }, 'A REST URL replaces the bridge'],
  [
    { restUrl: 'https://a:SECRET@x.upstash.io', restToken: 'x' },
    'The REST URL must not contain credentials.',
  ],
  [{ restToken: 'two words' }, 'The REST token must be printable ASCII without spaces.'],
  [{ redisUrl: 'redis://127.0.0.1:1', data: 'x' }, 'for the embedded Redis only'],
  [{ data: '/proc/nope' }, 'The data folder /proc/nope cannot be made.'],
])('a stack rejects contradicting or invalid options: %o', async (options, message) => {
  await expect(startStack(options)).rejects.toThrow(message)
})

test('a stack rejects a Redis URL where no Redis answers', async () => {
  await expect(startStack({ ...ANY_PORT, redisUrl: 'redis://127.0.0.1:1' })).rejects.toThrow(
    'Redis cannot be reached',
  )
})
