import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { load, openConnection } from '../../bench/connection.ts'
import { startRelay } from '../../bench/relay.ts'

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function connected(url: string) {
  const connection = await openConnection(url)
  onTestFinished(connection.close)
  return connection
}

test('one connection carries many requests, with bodies by length and in chunks', async () => {
  const sockets = new Set<unknown>()
  const url = await serve(async (request, response) => {
    sockets.add(request.socket)
    const body = Buffer.concat(await request.toArray()).toString()
    const text = `${request.method} ${request.headers.authorization} ${body} ü`
    if (request.url === '/chunks') {
      response.write(text.slice(0, 4))
      response.end(text.slice(4))
    } else {
      response.setHeader('content-length', Buffer.byteLength(text)).end(text)
    }
  })
  const { send } = await connected(url)

  expect(await send({ path: '/', token: 't', body: { a: 1 } })).toBe('POST Bearer t {"a":1} ü')
  expect(await send({ path: '/chunks', token: 't', body: 'é' })).toBe('POST Bearer t "é" ü')
  expect(await send({ path: '/' })).toBe('GET undefined  ü')
  expect(sockets.size).toBe(1)
})

test('a status from 400 on and a closed connection are errors', async () => {
  const url = await serve((request, response) => {
    if (request.url === '/close') request.socket.destroy()
    else response.writeHead(409, { 'content-length': 4 }).end('busy')
  })
  const { send } = await connected(url)

  await expect(send({ path: '/' })).rejects.toThrow('The server answered 409: busy')
  await expect(send({ path: '/close' })).rejects.toThrow('closed the connection')
})

test('load sends each request once over as many connections as it is told', async () => {
  const sockets = new Set<unknown>()
  const paths: string[] = []
  const url = await serve((request, response) => {
    sockets.add(request.socket)
    paths.push(request.url ?? '')
    response.setHeader('content-length', 0).end()
  })
  const requests = Array.from({ length: 20 }, (_, nth) => ({ path: `/${nth}` }))
  const { perSecond, p50, p99 } = await load(url, 3, requests)

  expect(paths.toSorted()).toEqual(requests.map(({ path }) => path).toSorted())
  expect(sockets.size).toBe(3)
  expect(perSecond).toBeGreaterThan(0)
  expect(p99).toBeGreaterThanOrEqual(p50)
})

test('the relay counts the bytes of requests and responses', async () => {
  const url = await serve(
    (_request, response) => void response.setHeader('content-length', 1000).end('x'.repeat(1000)),
  )
  const relay = await startRelay(url)
  onTestFinished(relay.stop)
  const { send } = await connected(relay.url)
  await send({ path: '/', body: 'y'.repeat(500) })

  expect(relay.bytes()).toBeGreaterThan(1500)
  expect(relay.bytes()).toBeLessThan(2500)
})
