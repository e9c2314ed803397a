/** The build of a Worker: the upload of wrangler is what runs in workerd. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { startWorker } from '../../src/stack/worker.ts'
import { buildWorker } from '../../src/stack/wrangler.ts'

const BUILD_TIMEOUT_MS = 60_000
const TEXT = 'é\r\n\u2028 text'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'emq-project-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

async function project(settings: string, code: string): Promise<string> {
  const config = join(folder, 'wrangler.toml')
  await writeFile(config, `name = "stub"\nmain = "worker.js"\ncompatibility_date = "2026-10-01"\n${settings}`)
  await writeFile(join(folder, 'worker.js'), code)
  await writeFile(join(folder, 'text.txt'), TEXT)
  return config
}

test('code, text modules and variables reach workerd unchanged', {
  timeout: BUILD_TIMEOUT_MS,
}, async () => {
  const config = await project(
    'compatibility_flags = ["nodejs_compat"]\n[vars]\nEMQ_TEXT = "of the file"\nEMQ_JSON = { a = [1] }\nEMQ_OTHER = "x"',
    `import text from './text.txt'
     import { Buffer } from 'node:buffer'
     export default {
       fetch: (_request, env) => Response.json({ text, env, buffer: typeof Buffer }),
       scheduled() { throw new Error('wanted by the test') },
     }`,
  )
  const built = await buildWorker(config)
  const worker = await startWorker({
    built,
    port: 0,
    bindings: { EMQ_TEXT: 'given', EMPTY: '' },
    quiet: true,
  })
  onTestFinished(() => worker.stop())

  expect(built).toMatchObject({ compatibilityDate: '2026-10-01', compatibilityFlags: ['nodejs_compat'] })
  expect(built.bytes).toBeGreaterThan(Buffer.byteLength(TEXT))
  expect(built.gzippedBytes).toBeGreaterThan(0)
  expect(await (await fetch(worker.url)).json()).toEqual({
    text: TEXT,
    env: { EMQ_TEXT: 'given', EMQ_JSON: { a: [1] }, EMQ_OTHER: 'x', EMPTY: '' },
    buffer: 'function',
  })
  expect(await worker.runScheduled('* * * * *')).toBe('exception')

  await worker.stop()
  await expect(worker.runScheduled('* * * * *')).rejects.toThrow()
  expect(buildWorker(config)).toBe(buildWorker(config))
})

test('172: each environment of wrangler.toml has the bindings and settings of the top level', {
  timeout: BUILD_TIMEOUT_MS,
}, async () => {
  const toml = await readFile(new URL('../../wrangler.toml', import.meta.url), 'utf8')
  const environments = [...toml.matchAll(/^\[env\.(\w+)\]$/gm)].map(([, name]) => name)
  expect(environments).toEqual(['staging'])
  for (const name of environments) expect(await buildWorker(undefined, name)).toEqual(await buildWorker())
})

test('134: a deploy keeps the variables that were set in the dashboard', async () => {
  const toml = await readFile(new URL('../../wrangler.toml', import.meta.url), 'utf8')
  expect(toml.slice(0, toml.indexOf('\n['))).toMatch(/^keep_vars = true$/m)
})

test('a failed build rejects with the output of wrangler', { timeout: BUILD_TIMEOUT_MS }, async () => {
  const config = await project('', "import './missing.js'")

  await expect(buildWorker(config)).rejects.toThrow(/^The Worker does not build\.\n.*missing\.js/s)
})
