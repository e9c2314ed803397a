/** The app served by Node itself, over real sockets. */
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()

let server: Server
let port: number
beforeAll(async () => {
  const app = createApp({ env: apiOn(shared, { EMQ_MAX_BODY_BYTES: '1000' }).env })
  await new Promise<void>((resolve) => {
    server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve()) as Server
  })
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const headers = { Authorization: `Bearer ${TOKENS.operator}`, 'Content-Type': 'application/json' }
const call = (method: string, path: string, body?: BodyInit) =>
  fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body, duplex: 'half' }),
  })

test('the app on Node enqueues and returns a job', async () => {
  const queue = freshQueue()
  expect((await call('POST', `/v1/queues/${queue}/jobs`, '{"payload":1.0}')).status).toBe(201)
  const claimed = await call('POST', `/v1/queues/${queue}/claim`, '{"limit":1}')
  expect(await claimed.text()).toContain('"payload":1.0}')
  const head = await fetch(`http://127.0.0.1:${port}/v1/queues/${queue}`, { method: 'HEAD', headers })
  expect([head.status, await head.text()]).toEqual([200, ''])
})

test('the app on Node rejects a body that is too large, with and without a length', async () => {
  const chunks = (count: number): ReadableStream =>
    new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < count; sent++) controller.enqueue(new Uint8Array(100).fill(0x20))
        controller.close()
      },
    })
  expect((await call('POST', '/v1/queues/q/pause', ' '.repeat(1001))).status).toBe(413)
  expect((await call('POST', '/v1/queues/q/pause', chunks(11))).status).toBe(413)
  expect((await call('POST', '/v1/queues/q/pause', chunks(10))).status).toBe(400)
})

test('the app on Node ends a waiting claim when its caller hangs up', async () => {
  const queue = freshQueue()
  await shared.bridge.reset()
  const asked = async () => (await shared.bridge.counts()).requests
  const socket = connect(port, '127.0.0.1')
  const body = '{"limit":1,"waitMs":25000}'
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(
    `POST /v1/queues/${queue}/claim HTTP/1.1\r\nHost: x\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body}`,
  )
  await until(async () => (await asked()) > 2)
  socket.destroy()
  // While it waited it asked at least once a second.
  let last = await asked()
  let since = Date.now()
  await until(async () => {
    const now = await asked()
    if (now !== last) since = Date.now()
    last = now
    return Date.now() - since > 1_300
  }, 10_000)
  const { id } = (await (await call('POST', `/v1/queues/${queue}/jobs`, '{"payload":1}')).json()) as {
    id: string
  }
  expect(await (await call('GET', `/v1/queues/${queue}/jobs/${id}`)).json()).toMatchObject({
    state: 'pending',
  })
})
