/** Faults 34 and 35: backlogs. Every mass operation is bounded, says whether there is more, and holds nobody up. */
import { afterAll, describe, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const FILL = `
for i = ARGV[5] + 1, ARGV[5] + ARGV[3] do
  local id = 'JOB' .. string.format('%011d', i)
  redis.call('HSET', KEYS[2] .. id, 'state', ARGV[1], 'attempts', ARGV[4], 'payload', '1')
  redis.call('ZADD', KEYS[1], ARGV[2], id)
end`

/** Jobs that stand in one set, due or lapsed for long; `after` keeps their ids apart from those of another set. */
async function backlog(
  queue: string,
  set: 'schedule' | 'active' | 'dead' | 'pending',
  count: number,
  after = 0,
): Promise<void> {
  const keys = keyspace(queue)
  const state = set === 'schedule' ? 'scheduled' : set
  const score = set === 'schedule' || set === 'active' ? 1 : 0
  await raw.run(
    'EVAL',
    FILL,
    2,
    keys[set],
    keys.jobPrefix,
    state,
    score,
    count,
    set === 'schedule' ? 0 : 1,
    after,
  )
}

const post = (api: Api, queue: string, path: string, body: object = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)
const counts = async (api: Api, queue: string) => (await api.call('GET', `/v1/queues/${queue}`)).json.counts

describe('34: ten thousand of a kind', () => {
  const COUNT = 10_000

  test.each([
    ['promote', 'schedule', {}, 'promoted', 'pending'],
    ['reap', 'active', {}, 'reaped', 'pending'],
    ['redrive', 'dead', {}, 'redriven', 'pending'],
    ['purge', 'dead', { state: 'dead' }, 'removed', undefined],
    ['purge', 'pending', { state: 'pending' }, 'removed', undefined],
    ['purge', 'schedule', { state: 'scheduled' }, 'removed', undefined],
  ] as const)('%s of %s %j with the largest limit', async (path, set, body, counted, where) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await backlog(queue, set, COUNT)
    const steps: number[] = []
    for (let more = true; more; ) {
      const { status, json, text } = await post(api, queue, path, { ...body, limit: 1000 })
      expect(status, text).toBe(200)
      steps.push(json[counted])
      more = json.more
    }
    expect(steps.filter((step) => step > 0)).toEqual(Array(10).fill(1000))
    if (where === undefined) expect(await keysOf(raw.port, queue)).toEqual([])
    else expect(await raw.run('ZCARD', keyspace(queue)[where])).toBe(COUNT)
    expect(await census(raw.port, queue)).toEqual([])
  })

  test('maintenance takes due and lapsed ones together, within its budget, and leaves nothing', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    await backlog(queue, 'schedule', COUNT / 2)
    await backlog(queue, 'active', COUNT / 2, COUNT / 2)
    const scoped = apiOn(shared, { EMQ_QUEUES: queue })
    const report = (await scoped.call('POST', '/v1/maintenance', {})).json
    expect(report).toMatchObject({
      promoted: COUNT / 2,
      reaped: COUNT / 2,
      dead: 0,
      ghosts: 0,
      remaining: [],
    })
    expect(await counts(api, queue)).toEqual({ pending: COUNT, active: 0, scheduled: 0, dead: 0 })
    expect(await census(raw.port, queue)).toEqual([])
  })
})

describe('35: a hundred thousand due', () => {
  const report: string[] = []
  afterAll(() => console.info(report.join('\n')))

  test('one promote is bounded, says that there is more, and an enqueue beside it is not held up', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    for (let part = 0; part < 4; part++) await backlog(queue, 'schedule', 25_000, part * 25_000)
    await post(api, queue, 'jobs', { payload: 1 })
    const timed = async (work: Promise<{ status: number }>): Promise<number> => {
      const startedAt = performance.now()
      expect((await work).status).toBeLessThan(300)
      return performance.now() - startedAt
    }
    const promote = post(api, queue, 'promote', { limit: 1000 })
    const [promoteMs, enqueueMs, claimMs] = await Promise.all([
      timed(promote),
      timed(post(api, queue, 'jobs', { payload: 1 })),
      timed(post(api, queue, 'claim', { limit: 1 })),
    ])
    expect((await promote).json).toEqual({ promoted: 1000, more: true })
    report.push(
      `promote of 1000 out of 100,000 due: ${promoteMs.toFixed(1)} ms; beside it an enqueue ${enqueueMs.toFixed(1)} ms, a claim ${claimMs.toFixed(1)} ms`,
    )
    expect(enqueueMs).toBeLessThan(1_000)
    expect((await post(api, queue, 'promote')).json).toEqual({ promoted: 100, more: true })
  })
})
