/** The proxy before workerd: it passes bytes on unchanged, and reports how a connection ends. */

import { once } from 'node:events'
import { Agent, createServer as createHttpServer, type RequestListener, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startFront } from '../../src/stack/front.ts'

const FIVE_MIB = Buffer.alloc(5 * 1024 * 1024, 'echomq')

/** A front before a server of the test; answers its port. */
async function frontOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const front = await startFront(0, async () => (server.address() as AddressInfo).port)
  onTestFinished(() => {
    front.close()
    server.close()
  })
  return Number(new URL(front.url).port)
}

const frontOfHttp = (listener: RequestListener) => frontOf(createHttpServer(listener))

/** A connection to the front, and the one behind it that it became. */
async function connected(): Promise<{ caller: Socket; behind: Socket }> {
  const server = createServer()
  const port = await frontOf(server)
  const caller = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  onTestFinished(() => void caller.destroy())
  const [behind] = (await once(server, 'connection')) as [Socket]
  onTestFinished(() => void behind.destroy())
  return { caller, behind }
}

test('requests of a kept-alive connection use one connection behind the proxy', async () => {
  const connections = new Set<unknown>()
  const port = await frontOfHttp(({ socket }, response) => {
    connections.add(socket)
    response.end('hello')
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())

  for (let nth = 0; nth < 3; nth++) {
    const [response] = await once(request({ port, host: '127.0.0.1', agent }).end(), 'response')
    expect((await response.toArray()).join('')).toBe('hello')
  }
  expect(connections.size).toBe(1)
})

test('5 MiB pass unchanged in both directions', async () => {
  const port = await frontOfHttp((incoming, response) => void incoming.pipe(response))

  const response = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: FIVE_MIB })

  expect(FIVE_MIB.equals(Buffer.from(await response.arrayBuffer()))).toBe(true)
})

test('a caller that does not read slows down the server', async () => {
  const { caller, behind } = await connected()
  const chunk = Buffer.alloc(1024 * 1024)
  let written = 0
  while (written < 200 && (behind.write(chunk) || (await drained(behind)))) written++
  expect(written).toBeLessThan(100)

  let read = 0
  caller.on('data', ({ length }: Buffer) => {
    read += length
  })
  behind.end()
  await once(caller, 'end')
  expect(read).toBe(behind.bytesWritten)
})

/** Whether what was written has left within half a second. */
function drained(socket: Socket): Promise<boolean> {
  const signal = AbortSignal.timeout(500)
  return once(socket, 'drain', { signal }).then(
    () => true,
    () => false,
  )
}

test.each([
  ['ends', (caller: Socket) => void caller.end()],
  ['is gone', (caller: Socket) => void caller.destroy()],
  ['resets', (caller: Socket) => void caller.resetAndDestroy()],
])('a caller that %s causes a reset of the connection to the server', async (_how, leave) => {
  const { caller, behind } = await connected()
  caller.on('error', () => {})
  behind.on('error', () => {})
  behind.resume()

  leave(caller)

  const [error] = await once(behind, 'error')
  expect(error).toMatchObject({ code: 'ECONNRESET' })
})

test('a caller that closes its half right after the request still gets the response', async () => {
  const { caller, behind } = await connected()
  behind.once('data', (request: Buffer) => {
    behind.write(`heard ${request}`)
    behind.once('end', () => behind.end('.'))
  })
  caller.end('this')
  expect((await caller.toArray()).join('')).toBe('heard this.')
})

test('an orderly end of the server arrives after the last byte, and a reset as a reset', async () => {
  const orderly = await connected()
  orderly.behind.end('the last byte')
  expect((await orderly.caller.toArray()).join('')).toBe('the last byte')

  const broken = await connected()
  broken.caller.resume()
  broken.behind.resetAndDestroy()
  const [error] = await once(broken.caller, 'error')
  expect(error).toMatchObject({ code: 'ECONNRESET' })
})

test('a missing server causes a reset, and a busy port an error', async () => {
  const { port } = await closedPort()
  for (const behind of [async () => port, () => Promise.reject(new Error('it does not start again'))]) {
    const front = await startFront(0, behind)
    onTestFinished(() => front.close())
    await expect(fetch(front.url)).rejects.toThrow()

    await expect(startFront(Number(new URL(front.url).port), behind)).rejects.toThrow('EADDRINUSE')
  }
})

test('the server behind the proxy may change its port', async () => {
  const ports = await Promise.all(
    ['one', 'two'].map((name) => frontOfHttp((_, response) => response.end(name))),
  )
  const front = await startFront(0, async () => ports.shift() ?? 0)
  onTestFinished(() => front.close())

  for (const name of ['one', 'two']) {
    const response = await fetch(front.url, { headers: { connection: 'close' } })
    expect(await response.text()).toBe(name)
  }
})

async function closedPort(): Promise<AddressInfo> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return address
}
