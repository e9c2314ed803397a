/** The client as it is published: one small file without imports, the same on every platform. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { Miniflare } from 'miniflare'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

/** 6 KB, minified and gzipped; a KB is 1000 bytes. */
const MAX_BYTES = 6 * 1000

let source = ''

beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: [new URL('../../src/client/index.ts', import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: 'esm',
    write: false,
  })
  source = outputFiles[0]?.text ?? ''
})

test('the client is at most 6,000 bytes, minified and gzipped', () => {
  expect(source.length).toBeGreaterThan(1_000)
  expect(gzipSync(source, { level: 9 }).length).toBeLessThanOrEqual(MAX_BYTES)
})

test('the client imports nothing and uses no name of Node', () => {
  expect(source).not.toMatch(/\bimport\b|\brequire\b|\bprocess\b|\bBuffer\b/)
})

test('the client exports five names', async () => {
  const client = await import(`data:text/javascript,${encodeURIComponent(source)}`)
  expect(Object.keys(client).sort()).toEqual(['Consumer', 'EchoMQ', 'EchoMQError', 'deadLetter', 'retryIn'])
})

/** A server with the routes that the story needs. */
async function startApi(): Promise<{ url: string; stop: () => void }> {
  let waiting: object[] = []
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request))
    const answer = (status: number, value: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    if (request.url?.endsWith('/jobs')) {
      const id = 'JOB0KHTOWnGLuC'
      waiting.push({ ...body, id, queue: 'emails', token: 1, enqueuedAt: '', leaseMs: 30_000 })
      answer(201, { id, status: 'enqueued' })
    } else if (request.url?.endsWith('/claim')) {
      answer(200, { jobs: waiting })
      waiting = []
    } else {
      answer(200, { status: 'completed' })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, stop: () => server.close() }
}

/** A module that creates its client first, then enqueues a job and works it with the platform's own fetch. */
function storyFor(url: string): string {
  const exported = /([\w$]+) as EchoMQ\b/.exec(source)?.[1]
  return `${source.replace(/export\{[^}]*\};?\s*$/, '')}
    const emails = new ${exported}({ url: '${url}', token: 't' }).queue('emails')
    const story = async () => {
      const { id } = await emails.enqueue({ to: 'a' })
      const { done } = await emails.drain(async ({ payload }) => {
        if (payload.to !== 'a') throw new Error('another payload')
      })
      return JSON.stringify({ isId: /^JOB[0-9A-Za-z]{11}$/.test(id), done })
    }`
}

const TOLD = '{"isId":true,"done":1}'

describe('the bundled client', () => {
  let api: Awaited<ReturnType<typeof startApi>>
  let miniflare: Miniflare | undefined
  beforeAll(async () => {
    api = await startApi()
  })
  afterAll(async () => {
    api.stop()
    await miniflare?.dispose()
  })

  test('the client works a job in workerd when it is created at the top of a module', async () => {
    const contents = `${storyFor(api.url)}\nexport default { fetch: async () => new Response(await story()) }`
    miniflare = new Miniflare({
      cf: false,
      enableDevRegistry: false,
      telemetry: { enabled: false },
      workers: [
        {
          config: {
            name: 'story',
            compatibilityDate: '2026-01-01',
            compatibilityFlags: [],
            manifest: { mainModule: 'story.js', modules: { 'story.js': { type: 'esm', contents } } },
            env: {},
          },
        },
      ],
    })
    const response = await miniflare.dispatchFetch('http://story/')
    expect(await response.text()).toBe(TOLD)
  })

  // The project's own Node, and the Node that runs npm, which may be the oldest supported one.
  test.each([...new Set([process.execPath, process.env['npm_node_execpath'] ?? process.execPath])])(
    'the client works a job on %s, and the process ends by itself',
    async (node) => {
      const script = `${storyFor(api.url)}\nconsole.log(await story())`
      const { stdout } = await promisify(execFile)(node, ['--input-type=module', '--eval', script], {
        timeout: 10_000,
      })
      expect(stdout.trim()).toBe(TOLD)
    },
  )
})
