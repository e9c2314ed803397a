/** Fault 36: bodies of upstream answers that nobody reads hold connections open, and a Worker has six. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Log, LogLevel, Miniflare } from 'miniflare'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildWorker } from '../../src/dev/wrangler.ts'
import { GLOBAL_KEYS, keyspace } from '../../src/protocol/keys.ts'
import { secretsOf, workerOf } from '../service/support/workers.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const START_TIMEOUT_MS = 120_000
const CONNECTIONS_OF_A_WORKER = 6

const shared = sharedRedis()
const raw = rawRedis(shared)

/** What miniflare gives is typed by the types of Workers, which this project does without. */
type ScheduledWorker = { scheduled(event: { cron: string }): Promise<{ outcome: string }> }

/** Stands in front of the bridge: of two answers one is an error with a long body. Sees which bodies are read. */
const upstream = { requests: 0, errors: 0, open: 0, mostOpen: 0, cutOff: 0, failing: true }
let proxy: Server
let miniflare: Miniflare
const logged: string[] = []

function startProxy(): Server {
  return createServer(async (request, response) => {
    upstream.requests += 1
    upstream.open += 1
    upstream.mostOpen = Math.max(upstream.mostOpen, upstream.open)
    response.once('close', () => {
      upstream.open -= 1
      if (!response.writableFinished) upstream.cutOff += 1
    })
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (upstream.failing && upstream.requests % 2 === 0) {
      upstream.errors += 1
      // Longer than what buffers on the way hold: it ends only when somebody reads it.
      response.writeHead(upstream.errors % 3 === 0 ? 200 : 500).end('<html>'.repeat(400_000))
      return
    }
    const answer = await fetch(`${shared.bridge.url}${request.url}`, {
      method: 'POST',
      headers: { Authorization: String(request.headers.authorization), 'Upstash-Encoding': 'base64' },
      body: Buffer.concat(chunks),
    })
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
  })
}

beforeAll(async () => {
  proxy = startProxy()
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  miniflare = new Miniflare({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    log: new Log(LogLevel.NONE),
    handleStructuredLogs: ({ message }: { message: string }) => void logged.push(message),
    workers: [workerOf('echomq-edge', await buildWorker(), secretsOf({ url, token: REST_TOKEN }))],
  })
  await miniflare.ready
}, START_TIMEOUT_MS)
afterAll(async () => {
  await miniflare?.dispose()
  proxy?.closeAllConnections()
  proxy?.close()
})

test('36: maintenance of 20 queues with half of the answers errors reads every body, and stalls nowhere', async () => {
  const queues = Array.from({ length: 20 }, freshQueue)
  for (const [nth, queue] of queues.entries()) {
    const id = `JOB000000000${String(nth).padStart(2, '0')}`
    const keys = keyspace(queue)
    await raw.run('HSET', keys.job(id), 'state', 'scheduled', 'attempts', '0', 'payload', '1')
    await raw.run('ZADD', keys.schedule, 1, id)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 1, queue)
  }
  const worker = (await miniflare.getWorker()) as unknown as ScheduledWorker
  const pending = async () => {
    const sizes = await Promise.all(queues.map((queue) => raw.run('ZCARD', keyspace(queue).pending)))
    return sizes.filter((size) => size === 1).length
  }

  let runs = 0
  for (; (await pending()) < queues.length && runs < 20; runs++) await worker.scheduled({ cron: '* * * * *' })
  expect(await pending()).toBe(20)
  expect(upstream.errors).toBeGreaterThan(2)
  expect({ open: upstream.open, cutOff: upstream.cutOff }).toEqual({ open: 0, cutOff: 0 })
  expect(upstream.mostOpen).toBeLessThanOrEqual(CONNECTIONS_OF_A_WORKER)
  expect(logged.join('\n')).not.toMatch(/stalled|deadlock|never generate a response|unread/i)

  upstream.failing = false
  expect((await worker.scheduled({ cron: '* * * * *' })).outcome).toBe('ok')
  for (const queue of queues) expect(await census(raw.port, queue)).toEqual([])
})
