/**
 * The example with two Workers, configured by its two wrangler.toml files, on a real Redis.
 */
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { unstable_readConfig } from 'wrangler'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { buildWorker } from '../../src/stack/wrangler.ts'
import { census } from '../support/census.ts'
import { sharedRedis } from '../support/redis.ts'
import { type RunningWorkers, secretsOf, startWorkers, workerOf } from './support/workers.ts'

function configOf(side: string): string {
  return fileURLToPath(new URL(`../../examples/service-binding/${side}/wrangler.toml`, import.meta.url))
}

/** The producer is one file that imports only types, so it needs no build. */
function producer() {
  const config = unstable_readConfig({ config: configOf('producer') })
  const source = readFileSync(join(dirname(configOf('producer')), 'index.ts'), 'utf8')
  const built = {
    mainModule: 'index.js',
    modules: { 'index.js': { type: 'esm' as const, contents: stripTypeScriptTypes(source) } },
    compatibilityDate: config.compatibility_date ?? '',
    compatibilityFlags: config.compatibility_flags,
  }
  const declared: { binding: string; service: string; entrypoint?: string }[] = config.services ?? []
  const services = declared.map(({ binding, service, entrypoint = 'default' }) => [
    binding,
    { type: 'worker' as const, worker: service, exportName: entrypoint },
  ])
  return workerOf('signup', built, Object.fromEntries(services))
}

const shared = sharedRedis()
let workers: RunningWorkers
let port: RespPort
beforeAll(async () => {
  const { name = '' } = unstable_readConfig({ config: configOf('queue') })
  const queue = workerOf(name, await buildWorker(configOf('queue')), secretsOf(shared.bridge))
  workers = await startWorkers([producer(), queue])
  port = await createRespPort(shared.redis.url)
})
afterAll(async () => {
  await workers?.stop()
  port?.close()
})
beforeEach(() => shared.bridge.reset())

function signUp(body: string): Promise<Response> {
  return workers.fetch('signup', '/signup', { method: 'POST', body })
}

test('a sign-up that is sent twice enqueues one mail', async () => {
  const first = await signUp('{"email":"ada@example.com"}')
  expect(first.status).toBe(202)
  const { id, status } = (await first.json()) as { id: string; status: string }
  expect(status).toBe('enqueued')

  const second = await signUp('{"email":"ada@example.com"}')
  expect(second.status).toBe(200)
  expect(await second.json()).toEqual({ id, status: 'duplicate' })
  expect(await port.send([['ZRANGE', 'emq:{welcome-mails}:pending', 0, -1]])).toEqual([
    [new TextEncoder().encode(id)],
  ])
  expect(await census(port, 'welcome-mails')).toEqual([])
})

test('the producer rejects a malformed sign-up before it calls the queue', async () => {
  expect((await signUp('nonsense')).status).toBe(400)
  expect((await signUp('{"email":5}')).status).toBe(400)
  expect((await workers.fetch('signup', '/')).status).toBe(404)
  expect((await shared.bridge.counts()).requests).toBe(0)
})

test('the producer returns 503 when Redis is away', async () => {
  shared.bridge.answer({ status: 500, body: '{"error":"ERR boom"}' }, { times: Number.POSITIVE_INFINITY })
  expect((await signUp('{"email":"grace@example.com"}')).status).toBe(503)
})
