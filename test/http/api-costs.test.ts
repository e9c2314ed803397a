/**
 * The table of routes in docs/performance.md, compared with what Redis counts: subrequests and commands of the plain
 * case of every route. Commands inside scripts count too.
 */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/app.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const [, section = ''] = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8').split(
  '\n## What each route costs\n',
)
/** Name, subrequests and commands, as the table says. */
const table = [...(section.split('\n## ')[0] ?? '').matchAll(/^\|([^|]+)\|([^|]+)\|([^|]+)\|$/gm)]
  .slice(2)
  .map(([, name = '', requests = '', commands = '']) => ({
    name: name.trim(),
    requests: requests.trim(),
    commands: commands.trim(),
  }))

let api: Api
let queue: string
const on = (path: string): string => `/v1/queues/${queue}/${path}`
const post = (path: string, body: object = {}) => api.call('POST', on(path), body)

beforeEach(async () => {
  await raw.run('FLUSHALL')
  api = apiOn(shared)
  queue = freshQueue()
  // The isolate has met its database, and looked at the queue.
  await post('claim')
})

async function costOf(run: () => Promise<{ status: number }>): Promise<{ requests: number; total: number }> {
  await shared.bridge.reset()
  expect((await run()).status).toBeLessThan(300)
  const { requests, total } = await shared.bridge.counts()
  return { requests, total }
}

const enqueued = async (): Promise<string> => (await post('jobs', { payload: 1 })).json.id
async function claimed(): Promise<string> {
  const id = await enqueued()
  await post('claim', { limit: 1, leaseMs: 60_000 })
  return id
}
async function dead(): Promise<string> {
  const id = await claimed()
  await post(`jobs/${id}/fail`, { token: 1 })
  return id
}
async function scheduled(): Promise<string> {
  return (await post('jobs', { payload: 1, delayMs: 60_000 })).json.id
}

type Case = readonly [
  row: string,
  prepare: () => Promise<string | undefined>,
  run: (id: string) => Promise<{ status: number }>,
  n?: number,
]
const nothing = async (): Promise<undefined> => undefined
const manyJobs = (count: number) => Array.from({ length: count }, (_, nth) => ({ payload: nth }))
type Held = { readonly id: string; readonly token: number }

const CASES: readonly Case[] = [
  ['`POST jobs`, one', nothing, () => post('jobs', { payload: 1 })],
  ['`POST jobs`, many', nothing, () => post('jobs', { jobs: manyJobs(10) }), 10],
  ['`POST claim` without `limit`', enqueued, () => post('claim')],
  ['`POST claim` with `limit`', nothing, () => post('claim', { limit: 10 })],
  ['`POST jobs/{id}/complete`', claimed, (id) => post(`jobs/${id}/complete`, { token: 1 })],
  [
    '`POST jobs/{id}/retry`',
    claimed,
    (id) => post(`jobs/${id}/retry`, { token: 1, delayMs: 5, maxAttempts: 9 }),
  ],
  ['`POST jobs/{id}/fail`', claimed, (id) => post(`jobs/${id}/fail`, { token: 1 })],
  ['`POST jobs/{id}/release`', claimed, (id) => post(`jobs/${id}/release`, { token: 1 })],
  ['`POST jobs/{id}/extend`', claimed, (id) => post(`jobs/${id}/extend`, { token: 1, leaseMs: 90_000 })],
  [
    '`POST settle`, completes',
    async () => {
      await post('jobs', { jobs: manyJobs(3) })
      const { json } = await post('claim', { limit: 3 })
      return JSON.stringify(json.jobs.map(({ id, token }: Held) => ({ action: 'complete', id, token })))
    },
    (items) => post('settle', { items: JSON.parse(items) }),
    3,
  ],
  ['`GET queues`', enqueued, () => api.call('GET', '/v1/queues'), 1],
  [
    '`GET jobs`',
    () => post('jobs', { jobs: manyJobs(3) }).then(nothing),
    () => api.call('GET', on('jobs')),
    3,
  ],
  ['`GET /metrics`', enqueued, () => api.call('GET', '/metrics'), 1],
  [
    '`POST purge`',
    () => post('jobs', { jobs: manyJobs(3) }).then(nothing),
    () => post('purge', { state: 'pending' }),
    3,
  ],
  ['`GET queues/{queue}`', enqueued, () => api.call('GET', `/v1/queues/${queue}`)],
  ['`GET jobs/{id}`', enqueued, (id) => api.call('GET', on(`jobs/${id}`))],
  ['`POST promote`', nothing, () => post('promote')],
  ['`POST reap`', nothing, () => post('reap')],
  ['`POST jobs/{id}/redrive`', dead, (id) => post(`jobs/${id}/redrive`)],
  ['`PUT jobs/{id}/schedule`', scheduled, (id) => api.call('PUT', on(`jobs/${id}/schedule`), { delayMs: 5 })],
  ['`DELETE jobs/{id}`', enqueued, (id) => api.call('DELETE', on(`jobs/${id}`))],
  ['`POST redrive`', nothing, () => post('redrive')],
  ['`POST pause`', nothing, () => post('pause')],
  ['`POST resume`', nothing, () => post('resume')],
  ['`PUT settings`', nothing, () => api.call('PUT', on('settings'), { maxAttempts: 3 })],
  [
    '`POST /v1/maintenance`',
    () => api.call('POST', '/v1/maintenance').then(nothing),
    () => api.call('POST', '/v1/maintenance'),
  ],
  ['`GET /healthz`', nothing, () => api.call('GET', '/healthz')],
  ['`GET /readyz`', nothing, () => api.call('GET', '/readyz')],
  ['`GET /openapi.json`', nothing, () => api.call('GET', '/openapi.json')],
  ['`GET /docs`', nothing, () => api.call('GET', '/docs')],
]

describe('the table of routes in docs/performance.md', () => {
  test.each(CASES.map((one, nth) => [one[0], nth] as const))('has what %s costs (%i)', async (name, nth) => {
    const [, prepare, run, n] = CASES[nth] as Case
    const row = table.find((one) => one.name === name)
    expect(row, `a row ${name}`).toBeDefined()
    const id = (await prepare()) ?? ''
    const { requests, total } = await costOf(() => run(id))
    expect(requests).toBe(Number.parseInt(row?.requests ?? '', 10))
    // `5`, or `4 + 2 n` where the case has an n.
    const [, fixed, each = '1'] =
      (n === undefined ? /^(\d+)/ : /^(\d+) \+ (?:(\d+) )?n$/).exec(row?.commands ?? '') ?? []
    expect(total).toBe(Number(fixed) + Number(each) * (n ?? 0))
  })

  test('names every route', () => {
    const names = table.map(({ name }) => name).join(' ')
    const missing = ROUTES.map(
      ({ path }) => path.replace(/^\/v1\/queues(\/\{queue\}\/)?/, '') || 'queues',
    ).filter((path) => !names.includes(path.replace(/^jobs\/\{id\}\//, '')))
    expect(missing).toEqual([])
    expect(table.length).toBeGreaterThan(20)
  })
})
