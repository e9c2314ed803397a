/** `echomq-edge audit` against an API that listens: its output, its repairs, its exit codes. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import type { RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { census } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { commandLine, type Ran } from './support/in-process.ts'

const shared = sharedRedis()
let port: RedisPort
let url: string
let server: ReturnType<typeof serve>
let failing = 0

beforeAll(async () => {
  port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
  const app = createApp({ env: apiOn(shared).env })
  const fetch = (request: Request) => {
    if (failing === 0) return app.fetch(request)
    failing -= 1
    return Response.json({ detail: 'Not now.' }, { status: 503, headers: { 'Retry-After': '0' } })
  }
  server = serve({ fetch, hostname: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => void server.close())

const run = commandLine()
beforeEach(() => port.send([['FLUSHALL']]))

const SOUND = 0
const FOUND = 1
const USAGE = 2
const FAILED = 3

/** Runs the command with the operator's token. */
function audit(...args: string[]): Promise<Ran> {
  return run(['audit', ...args], { EMQ_URL: url, EMQ_TOKEN: TOKENS.operator })
}

function call(method: string, path: string, body?: unknown) {
  return apiOn(shared).call(method, path, body)
}

async function queueOf(jobs: number): Promise<{ name: string; ids: string[] }> {
  const name = freshQueue()
  const many = Array.from({ length: jobs }, (_, nth) => ({ payload: nth }))
  const { json } = await call('POST', `/v1/queues/${name}/jobs`, { jobs: many })
  return { name, ids: json.results.map(({ id }: { id: string }) => id) }
}

describe('an audit of a sound deployment', () => {
  test('audit prints one line per queue and exits with 0', async () => {
    const [one, two] = [await queueOf(3), await queueOf(1)]
    expect(await audit()).toEqual({
      code: SOUND,
      stdout: `${one.name}: 6 checked, sound\n${two.name}: 2 checked, sound\n`,
      stderr: '',
    })
  })

  test('audit says so when there are no queues', async () => {
    expect(await audit()).toEqual({ code: SOUND, stdout: 'There are no queues.\n', stderr: '' })
  })

  test('audit accepts an empty queue, and rejects a queue that was never used', async () => {
    const { name, ids } = await queueOf(1)
    await call('DELETE', `/v1/queues/${name}/jobs/${ids[0]}`)
    await call('PUT', `/v1/queues/${name}/settings`, { leaseMs: 1000 })
    const stdout = `${name}: 0 checked, sound\n`
    expect(await audit('--queue', name)).toEqual({ code: SOUND, stdout, stderr: '' })
    expect(await audit('--queue', name, '--queue', 'nope')).toEqual({
      code: FAILED,
      stdout,
      stderr: 'error: There is no queue nope.\n',
    })
  })

  test('audit checks only the queues that --queue names, in their order', async () => {
    const [one, , three] = [await queueOf(1), await queueOf(1), await queueOf(1)]
    const { stdout } = await audit('--queue', three.name, '--queue', one.name)
    expect(stdout).toBe(`${three.name}: 2 checked, sound\n${one.name}: 2 checked, sound\n`)
  })

  test('audit checks more queues than fit on one page', async () => {
    const names = Array.from({ length: 230 }, (_, nth) => `many.${String(nth).padStart(3, '0')}`)
    await port.send([['ZADD', '{emq}:queues', ...names.flatMap((name) => [1, name])]])
    const { code, stdout } = await audit('--json')
    expect(code).toBe(SOUND)
    expect(JSON.parse(stdout).queues.map(({ queue }: { queue: string }) => queue)).toEqual(names)
  })
})

