/** The page of the reference: complete without a script, a place for each error, and a strict policy. */
import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { createApp, ROUTES } from '../../src/app.ts'
import { ERRORS } from '../../src/errors.ts'
import { docsPage } from '../../src/reference/docs-page.ts'
import { EXAMPLES } from '../../src/reference/examples.ts'
import { openApiDocument } from '../../src/reference/openapi.ts'

const document = openApiDocument(ROUTES)
const get = (path: string, method = 'GET') => createApp({ env: {} }).request(path, { method })

let html: string
let policy: string
beforeAll(async () => {
  const response = await get('/docs')
  expect(response.status).toBe(200)
  expect(response.headers.get('Content-Type')).toBe('text/html; charset=utf-8')
  html = await response.text()
  policy = response.headers.get('Content-Security-Policy') ?? ''
})

test('is there for everybody, without any configuration', async () => {
  expect(html).toMatch(/^<!doctype html>\n<html lang="en">/)
  expect(await (await get('/docs', 'HEAD')).text()).toBe('')
  const post = await get('/docs', 'POST')
  expect(post.status).toBe(405)
  expect(post.headers.get('Allow')).toBe('GET, HEAD')
})

test('has the headers of every answer, and those of a page', async () => {
  const { headers } = await get('/docs')
  expect(headers.get('Cache-Control')).toBe('no-store')
  expect(headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
  expect(headers.get('X-Content-Type-Options')).toBe('nosniff')
  expect(headers.get('Referrer-Policy')).toBe('no-referrer')
})

test.each(Object.entries(ERRORS))(
  'explains %s at the place that its problems name',
  (code, { status, title }) => {
    const places = html.match(new RegExp(`<article id="error-${code}">.*?</article>`, 'gs'))
    expect(places).toHaveLength(1)
    const [place = ''] = places ?? []
    expect(place).toContain(`<h3><code>${code}</code> ${status} ${title}</h3><p>`)
    expect(place).not.toContain('undefined')
  },
)

test.each(ROUTES)('shows $operationId: path, fields, answers, examples and errors', (route) => {
  const [, article = ''] =
    new RegExp(`<article id="operation-${route.operationId}">(.*?)</article>`, 's').exec(html) ?? []
  expect(article).toContain(`>${route.method}</span> <code>${route.path}</code>`)
  expect(article).toContain(`<code>${route.scope}</code>`)
  for (const status of Object.keys(route.responses)) expect(article).toContain(`<strong>${status}</strong>`)
  for (const { summary } of Object.values(EXAMPLES[route.operationId] ?? {}))
    if (route.operationId !== 'remove')
      expect(article).toContain(`<summary>${summary.replaceAll("'", '&#39;')}`)
  for (const code of route.errors) expect(article).toContain(`<a href="#error-${code}">`)
  expect(article).not.toMatch(/undefined|\[object/)
})

test('shows the fields of a body, those of many jobs too', () => {
  const [, settle = ''] = /<article id="operation-settle">(.*?)<\/article>/s.exec(html) ?? []
  for (const field of ['items', 'claim', 'action', 'token', 'error', 'maxAttempts', 'leaseMs'])
    expect(settle).toContain(`<code>${field}</code>`)
})

test('links to places that are there', () => {
  const ids = new Set(Array.from(html.matchAll(/ id="([^"]+)"/g), ([, id]) => id))
  const links = Array.from(html.matchAll(/ href="#([^"]+)"/g), ([, id]) => id)
  expect(links.length).toBeGreaterThan(100)
  expect(links.filter((id) => !ids.has(id))).toEqual([])
})

describe('the policy', () => {
  test('allows no script and no style but those of the deployment, and the one style that is there', () => {
    const directives = Object.fromEntries(
      policy.split('; ').map((directive) => {
        const [name = '', ...sources] = directive.split(' ')
        return [name, sources]
      }),
    )
    const [, style = ''] = /<style>(.*?)<\/style>/s.exec(html) ?? []
    const digest = createHash('sha256').update(style).digest('base64')
    expect(directives).toEqual({
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'", `'sha256-${digest}'`],
      'img-src': ["'self'", 'data:'],
      'connect-src': ["'self'"],
      'base-uri': ["'none'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
    })
  })

  test.each([true, false])('is kept by the page, with a viewer: %s', async (withViewer) => {
    const page = await docsPage(document, { withViewer })
    expect(page.html.match(/<style>/g)).toHaveLength(1)
    expect(page.html).not.toMatch(/ style=| on\w+=|javascript:/)
    const scripts = page.html.match(/<script[^>]*>[^<]*/g) ?? []
    expect(scripts.map((script) => script.trim())).toEqual(
      withViewer
        ? ['<script src="docs/swagger-ui-bundle.js" defer>', '<script src="docs/viewer.js" defer>']
        : [],
    )
  })
})

test('shows what looks like markup as text', async () => {
  const evil = '</p><script>alert(1)</script> "quoted" & `<b>`'
  const page = await docsPage(
    { ...document, info: { ...document.info, title: evil, description: evil } },
    { withViewer: false },
  )
  expect(page.html).not.toContain('<script')
  expect(page.html).not.toContain('<b>')
  expect(page.html).toContain('&#60;script&#62;alert(1)')
})
