/**
 * The table of routes in docs/performance.md, compared with what Redis counts: subrequests and commands of the plain
 * case of every route. Commands inside scripts count too.
 */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/app.ts'
import { type Api, apiOn } from '../support/api.ts'
import { type ClaimedJob, queueOn, type TestQueue } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { costOf, sharedRedis } from '../support/redis.ts'

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
let queue: TestQueue

beforeEach(async () => {
  await raw.run('FLUSHALL')
  api = apiOn(shared)
  queue = queueOn(api)
  // The isolate has checked the version and swept the queue.
  await queue.post('claim')
})

type Case = readonly [
  row: string,
  prepare: () => Promise<string | undefined>,
  run: (id: string) => Promise<{ status: number }>,
  n?: number,
]
/** The statuses of success that are not 200. */
const SUCCESS: Readonly<Record<string, number>> = { '`POST jobs`, one': 201, '`DELETE jobs/{id}`': 204 }

const nothing = async (): Promise<undefined> => undefined
const manyJobs = (count: number) => Array.from({ length: count }, (_, nth) => ({ payload: nth }))

const CASES: readonly Case[] = [
  ['`POST jobs`, one', nothing, () => queue.post('jobs', { payload: 1 })],
  ['`POST jobs`, many', nothing, () => queue.post('jobs', { jobs: manyJobs(10) }), 10],
  ['`POST claim` without `limit`', enqueued, () => queue.post('claim')],
  ['`POST claim` with `limit`', nothing, () => queue.post('claim', { limit: 10 })],
  ['`POST jobs/{id}/complete`', claimed, (id) => queue.post(`jobs/${id}/complete`, { token: 1 })],
  [
    '`POST jobs/{id}/retry`',
    claimed,
    (id) => queue.post(`jobs/${id}/retry`, { token: 1, delayMs: 5, maxAttempts: 9 }),
  ],
  ['`POST jobs/{id}/fail`', claimed, (id) => queue.post(`jobs/${id}/fail`, { token: 1 })],
  ['`POST jobs/{id}/release`', claimed, (id) => queue.post(`jobs/${id}/release`, { token: 1 })],
  [
    '`POST jobs/{id}/extend`',
    claimed,
    (id) => queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 90_000 }),
  ],
  [
    '`POST settle`, completes',
    async () => {
      await queue.post('jobs', { jobs: manyJobs(3) })
      const { json } = await queue.post('claim', { limit: 3 })
      return JSON.stringify(json.jobs.map(({ id, token }: ClaimedJob) => ({ action: 'complete', id, token })))
    },
    (items) => queue.post('settle', { items: JSON.parse(items) }),
    3,
  ],
  ['`GET queues`', enqueued, () => api.call('GET', '/v1/queues'), 1],
  ['`GET jobs`', () => queue.post('jobs', { jobs: manyJobs(3) }).then(nothing), () => queue.get('jobs'), 3],
  ['`GET /metrics`', enqueued, () => api.call('GET', '/metrics'), 1],
  [
    '`POST purge`',
    () => queue.post('jobs', { jobs: manyJobs(3) }).then(nothing),
    () => queue.post('purge', { state: 'pending' }),
    3,
  ],
  ['`GET queues/{queue}`', enqueued, () => queue.get()],
  ['`GET jobs/{id}`', enqueued, (id) => queue.get(`jobs/${id}`)],
  ['`POST promote`', nothing, () => queue.post('promote')],
  ['`POST reap`', nothing, () => queue.post('reap')],
  ['`POST jobs/{id}/redrive`', dead, (id) => queue.post(`jobs/${id}/redrive`)],
  ['`PUT jobs/{id}/schedule`', scheduled, (id) => queue.put(`jobs/${id}/schedule`, { delayMs: 5 })],
  ['`DELETE jobs/{id}`', enqueued, (id) => queue.remove(id)],
  ['`POST redrive`', nothing, () => queue.post('redrive')],
  ['`POST pause`', nothing, () => queue.post('pause')],
  ['`POST resume`', nothing, () => queue.post('resume')],
  ['`PUT settings`', nothing, () => queue.put('settings', { maxAttempts: 3 })],
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
  test.each(CASES.map((one, nth) => [one[0], nth] as const))(
    'the table contains what %s costs (%i)',
    async (name, nth) => {
      const [, prepare, run, n] = CASES[nth] as Case
      const row = table.find((one) => one.name === name)
      const id = (await prepare()) ?? ''
      const { requests, total } = await costOf(shared, async () =>
        expect((await run(id)).status).toBe(SUCCESS[name] ?? 200),
      )
      expect(requests).toBe(Number.parseInt(row?.requests ?? '', 10))
      // `5`, or `4 + 2 n` where the case has an n.
      const [, fixed, each = '1'] =
        (n === undefined ? /^(\d+)/ : /^(\d+) \+ (?:(\d+) )?n$/).exec(row?.commands ?? '') ?? []
      expect(total).toBe(Number(fixed) + Number(each) * (n ?? 0))
    },
  )

  test('the table contains every route', () => {
    const names = table.map(({ name }) => name).join(' ')
    const missing = ROUTES.map(
      ({ path }) => path.replace(/^\/v1\/queues(\/\{queue\}\/)?/, '') || 'queues',
    ).filter((path) => !names.includes(path.replace(/^jobs\/\{id\}\//, '')))
    expect(missing).toEqual([])
    expect(table.length).toBeGreaterThan(20)
  })
})

async function enqueued(): Promise<string> {
  return queue.enqueue()
}

async function claimed(): Promise<string> {
  await queue.enqueue()
  return (await queue.claimOne({ leaseMs: 60_000 })).id
}

async function dead(): Promise<string> {
  const id = await claimed()
  await queue.post(`jobs/${id}/fail`, { token: 1 })
  return id
}

async function scheduled(): Promise<string> {
  return queue.enqueue({ delayMs: 60_000 })
}
