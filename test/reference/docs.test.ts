/** The page /docs: Swagger UI under a strict policy, from disk, from static assets, or a problem that says what is missing. */
import { readFile } from 'node:fs/promises'
import { Hono } from 'hono'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createApp } from '../../src/app.ts'
import { VIEWER_FILES } from '../../src/reference/reference.ts'

const get = (path: string, method = 'GET') => createApp({ env: {} }).request(path, { method })

/** Takes the disk away, as on the edge. */
function removeDisk(): void {
  const spy = vi.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined as never)
  onTestFinished(() => spy.mockRestore())
}

test('/docs returns the page to everybody, without any configuration', async () => {
  const response = await get('/docs')
  expect(response.status).toBe(200)
  expect(await response.text()).toMatch(/^<!doctype html>\n<html lang="en">/)
})

test('/docs answers HEAD without a body and rejects POST', async () => {
  const head = await get('/docs', 'HEAD')
  expect([head.status, await head.text()]).toEqual([200, ''])
  const post = await get('/docs', 'POST')
  expect([post.status, post.headers.get('Allow')]).toEqual([405, 'GET, HEAD'])
})

test('/docs has the headers of every response and those of a page', async () => {
  const { headers } = await get('/docs')
  expect(headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
  expect(Object.fromEntries(headers)).toEqual({
    'cache-control': 'no-store',
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'content-type': 'text/html; charset=utf-8',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.any(String),
  })
})

test('the page has no inline script or style and links only to files that exist', async () => {
  const html = await (await get('/docs')).text()
  expect(html).not.toMatch(/<style| style=| on\w+=|javascript:|<script>/)
  const links = Array.from(html.matchAll(/ (?:src|href)="(docs\/[^"]+)"/g), ([, link]) => link)
  expect(links).toEqual(['docs/swagger-ui.css', 'docs/swagger-ui-bundle.js', 'docs/viewer.js'])
  for (const link of links) expect((await get(`/${link}`)).status).toBe(200)
})

test.each([...VIEWER_FILES])('/docs/%s returns the file as %s', async (name, type) => {
  const source =
    name === 'viewer.js'
      ? new URL('../../src/reference/assets/docs/viewer.js', import.meta.url)
      : new URL(`../../node_modules/swagger-ui-dist/${name}`, import.meta.url)
  const response = await get(`/docs/${name}`)
  expect([response.status, response.headers.get('Content-Type')]).toEqual([200, type])
  expect((await readFile(source)).equals(Buffer.from(await response.arrayBuffer()))).toBe(true)
})

test.each(['nothing.js', 'constructor', 'package.json', '..%2Fpackage.json', 'swagger-ui.js'])(
  '/docs/%s is not found',
  async (name) => {
    const response = await get(`/docs/${name}`)
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ code: 'not_found', detail: 'There is no such route.' })
  },
)

test('the page and its files follow the app to another path', async () => {
  const outer = new Hono().route('/queues', createApp({ env: {} }))
  for (const path of ['docs', 'docs/viewer.js', 'openapi.json'])
    expect((await outer.request(`/queues/${path}`)).status).toBe(200)
})

test('without disk and assets, /docs names the lines of wrangler.toml and /openapi.json is served', async () => {
  removeDisk()
  const page = await get('/docs')
  expect(page.status).toBe(404)
  expect(await page.json()).toMatchObject({
    code: 'not_found',
    detail: expect.stringContaining(
      '[assets] directory = "node_modules/echomq-edge/dist/assets" binding = "ASSETS"',
    ),
  })
  const document = await get('/openapi.json')
  expect(document.status).toBe(200)
  expect(await document.json()).toMatchObject({ openapi: '3.1.1' })
})

test('without disk, the page and its files come from the binding ASSETS', async () => {
  removeDisk()
  const asked: string[] = []
  const ASSETS = {
    async fetch(url: string) {
      asked.push(new URL(url).pathname)
      return new Response('an asset', { headers: { 'Content-Type': 'text/javascript' } })
    },
  }
  const app = createApp()
  expect((await app.request('/docs', {}, { ASSETS })).status).toBe(200)
  expect(await (await app.request('/docs/swagger-ui.css', {}, { ASSETS })).text()).toBe('an asset')
  expect(asked).toEqual(['/docs/viewer.js', '/docs/swagger-ui.css'])
})

test.each([
  ['404', () => new Response('', { status: 404 })],
  ['its fallback page', () => new Response('<p>', { headers: { 'Content-Type': 'text/html' } })],
])('/docs is not found where ASSETS answers %s', async (_what, answer) => {
  removeDisk()
  const response = await createApp().request('/docs', {}, { ASSETS: { fetch: async () => answer() } })
  expect(response.status).toBe(404)
})
