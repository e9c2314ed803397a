/** The reference in a real browser, served by the built Worker in the real workerd. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startStack, type TestStack } from '../../src/stack/stack.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

let stack: TestStack
let browser: Browser
beforeAll(async () => {
  ;[stack, browser] = await Promise.all([
    startStack({ port: 0, restPort: 0, quiet: true, cron: false, testMode: true }),
    chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] }),
  ])
})
afterAll(async () => {
  await browser?.close()
  await stack?.stop()
})

/** A page, and everything that it complained about or loaded from elsewhere. */
async function open(
  path: string,
  { withoutViewer = false } = {},
): Promise<{ page: Page; complaints: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  onTestFinished(() => page.close())
  const complaints: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => void complaints.push(error.message))
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol.startsWith('http') && origin !== stack.url) complaints.push(`asked ${origin}`)
  })
  if (withoutViewer) await page.route('**/docs/*.js', (route) => route.abort())
  await page.goto(`${stack.url}${path}`)
  return { page, complaints }
}

/** On a machine that is busy, a browser takes its time. */
const PATIENCE = { timeout: 20_000 }

const viewer = (page: Page) => page.locator('#viewer .opblock')

describe('the page', { timeout: 120_000 }, () => {
  test('shows every operation in the viewer, under its strict policy, and asks nobody else', async () => {
    const { page, complaints } = await open('/docs')
    const document = (await (await fetch(`${stack.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const operations = Object.values(document.paths).flatMap((path) => Object.keys(path))
    await expect.poll(() => viewer(page).count(), PATIENCE).toBe(operations.length)
    expect(await page.locator('#reference').isVisible()).toBe(false)
    expect(await page.locator('#error-stale').isVisible()).toBe(true)
    expect(complaints).toEqual([])
  })

  test('keeps its own list where the viewer does not come', async () => {
    const { page } = await open('/docs', { withoutViewer: true })
    expect(await page.locator('#operation-claim').isVisible()).toBe(true)
    expect(await viewer(page).count()).toBe(0)
  })

  test('stays at the error that a problem points to', async () => {
    const answer = await fetch(`${stack.url}/v1/queues`)
    const { type } = (await answer.json()) as { type: string }
    expect(type).toBe('/docs#error-unauthorized')
    const { page } = await open(type)
    await expect.poll(() => viewer(page).count(), PATIENCE).toBeGreaterThan(10)
    const top = () =>
      page.locator('#error-unauthorized').evaluate((place) => place.getBoundingClientRect().top)
    await expect.poll(top, PATIENCE).toBeGreaterThanOrEqual(-1)
    await expect.poll(top, PATIENCE).toBeLessThan(700)
    expect(await page.evaluate('scrollY')).toBeGreaterThan(1000)
  })

  test('sends a request with the token that it was given', async () => {
    const { page, complaints } = await open('/docs#/Producing/enqueue')
    await page.getByRole('button', { name: 'Authorize' }).first().click()
    await page.locator('.auth-container input').fill(stack.tokens.producer)
    await page.locator('.auth-btn-wrapper .authorize').click()
    await page.locator('.btn-done').click()
    const operation = page.locator('#operations-Producing-enqueue')
    await operation.getByRole('button', { name: 'Try it out' }).click()
    await operation.getByPlaceholder('queue').fill('from-the-page')
    await operation.getByRole('button', { name: 'Execute' }).click()
    await expect
      .poll(
        () => operation.locator('.live-responses-table .response .response-col_status').first().textContent(),
        PATIENCE,
      )
      .toContain('201')
    const stats = await fetch(`${stack.url}/v1/queues/from-the-page`, {
      headers: { Authorization: `Bearer ${stack.tokens.operator}` },
    })
    expect(await stats.json()).toMatchObject({ counts: { pending: 1 } })
    expect(complaints).toEqual([])
  })
})
