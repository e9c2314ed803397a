/** The reference in a real browser, served by the built Worker in the real workerd. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
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

/** Opens a page and collects its errors, its warnings and its requests to other hosts. */
async function open(path: string): Promise<{ page: Page; complaints: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  onTestFinished(() => page.close())
  const complaints: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => void complaints.push(error.message))
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol.startsWith('http') && origin !== stack.url) complaints.push(`request to ${origin}`)
  })
  await page.goto(`${stack.url}${path}`)
  return { page, complaints }
}

/** A browser is slow on a busy machine. */
const PATIENCE = { timeout: 20_000 }

const viewer = (page: Page) => page.locator('#viewer .opblock')

describe('the page /docs', { timeout: 120_000 }, () => {
  test('shows every operation and every error under its strict policy, and asks no other host', async () => {
    const { page, complaints } = await open('/docs')
    const document = (await (await fetch(`${stack.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const operations = Object.values(document.paths).flatMap((path) => Object.keys(path))
    await expect.poll(() => viewer(page).count(), PATIENCE).toBe(operations.length)
    for (const [code, { status, title }] of Object.entries(ERRORS)) {
      const section = page.locator(`#error-${code}`)
      expect(await section.locator('h4').textContent()).toBe(`${code}: ${status} ${title}`)
      expect(await section.locator('p').first().textContent()).toMatch(new RegExp(`^${code}: .{10}`))
      expect(JSON.parse((await section.locator('pre').textContent()) ?? '')).toMatchObject({ code, status })
    }
    expect(complaints).toEqual([])
  })

  test('scrolls to the error that the type of a problem names', async () => {
    const response = await fetch(`${stack.url}/v1/queues`)
    const { type } = (await response.json()) as { type: string }
    expect(type).toBe('/docs#error-unauthorized')
    const { page, complaints } = await open(type)
    const top = () =>
      page.locator('#error-unauthorized').evaluate((place) => place.getBoundingClientRect().top)
    await expect.poll(top, PATIENCE).toBeLessThan(700)
    expect(await top()).toBeGreaterThanOrEqual(-1)
    expect(await page.evaluate('scrollY')).toBeGreaterThan(1000)
    expect(complaints).toEqual([])
  })

  test('sends a request with the token that the user has entered', async () => {
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
