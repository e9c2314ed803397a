/** The static assets of the Worker: where wrangler looks for them, and what they hold. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { createReference } from '../../src/reference/reference.workerd.ts'
import { SITE } from '../../src/stack/wrangler.ts'
import { makeSite } from '../../src/tools/site.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'emq-site-'))
  await makeSite(folder)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('wrangler.toml names the same folder', async () => {
  const config = await readFile(join(PROJECT, 'wrangler.toml'), 'utf8')
  expect(config).toContain(`directory = "${relative(PROJECT, SITE)}"`)
})

test('holds the reference that a deployment without assets makes itself, and the viewer beside it', async () => {
  expect((await readdir(join(folder, 'docs'))).sort()).toEqual([
    'reference.json',
    'swagger-ui-bundle.js',
    'swagger-ui.css',
    'viewer.js',
  ])
  const { document, page } = JSON.parse(await readFile(join(folder, 'docs', 'reference.json'), 'utf8'))
  const app = createApp({ env: {} })
  expect(document).toBe(await (await app.request('/openapi.json')).text())
  const made = await (await app.request('/docs')).text()
  const withoutViewer = page.html.replace(/<(link|script)[^>]* (src|href)="docs\/.*\n/g, '')
  expect(withoutViewer.replace(/\n+/g, '\n')).toBe(made.replace(/\n+/g, '\n'))
})

test('is asked once for the life of an isolate, and again when it did not answer', async () => {
  const answers = [new Response('', { status: 404 }), Response.json({ document: '{}', page: {} })]
  const asked: string[] = []
  const ASSETS = {
    async fetch(url: string) {
      asked.push(new URL(url).pathname)
      return answers.shift() as Response
    },
  }
  const reference = createReference([])
  await expect(reference({ ASSETS })).rejects.toMatchObject({ problem: { code: 'not_found' } })
  expect((await reference({ ASSETS })).document).toBe('{}')
  expect((await reference({ ASSETS })).document).toBe('{}')
  expect(asked).toEqual(['/docs/reference.json', '/docs/reference.json'])
})

test.each([undefined, {}, { ASSETS: 'a text' }])('is missed in words: %j', async (bindings) => {
  await expect(createReference([])(bindings)).rejects.toMatchObject({ problem: { code: 'not_found' } })
})
