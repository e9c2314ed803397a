/** `npm run audit`, against an API that listens: what it prints, what it repairs, how it exits. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest'
import { createApp } from '../../src/app.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import type { RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { runProgram } from '../../src/tools/program.ts'
import { apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { census } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

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

let stdout = ''
let stderr = ''
beforeEach(async () => {
  stdout = ''
  stderr = ''
  process.exitCode = 0
  await port.send([['FLUSHALL']])
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += text
    return true
  })
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += text
    return true
  })
})
afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = 0
})

const SOUND = 0
const FOUND = 1
const COULD_NOT_LOOK = 3

/** Runs the command and answers its exit code. */
async function audit(...args: string[]): Promise<number> {
  const code = await runProgram(['audit', '--url', url, '--token', TOKENS.operator, ...args])
  return code || Number(process.exitCode)
}

const call = (method: string, path: string, body?: unknown) => apiOn(shared).call(method, path, body)

async function queueOf(jobs: number): Promise<{ name: string; ids: string[] }> {
  const name = freshQueue()
  const many = Array.from({ length: jobs }, (_, nth) => ({ payload: nth }))
  const { json } = await call('POST', `/v1/queues/${name}/jobs`, { jobs: many })
  return { name, ids: json.results.map(({ id }: { id: string }) => id) }
}

describe('a sound deployment', () => {
  test('exits with 0, one line a queue', async () => {
    const [one, two] = [await queueOf(3), await queueOf(1)]
    expect(await audit()).toBe(0)
    expect(stdout).toBe(`${one.name}: 6 checked, sound\n${two.name}: 2 checked, sound\n`)
    expect(stderr).toBe('')
  })

  test('without queues says so', async () => {
    expect(await audit()).toBe(0)
    expect(stdout).toBe('There are no queues.\n')
  })

  test('has a queue that is empty, and none that was never used', async () => {
    const { name, ids } = await queueOf(1)
    await call('DELETE', `/v1/queues/${name}/jobs/${ids[0]}`)
    await call('PUT', `/v1/queues/${name}/settings`, { leaseMs: 1000 })
    expect(await audit('--queue', name)).toBe(SOUND)
    expect(stdout).toBe(`${name}: 0 checked, sound\n`)

    stdout = ''
    expect(await audit('--queue', name, '--queue', 'nope')).toBe(COULD_NOT_LOOK)
    expect(stdout).toBe(`${name}: 0 checked, sound\n`)
    expect(stderr).toBe('error: There is no queue nope.\n')
  })

  test('is audited as far as it is asked for', async () => {
    const [one, , three] = [await queueOf(1), await queueOf(1), await queueOf(1)]
    expect(await audit('--queue', three.name, '--queue', one.name)).toBe(0)
    expect(stdout).toBe(`${three.name}: 2 checked, sound\n${one.name}: 2 checked, sound\n`)
  })
})

describe('faults', () => {
  test('are found in a queue of which nothing else is left', async () => {
    const { name, ids } = await queueOf(1)
    const { pending } = keyspace(name)
    await port.send([
      ['DEL', pending],
      ['ZREM', '{emq}:queues', name],
    ])
    expect(await audit('--queue', name)).toBe(FOUND)
    expect(stdout).toContain(`  ${ids[0]} orphan: in no set\n`)
  })

  test('are listed and exit with 1; --repair repairs them and does so too, for the last time', async () => {
    const { name, ids } = await queueOf(3)
    const [ghost = '', orphan = ''] = ids
    const keys = keyspace(name)
    await port.send([
      ['DEL', keys.job(ghost)],
      ['ZREM', keys.pending, orphan],
    ])
    const findings = `  ${ghost} ghost: pending\n  ${orphan} orphan: in no set\n`

    expect(await audit()).toBe(1)
    expect(stdout).toBe(`${name}: 4 checked, 2 found, 0 repaired\n${findings}`)

    stdout = ''
    expect(await audit('--repair')).toBe(1)
    expect(stdout).toBe(`${name}: 4 checked, 2 found, 2 repaired\n${findings}`)
    expect(await census(port, name)).toEqual([])

    stdout = ''
    process.exitCode = 0
    expect(await audit()).toBe(0)
    expect(stdout).toBe(`${name}: 4 checked, sound\n`)
  })

  test('come as JSON, and nothing else does', async () => {
    const { name, ids } = await queueOf(1)
    await port.send([['DEL', keyspace(name).job(ids[0] ?? '')]])
    expect(await audit('--json')).toBe(1)
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
    expect(stderr).toBe('')
  })
})

test('more queues than one page has are all audited', async () => {
  const names = Array.from({ length: 230 }, (_, nth) => `many.${String(nth).padStart(3, '0')}`)
  await port.send([['ZADD', '{emq}:queues', ...names.flatMap((name) => [1, name])]])
  expect(await audit('--json')).toBe(0)
  expect(JSON.parse(stdout).queues.map(({ queue }: { queue: string }) => queue)).toEqual(names)
})

describe('an API', () => {
  test('that cannot answer now is asked again', async () => {
    const { name } = await queueOf(1)
    failing = 3
    expect(await audit()).toBe(0)
    expect(stdout).toBe(`${name}: 2 checked, sound\n`)
  })

  test('that goes on not answering is an error', async () => {
    failing = 5
    expect(await audit()).toBe(COULD_NOT_LOOK)
    expect(stderr).toBe('error: The API answered 503. Not now.\n')
    expect(failing).toBe(0)
  })

  test('that refuses the token is an error, in its words', async () => {
    const code = await runProgram(['audit', '--url', url, '--token', 'wrong'])
    expect(code).toBe(COULD_NOT_LOOK)
    expect(stderr).toBe('error: The API answered 401. A valid bearer token is required.\n')
  })

  test('that is none, or not there, is an error', async () => {
    const page = serve({ fetch: () => new Response('hello'), hostname: '127.0.0.1', port: 0 })
    await once(page, 'listening')
    const other = `http://127.0.0.1:${(page.address() as AddressInfo).port}`
    expect(await audit('--url', other)).toBe(COULD_NOT_LOOK)
    page.close()
    expect(await audit('--url', 'http://127.0.0.1:9')).toBe(COULD_NOT_LOOK)
    expect(stderr).toBe(
      `error: ${other} does not answer as the API does.\nerror: http://127.0.0.1:9 cannot be reached.\n`,
    )
  })

  test('is that of the environment, and so is the token', async () => {
    vi.stubEnv('EMQ_URL', `${url}/`)
    vi.stubEnv('EMQ_TOKEN', TOKENS.operator)
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await runProgram(['audit'])).toBe(SOUND)
    expect(stdout).toBe('There are no queues.\n')
  })
})

test.each([
  [['audit'], "required option '--url <url>' not specified"],
  [['audit', '--url', 'http://x'], "required option '--token <token>' not specified"],
  [['audit', '--url', 'redis://x', '--token', 't'], 'It must be a URL that begins with https:// or http://'],
])('%j is refused with 2', async (args, message) => {
  expect(await runProgram(args)).toBe(2)
  expect(stderr).toContain(message)
})