describe('faults', () => {
  test('audit finds an orphan in a queue that has nothing else left', async () => {
    const { name, ids } = await queueOf(1)
    const { pending } = keyspace(name)
    await port.send([
      ['DEL', pending],
      ['ZREM', '{emq}:queues', name],
    ])
    expect(await audit('--queue', name)).toEqual({
      code: FOUND,
      stdout: `${name}: 1 checked, 1 found, 0 repaired\n  ${ids[0]} orphan: in no set\n`,
      stderr: '',
    })
  })

  test('audit exits with 1 for each fault, with --repair too, and with 0 once all are repaired', async () => {
    const { name, ids } = await queueOf(3)
    const [ghost = '', orphan = ''] = ids
    const keys = keyspace(name)
    await port.send([
      ['DEL', keys.job(ghost)],
      ['ZREM', keys.pending, orphan],
    ])
    const findings = `  ${ghost} ghost: pending\n  ${orphan} orphan: in no set\n`

    const found = `${name}: 4 checked, 2 found, 0 repaired\n${findings}`
    expect(await audit()).toEqual({ code: FOUND, stdout: found, stderr: '' })
    const repaired = `${name}: 4 checked, 2 found, 2 repaired\n${findings}`
    expect(await audit('--repair')).toEqual({ code: FOUND, stdout: repaired, stderr: '' })
    expect(await census(port, name)).toEqual([])
    const sound = `${name}: 4 checked, sound\n`
    expect(await audit()).toEqual({ code: SOUND, stdout: sound, stderr: '' })
  })

  test('audit --json prints the findings as one JSON document and nothing else', async () => {
    const { name, ids } = await queueOf(1)
    await port.send([['DEL', keyspace(name).job(ids[0] ?? '')]])
    const { code, stdout, stderr } = await audit('--json')
    expect({ code, stderr }).toEqual({ code: FOUND, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({
      queues: [
        {
          queue: name,
          checked: 1,
          findings: [{ id: ids[0], kind: 'ghost', sets: ['pending'] }],
          repaired: 0,
        },
      ],
    })
  })
})

describe('a failed audit', () => {
  test('audit repeats a request that the API cannot answer now', async () => {
    const { name } = await queueOf(1)
    failing = 3
    expect(await audit()).toEqual({ code: SOUND, stdout: `${name}: 2 checked, sound\n`, stderr: '' })
  })

  test('audit exits with 3 after four attempts without a success', async () => {
    failing = 4
    expect(await audit()).toEqual({
      code: FAILED,
      stdout: '',
      stderr: 'error: /v1/queues: upstream: 503, not of the API\n',
    })
    expect(failing).toBe(0)
  })

  test('audit exits with 3 when the API rejects the token, and prints its reason', async () => {
    const { code, stdout, stderr } = await run(['audit'], { EMQ_URL: url, EMQ_TOKEN: 'wrong' })
    expect({ code, stdout }).toEqual({ code: FAILED, stdout: '' })
    expect(stderr).toMatch(/^error: \/v1\/queues: unauthorized: .+\n {2}request [\w-]+\n$/)
  })

  test('audit exits with 3 when another server responds, or none', async () => {
    const page = serve({ fetch: () => new Response('hello'), hostname: '127.0.0.1', port: 0 })
    await once(page, 'listening')
    const other = `http://127.0.0.1:${(page.address() as AddressInfo).port}`
    const foreign = await audit('--url', other)
    page.close()
    expect(foreign).toEqual({
      code: FAILED,
      stdout: '',
      stderr: 'error: /v1/queues: network: 200, not of the API\n',
    })
    const { code, stderr } = await audit('--url', 'http://127.0.0.1:9')
    expect(code).toBe(FAILED)
    expect(stderr).toMatch(/^error: http:\/\/127\.0\.0\.1:9\/v1\/queues: no answer\n/)
  })

  test('audit exits with 2 for arguments or an environment that it does not understand', async () => {
    expect((await run(['audit'])).code).toBe(USAGE)
    expect((await run(['audit'], { EMQ_URL: url })).code).toBe(USAGE)
    expect((await audit('--queue', 'a b')).code).toBe(USAGE)
    expect((await audit('--url', 'redis://x')).code).toBe(USAGE)
    expect((await audit('--token', 'secret')).stderr).toBe(
      'error: There is no such option: set EMQ_TOKEN. Every user of the machine can see a token on a command line.\n',
    )
  })
})

test('audit --help lists its exit codes', async () => {
  const { stdout } = await run(['audit', '--help'])
  expect(stdout.match(/^ {2}\d .*$/gm)?.map((line) => Number(line.trim()[0]))).toEqual([0, 1, 2, 3])
})
