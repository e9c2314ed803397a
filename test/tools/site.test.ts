/** The static assets of the Worker: the folder, its files, and how the Worker reads them. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { createReference } from '../../src/reference/reference.workerd.ts'
import { SITE } from '../../src/stack/wrangler.ts'
import { BUNDLED } from '../../src/tools/licences.ts'
import { makeSite } from '../../src/tools/site.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'emq-site-'))
  await makeSite(folder)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('wrangler.toml names the folder that the build fills', async () => {
  const config = await readFile(join(PROJECT, 'wrangler.toml'), 'utf8')
  expect(config).toContain(`directory = "${relative(PROJECT, SITE)}"`)
})

test('the assets hold the reference, the viewer and the licences of the viewer', async () => {
  expect((await readdir(join(folder, 'docs'))).sort()).toEqual([
    'LICENSE',
    'NOTICE',
    'reference.json',
    'swagger-ui-bundle.js',
    'swagger-ui-bundle.js.LICENSE.txt',
    'swagger-ui.css',
    'viewer.js',
  ])
})

test('197: Cloudflare adds security headers to every asset', async () => {
  expect(await readFile(join(folder, '_headers'), 'utf8')).toBe(
    '/*\n  X-Content-Type-Options: nosniff\n  Referrer-Policy: no-referrer\n',
  )
})

test('199: the assets hold the licence notices of the packages in the Worker and the command line', async () => {
  const notices = await readFile(join(folder, 'third-party-licences.txt'), 'utf8')
  for (const name of ['hono', 'zod', 'zod-openapi', '@upstash/redis', 'uncrypto', 'croner', ...BUNDLED])
    expect(notices).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\((MIT|Apache-2\\.0|ISC)\\)$`, 'm'))
  expect(notices).toContain('Copyright (c) 2021 - present, Yusuke Wada and Hono contributors')
})

test('the Worker serves the same document and page as every other host', async () => {
  const { document, page } = JSON.parse(await readFile(join(folder, 'docs', 'reference.json'), 'utf8'))
  const app = createApp({ env: {} })
  expect(document).toBe(await (await app.request('/openapi.json')).text())
  expect(page.html).toBe(await (await app.request('/docs')).text())
})

test('the Worker reads the reference once in the life of an isolate, and again after a failure', async () => {
  const page = { html: '<p>', headers: { 'Content-Type': 'text/html' } }
  const answers = [new Response('', { status: 404 }), Response.json({ document: '{}', page })]
  const asked: string[] = []
  const ASSETS = {
    async fetch(url: string) {
      asked.push(new URL(url).pathname)
      return answers.shift() as Response
    },
  }
  const reference = createReference([])
  await expect(reference.document({ ASSETS })).rejects.toMatchObject({ problem: { code: 'not_found' } })
  expect(await reference.document({ ASSETS })).toBe('{}')
  expect(await (await reference.page({ ASSETS })).text()).toBe('<p>')
  expect(asked).toEqual(['/docs/reference.json', '/docs/reference.json'])
})

test.each([undefined, {}, { ASSETS: 'a text' }])(
  'the Worker without assets says how to get them: bindings %j',
  async (bindings) => {
    await expect(createReference([]).page(bindings)).rejects.toMatchObject({
      problem: { code: 'not_found', detail: expect.stringContaining('wrangler.toml: [assets]') },
    })
  },
)
