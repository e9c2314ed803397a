/** Faults 34 and 35: backlogs. Every mass operation is limited, reports whether there is more, and blocks nobody. */
import { afterAll, describe, expect, test } from 'vitest'
import type { Keyspace } from '../../src/protocol/keys.ts'
import { apiOn } from '../support/api.ts'
import { expectConsistent, keysOf } from '../support/census.ts'
import { queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('34: ten thousand of a kind', () => {
  const COUNT = 10_000

  test.each([
    ['promote', 'schedule', {}, 'promoted', 'pending'],
    ['reap', 'active', {}, 'reaped', 'pending'],
    ['redrive', 'dead', {}, 'redriven', 'pending'],
    ['purge', 'dead', { state: 'dead' }, 'removed', undefined],
    ['purge', 'pending', { state: 'pending' }, 'removed', undefined],
    ['purge', 'schedule', { state: 'scheduled' }, 'removed', undefined],
  ] as const)(
    '%s of ten thousand %s jobs %j takes ten steps of the largest limit',
    async (path, set, body, counted, where) => {
      const queue = queueOn(apiOn(shared))
      await backlog(queue.keys, set, COUNT)
      const steps: number[] = []
      for (let more = true; more; ) {
        const { status, json, text } = await queue.post(path, { ...body, limit: 1000 })
        expect(status, text).toBe(200)
        steps.push(json[counted])
        more = json.more
      }
      expect(steps.filter((step) => step > 0)).toEqual(Array(10).fill(1000))
      if (where === undefined) expect(await keysOf(raw.port, queue.name)).toEqual([])
      else expect(await raw.run('ZCARD', queue.keys[where])).toBe(COUNT)
      await expectConsistent(raw.port, queue.name)
    },
  )

  test('maintenance moves ten thousand due and lapsed jobs in one run', async () => {
    const queue = queueOn(apiOn(shared))
    await backlog(queue.keys, 'schedule', COUNT / 2)
    await backlog(queue.keys, 'active', COUNT / 2, COUNT / 2)
    const scoped = apiOn(shared, { EMQ_QUEUES: queue.name })
    const report = (await scoped.call('POST', '/v1/maintenance', {})).json
    expect(report).toMatchObject({
      promoted: COUNT / 2,
      reaped: COUNT / 2,
      dead: 0,
      ghosts: 0,
      remaining: [],
    })
    expect(await queue.counts()).toEqual({ pending: COUNT, active: 0, scheduled: 0, dead: 0 })
    await expectConsistent(raw.port, queue.name)
  })
})

describe('35: a hundred thousand due', () => {
  const report: string[] = []
  afterAll(() => console.info(report.join('\n')))

  test('promote of a hundred thousand due jobs is limited, reports more and does not delay a parallel enqueue', async () => {
    const queue = queueOn(apiOn(shared))
    for (let part = 0; part < 4; part++) await backlog(queue.keys, 'schedule', 25_000, part * 25_000)
    await queue.post('jobs', { payload: 1 })
    const timed = async (work: Promise<{ status: number }>, status: number): Promise<number> => {
      const startedAt = performance.now()
      expect((await work).status).toBe(status)
      return performance.now() - startedAt
    }
    const promote = queue.post('promote', { limit: 1000 })
    const [promoteMs, enqueueMs, claimMs] = await Promise.all([
      timed(promote, 200),
      timed(queue.post('jobs', { payload: 1 }), 201),
      timed(queue.post('claim', { limit: 1 }), 200),
    ])
    expect((await promote).json).toEqual({ promoted: 1000, more: true })
    report.push(
      `promote of 1000 out of 100,000 due: ${promoteMs.toFixed(1)} ms; beside it an enqueue ${enqueueMs.toFixed(1)} ms, a claim ${claimMs.toFixed(1)} ms`,
    )
    expect(enqueueMs).toBeLessThan(1_000)
    expect((await queue.post('promote')).json).toEqual({ promoted: 100, more: true })
  })
})

const FILL = `
for i = ARGV[5] + 1, ARGV[5] + ARGV[3] do
  local id = 'JOB' .. string.format('%011d', i)
  redis.call('HSET', KEYS[2] .. id, 'state', ARGV[1], 'attempts', ARGV[4], 'payload', '1')
  redis.call('ZADD', KEYS[1], ARGV[2], id)
end`

/** Writes jobs to one set, due or lapsed; `after` separates their ids from those of another set. */
async function backlog(
  keys: Keyspace,
  set: 'schedule' | 'active' | 'dead' | 'pending',
  count: number,
  after = 0,
): Promise<void> {
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
