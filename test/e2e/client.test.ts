/** The client in a real browser, on a page of another origin, with the built Worker in the real workerd. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { build } from 'esbuild'
import { type Browser, chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startStack, type TestStack } from '../../src/stack/stack.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** The script of the page. It leaves its result in `window.outcome`. */
const STORY = `
import { EchoMQ, EchoMQError } from './client.js'
window.outcome = (async () => {
  const { url, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)))
  const emails = new EchoMQ({ url, token }).queue('from-a-browser')
  const { status } = await emails.enqueue({ to: 'ada@example.com' })
  const [job] = await emails.claim({ leaseMs: 30_000 })
  const completed = await emails.complete(job)
  const again = await emails.complete(job)
  await emails.enqueue({ to: 'grace@example.com' })
  const consumed = await new Promise((resolve) => {
    const consumer = emails.consume(async ({ payload }) => payload.to)
    consumer.on('completed', async ({ job }) => {
      await consumer.stop()
      resolve(job.payload.to)
    })
  })
  const refused = await emails.enqueue(1, { id: 'nonsense' }).catch((error) => [error instanceof EchoMQError, error.code])
  return { status, payload: job.payload, token: job.token, completed, again, consumed, refused }
})().catch((error) => String(error))
`

let server: Server
let origin: string
let stack: TestStack
let browser: Browser
beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: [new URL('../../src/client/index.ts', import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: 'esm',
    write: false,
  })
  const files: Record<string, [type: string, text: string]> = {
    '/': ['text/html', '<!doctype html><script type="module" src="story.js"></script>'],
    '/story.js': ['text/javascript', STORY],
    '/client.js': ['text/javascript', outputFiles[0]?.text ?? ''],
  }
  server = createServer((request, response) => {
    const [type, text] = files[request.url ?? ''] ?? ['text/plain', '']
    response.writeHead(200, { 'Content-Type': type }).end(text)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const env = { EMQ_ALLOWED_ORIGINS: origin }
  ;[stack, browser] = await Promise.all([
    startStack({ port: 0, restPort: 0, quiet: true, cron: false, testMode: true, env }),
    chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] }),
  ])
})
afterAll(async () => {
  await browser?.close()
  await stack?.stop()
  server?.close()
})

test('the client enqueues, claims, completes and consumes in a browser', { timeout: 60_000 }, async () => {
  const page = await browser.newPage()
  await page.goto(`${origin}/#${new URLSearchParams({ url: stack.url, token: stack.tokens.operator })}`)
  await page.waitForFunction('window.outcome')
  expect(await page.evaluate('window.outcome')).toEqual({
    status: 'enqueued',
    payload: { to: 'ada@example.com' },
    token: 1,
    completed: 'completed',
    again: 'gone',
    consumed: 'grace@example.com',
    refused: [true, 'invalid'],
  })
})
