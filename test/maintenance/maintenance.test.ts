/**
 * Maintenance: the cost of an idle run, the next visit of a queue, and runs that meet a failing queue, a lost request, a
 * used budget, a wrong clock or a second run.
 */
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type MaintenanceReport, maintain } from '../../src/maintenance/maintenance.ts'
import { GLOBAL_KEYS } from '../../src/protocol/keys.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { createDatabase, type Database } from '../../src/queue/database.ts'
import { WireVersionError } from '../../src/queue/fence.ts'
import { type Command, type RedisPort, UpstreamError } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { type Hand, handOn } from '../queue/support/hand.ts'
import { idsOf } from '../queue/support/results.ts'
import { freshQueue } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { serverNow, untilServer } from '../support/clock.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

// Many round trips, which are slow on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const shared = sharedRedis()
const raw = rawRedis(shared)
let port: RedisPort
beforeAll(() => {
  port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
})
beforeEach(async () => {
  await raw.run('FLUSHALL')
  await shared.bridge.reset()
})

const MINUTE_MS = 60_000
const REST_MS = 15 * MINUTE_MS

describe('a deployment at rest', () => {
  test('a minute with a hundred queues at rest costs two commands: one reads the registry and one writes the mark', async () => {
    let clock = Date.now()
    const database = databaseOn(port, () => clock)
    const queues = Array.from({ length: 100 }, () => freshQueue())
    for (const queue of queues) await raw.run('ZADD', GLOBAL_KEYS.queues, 5, queue)
    // After an enqueue a queue is visited once more, half a minute later, before it rests.
    expect((await maintain(database)).queues).toBe(100)
    expect((await runAfter(MINUTE_MS)).queues).toBe(100)
    // They rest until the next quarter of an hour, which may be near: this test needs a whole one.
    const rest = (await serverNow(raw.port)) + REST_MS
    for (const queue of queues) await raw.run('ZADD', GLOBAL_KEYS.queues, rest, queue)

    const lines: string[] = []
    const costs: Record<string, number>[] = []
    for (let minute = 1; minute <= 12; minute++) {
      clock += MINUTE_MS
      await shared.bridge.reset()
      const report = await maintain(database)
      expect(report).toEqual({
        ...{ queues: 0, promoted: 0, reaped: 0, dead: 0, ghosts: 0, remaining: [], failures: [] },
      })
      const { requests, total, commands } = await shared.bridge.counts()
      lines.push(`minute ${minute}: ${total} commands, ${requests} requests ${JSON.stringify(commands)}`)
      costs.push(commands)
      const mark = Number(await raw.run('GET', GLOBAL_KEYS.maintenance))
      expect(Math.abs(database.clock.now() - mark)).toBeLessThan(1_000)
    }
    console.info(`100 queues at rest, cost of a minute:\n  ${lines.join('\n  ')}`)
    expect(costs).toEqual(costs.map(() => ({ zrange: 1, set: 1 })))
  })

  test('a run overwrites a mark that is old, in the future or not a number', async () => {
    const database = databaseOn()
    for (const wrong of [-10 * MINUTE_MS, 10 * MINUTE_MS, Number.NaN]) {
      await raw.run('SET', GLOBAL_KEYS.maintenance, String((await serverNow(raw.port)) + wrong))
      await maintain(database)
      const mark = Number(await raw.run('GET', GLOBAL_KEYS.maintenance))
      expect(Math.abs(mark - (await serverNow(raw.port)))).toBeLessThan(5_000)
    }
  })

  test('a run without a queue to sweep does not read the wire version', async () => {
    const database = databaseOn()
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:4.0.0')
    expect(await maintain(database)).toMatchObject({ queues: 0, remaining: [], failures: [] })
    await raw.run('DEL', GLOBAL_KEYS.version)
  })

  test('queues at rest are all visited next at the same quarter of an hour', async () => {
    const queues = [freshQueue(), freshQueue(), freshQueue()]
    for (const queue of queues) {
      await raw.run('ZADD', GLOBAL_KEYS.queues, 5, queue)
      await runAfter(0)
    }
    await runAfter(MINUTE_MS)
    const visits = await Promise.all(queues.map(visitAt))
    for (const visit of visits) {
      expect((visit ?? Number.NaN) % REST_MS).toBe(0)
      expect((visit ?? 0) - (await serverNow(raw.port))).toBeLessThanOrEqual(REST_MS)
    }
  })

  test('a queue at rest is swept every quarter of an hour, with the jobs that other clients left', async () => {
    const hand = handOf()
    await enqueue(databaseOn(), hand.queue)
    const [id = ''] = (await hand.claim()) as string[]
    await hand.complete(id, 1)
    await runAfter(0)
    await runAfter(MINUTE_MS)
    // A client of the core scripts writes no registry.
    await hand.enqueue(idOf(1))
    await hand.claim()
    await hand.retry(idOf(1), 1, 0, 0)

    // The next quarter of an hour may be near.
    expect(await runAfter(0)).toMatchObject({ queues: 0, promoted: 0 })
    expect(await runAfter(MINUTE_MS + REST_MS + 1_000)).toMatchObject({ queues: 1, promoted: 1 })
    await expectConsistent(raw.port, hand.queue)
  })

  test('a queue of EMQ_QUEUES is swept in every run without a place in the registry', async () => {
    const hand = handOf()
    for (const round of [1, 2]) {
      await hand.enqueue(idOf(round))
      await hand.claim(0)
      await untilServer(raw.port, (await serverNow(raw.port)) + 1)
      expect(await runAfter(0)).toMatchObject({ queues: 0, reaped: 0 })
      expect(await runAfter(0, { always: [hand.queue] })).toMatchObject({ queues: 1, reaped: 1 })
      await hand.claim()
      await hand.complete(idOf(round), 2)
    }
    expect(await visitAt(hand.queue)).toBeUndefined()
    await expectConsistent(raw.port, hand.queue)
  })

  test('a due queue of EMQ_QUEUES is swept once in a run', async () => {
    const queue = freshQueue()
    await enqueue(databaseOn(), queue)
    expect(await runAfter(0, { always: [queue, queue] })).toMatchObject({ queues: 1 })
  })
})

describe('the next visit of a queue', () => {
  test('delayed jobs of many queues are promoted by the first run after their time', async () => {
    const database = databaseOn()
    const queues = Array.from({ length: 12 }, () => freshQueue())
    await Promise.all(queues.map((queue, nth) => enqueue(database, queue, 20 + 37 * nth)))
    let promoted = 0
    await until(async () => {
      const from = await serverNow(raw.port)
      promoted += (await maintain(database)).promoted
      for (const queue of queues) {
        const [, due] = (await raw.run('ZRANGE', `emq:{${queue}}:schedule`, 0, 0, 'WITHSCORES')) as string[]
        if (due !== undefined) expect(Number(due)).toBeGreaterThan(from)
      }
      return promoted === queues.length
    })
    await expectConsistent(raw.port, ...queues)
  })

  test('a queue with only scheduled jobs is visited next when its first job is due, or at the quarter of an hour before', async () => {
    const queue = freshQueue()
    const database = databaseOn()
    for (const delayMs of [30_000, 20 * MINUTE_MS]) {
      await enqueue(database, queue, delayMs)
      await runAfter(0)
      await runAfter(MINUTE_MS)
      const [, due] = (await raw.run('ZRANGE', `emq:{${queue}}:schedule`, 0, 0, 'WITHSCORES')) as string[]
      const quarter = Math.ceil((await serverNow(raw.port)) / REST_MS) * REST_MS
      const visit = await visitAt(queue)
      expect(visit).toBe(Math.min(Number(due), quarter))
      const wait = Number(visit) - (await serverNow(raw.port))
      expect(await runAfter(wait - 1_000)).toMatchObject({ queues: 0 })
      expect(await runAfter(wait)).toMatchObject({ queues: 1 })
      await handOf(queue).purge('schedule')
    }
  })

  test('a job that the visit itself schedules is considered for the next visit', async () => {
    const hand = handOf()
    await hand.send('HSET', hand.keys.meta, 'backoffBaseMs', 10_000)
    await raw.run('ZADD', GLOBAL_KEYS.queues, 5, hand.queue)
    await lapsed(hand)
    await hand.reap()
    await hand.claim(0)
    await untilServer(raw.port, (await serverNow(raw.port)) + 1)
    expect(await runAfter(0)).toMatchObject({ queues: 1, reaped: 1 })
    const [, due] = (await raw.run('ZRANGE', hand.keys.schedule, 0, 0, 'WITHSCORES')) as string[]
    expect(await visitAt(hand.queue)).toBeLessThanOrEqual(Number(due))
    await expectConsistent(raw.port, hand.queue)
  })

  test('a queue with pending or active jobs is visited in every run', async () => {
    const hand = handOf()
    await enqueue(databaseOn(), hand.queue)
    for (const _ of [1, 2]) expect(await runAfter(0)).toMatchObject({ queues: 1 })
    await hand.claim()
    for (const _ of [1, 2]) expect(await runAfter(0)).toMatchObject({ queues: 1 })
  })

  test('a retry, a release and a lapse after the last visit are swept by the next run', async () => {
    const hand = handOf()
    await enqueue(databaseOn(), hand.queue, undefined, 3)
    await runAfter(0)
    const claims = (await hand.claimMany(3)) as string[]
    const [one = '', two = '', three = ''] = [claims[2], claims[9], claims[16]]
    await runAfter(0)
    await hand.retry(one, 1, 0, 0)
    await hand.settle([
      { action: 'release', id: two, token: 1, ms: 1 },
      { action: 'extend', id: three, token: 1, ms: 1 },
    ])
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    expect(await runAfter(0)).toMatchObject({ queues: 1, promoted: 2, reaped: 1 })
    await expectConsistent(raw.port, hand.queue)
  })

  test('an expired job is moved to dead by the next run in every state', async () => {
    const database = databaseOn()
    const [both, scheduledOnly] = [freshQueue(), freshQueue()]
    const startBy = (await serverNow(raw.port)) + 100
    await database.queue(both).enqueueMany([
      { payload: 'pending', startBy },
      { payload: 'scheduled', startBy, delayMs: 100_000 },
    ])
    await database.queue(scheduledOnly).enqueueMany([{ payload: 'x', startBy, delayMs: 100_000 }])
    // Visits before that time plan the next ones.
    let dead = (await maintain(database)).dead + (await maintain(database)).dead
    await untilServer(raw.port, startBy)
    dead += (await maintain(database)).dead
    expect(dead).toBe(3)
    await expectConsistent(raw.port, both, scheduledOnly)
  })

  test('a queue is visited in the next run after a redrive or a schedule', async () => {
    const database = databaseOn()
    const name = freshQueue()
    const queue = database.queue(name)
    const results = await queue.enqueueMany([{ payload: 'a', delayMs: 100_000 }, { payload: 'b' }])
    const [later = '', dead = ''] = idsOf(results)
    await queue.claim({ limit: 1 })
    await queue.settle([{ action: 'fail', id: dead, token: 1 }])
    for (const ms of [0, MINUTE_MS]) await runAfter(ms)
    expect(await runAfter(0)).toMatchObject({ queues: 0 })
    await queue.redrive(dead)
    expect(await runAfter(0)).toMatchObject({ queues: 1 })
    await queue.remove(dead)
    for (const ms of [0, MINUTE_MS]) await runAfter(ms)
    await queue.reschedule(later, { delayMs: 1 })
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    expect(await runAfter(0)).toMatchObject({ queues: 1, promoted: 1 })
    await expectConsistent(raw.port, name)
  })
})

describe('an enqueue in the middle of a run', () => {
  /** A port that does something just before it sends that script for the first time. */
  function meanwhile(script: keyof typeof SCRIPTS, happening: () => Promise<unknown>): RedisPort {
    let happened = false
    return {
      async send(commands) {
        if (!happened && commands.some(([, sha1]) => sha1 === SCRIPTS[script].sha1)) {
          happened = true
          await happening()
        }
        return port.send(commands)
      },
    }
  }

  test.each([
    ['sweep', 'due'],
    ['sweep', 'enqueued to before'],
    ['postpone', 'due'],
    ['postpone', 'enqueued to before'],
  ] as const)(
    'an enqueue just before the script %s is not missed by a queue that was %s',
    async (script, reason) => {
      for (const delayMs of [0, 10]) {
        await raw.run('FLUSHALL')
        const hand = handOf()
        const other = databaseOn()
        // The queue is in the registry, is empty, and is due for a visit.
        if (reason === 'due')
          await raw.run('ZADD', GLOBAL_KEYS.queues, (await serverNow(raw.port)) - 1, hand.queue)
        else {
          await enqueue(other, hand.queue)
          await hand.purge('pending')
        }
        const first = await maintain(databaseOn(meanwhile(script, () => enqueue(other, hand.queue, delayMs))))
        expect(await visitAt(hand.queue)).toBeLessThan(2 ** 40)
        await untilServer(raw.port, (await serverNow(raw.port)) + 11)
        const next = await runAfter(0)
        expect([next.queues, first.promoted + next.promoted]).toEqual([1, delayMs > 0 ? 1 : 0])
        expect(await hand.claim()).toHaveLength(3)
        await expectConsistent(raw.port, hand.queue)
      }
    },
  )

  test('a job that arrives after the visit is found by the next run', async () => {
    const hand = handOf()
    // The registry is written before the job, in another slot: a visit can fall between the two.
    await raw.run('ZADD', GLOBAL_KEYS.queues, 12_345, hand.queue)
    await runAfter(0)
    await hand.enqueueMany([{ id: idOf(1), delayMs: 1 }])
    expect(await runAfter(MINUTE_MS)).toMatchObject({ queues: 1 })
    await expectConsistent(raw.port, hand.queue)
  })

  test('an enqueue during two parallel runs keeps its early next visit', async () => {
    const hand = handOf()
    await raw.run('ZADD', GLOBAL_KEYS.queues, (await serverNow(raw.port)) - 1, hand.queue)
    const other = databaseOn()
    const slow = meanwhile('postpone', async () => {
      await maintain(databaseOn())
      await enqueue(other, hand.queue, 10)
    })
    await maintain(databaseOn(slow))
    expect(await visitAt(hand.queue)).toBeLessThan(2 ** 40)
  })
})

describe('a queue that fails', () => {
  test('a queue that fails does not stop the others, is reported, and is swept by the next run', async () => {
    const database = databaseOn()
    const queues = Array.from({ length: 20 }, () => freshQueue())
    for (const queue of queues) await enqueue(database, queue, 1)
    const broken = queues[7] ?? ''
    await raw.run('DEL', `emq:{${broken}}:schedule`)
    await raw.run('SET', `emq:{${broken}}:schedule`, 'of another type')
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)

    const report = await maintain(database)
    expect(report).toMatchObject({ queues: 19, promoted: 19, remaining: [broken] })
    expect(report.failures.map(({ queue }) => queue)).toEqual([broken])
    expect(report.failures[0]?.cause).toBeInstanceOf(UpstreamError)
    await expectConsistent(raw.port, ...queues.filter((queue) => queue !== broken))

    await raw.run('DEL', `emq:{${broken}}:schedule`)
    expect((await maintain(database)).failures).toEqual([])
  })

  test('queues whose request was lost are swept again in the same run', async () => {
    const database = databaseOn()
    const queues = Array.from({ length: 5 }, () => freshQueue())
    for (const queue of queues) await enqueue(database, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    shared.bridge.hangUp({ match: SCRIPTS.sweep.sha1 })
    expect(await maintain(database)).toMatchObject({ queues: 5, promoted: 5, failures: [], remaining: [] })
    await expectConsistent(raw.port, ...queues)
  })

  test('a queue whose requests are always lost fails alone', async () => {
    const database = databaseOn()
    const queues = Array.from({ length: 5 }, () => freshQueue())
    for (const queue of queues) await enqueue(database, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    const [broken = ''] = queues
    shared.bridge.hangUp({ match: `emq:{${broken}}:schedule`, times: Number.POSITIVE_INFINITY })
    const report = await maintain(database)
    expect(report).toMatchObject({ queues: 4, promoted: 4, remaining: [broken] })
    expect(report.failures.map(({ queue }) => queue)).toEqual([broken])
    await shared.bridge.reset()
    expect(await maintain(database)).toMatchObject({ promoted: 1, failures: [] })
    await expectConsistent(raw.port, ...queues)
  })

  test('queues whose next visit could not be written are reported, stay due, and stop no other', async () => {
    const database = databaseOn()
    // Two requests: the next visits of the first one are lost.
    const queues = Array.from({ length: 20 }, () => freshQueue())
    for (const queue of queues) await enqueue(database, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    shared.bridge.hangUp({ match: SCRIPTS.postpone.sha1 })
    const report = await maintain(database)
    expect(report).toMatchObject({ queues: 20, promoted: 20 })
    expect(report.failures).toHaveLength(16)
    expect(await maintain(database)).toMatchObject({ queues: 20, failures: [] })
    await expectConsistent(raw.port, ...queues)
  })

  test('a run whose mark could not be written keeps its work', async () => {
    const database = databaseOn()
    const queue = freshQueue()
    await enqueue(database, queue)
    shared.bridge.hangUp({ match: `"SET","${GLOBAL_KEYS.maintenance}"` })
    expect(await maintain(database)).toMatchObject({ queues: 1 })
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).toBeNull()
    await maintain(database)
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).not.toBeNull()
  })

  test('a run throws when the registry cannot be read', async () => {
    shared.bridge.hangUp({ match: GLOBAL_KEYS.queues })
    await expect(maintain(databaseOn())).rejects.toBeInstanceOf(UpstreamError)
    await raw.run('SET', GLOBAL_KEYS.queues, 'of another type')
    await expect(maintain(databaseOn())).rejects.toBeInstanceOf(UpstreamError)
  })
})

describe('a budget', () => {
  /** A port whose every request takes 100 ms of the run's clock, and that clock. */
  function slow(over: RedisPort = port) {
    const time = { now: Date.now(), trips: [] as (readonly Command[])[] }
    const slowed: RedisPort = {
      send(commands) {
        time.now += 100
        time.trips.push(commands)
        return over.send(commands)
      },
    }
    return { time, database: databaseOn(slowed, () => time.now) }
  }

  test('a run ends when its time budget is used, and the next run starts with the remaining queues', async () => {
    const plain = databaseOn()
    const queues = Array.from({ length: 40 }, () => freshQueue())
    for (const queue of queues) await enqueue(plain, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    // Requests: clock, registry, the visit of sixteen queues, their next visits. Then the budget is used.
    const first = await maintain(slow().database, { budgetMs: 350 })
    expect(first).toMatchObject({ queues: 16, promoted: 16, failures: [] })
    expect(first.remaining).toHaveLength(24)

    const second = slow()
    const report = await maintain(second.database, { budgetMs: 350 })
    expect(report).toMatchObject({ queues: 16, promoted: 16 })
    const visited = JSON.stringify(second.time.trips)
    expect(queues.filter((queue) => visited.includes(`emq:{${queue}}:`)).toSorted()).toEqual(
      first.remaining.slice(0, 16).toSorted(),
    )
    expect(await maintain(plain)).toMatchObject({ promoted: 8, remaining: [] })
    await expectConsistent(raw.port, ...queues)
  })

  test('a long queue does not use the time budget of short queues', async () => {
    const hand = handOf()
    const plain = databaseOn()
    for (let batch = 0; batch < 5; batch++) await enqueue(plain, hand.queue, 1, 1000)
    const short = freshQueue()
    await enqueue(plain, short, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    const report = await maintain(slow().database, { budgetMs: 450 })
    expect(report.remaining).toEqual([hand.queue])
    expect(report.promoted).toBeGreaterThan(1000)
    expect(await raw.run('ZCARD', `emq:{${short}}:pending`)).toBe(1)
    expect(await maintain(plain)).toMatchObject({ remaining: [] })
    expect(await raw.run('ZCARD', hand.keys.pending)).toBe(5000)
    await expectConsistent(raw.port, hand.queue, short)
  })

  test('a time budget limits a run in which every request fails', async () => {
    const plain = databaseOn()
    const queues = Array.from({ length: 16 }, () => freshQueue())
    for (const queue of queues) await enqueue(plain, queue)
    const { time, database } = slow()
    shared.bridge.hangUp({ match: SCRIPTS.sweep.sha1, times: Number.POSITIVE_INFINITY })
    const report = await maintain(database, { budgetMs: 500 })
    expect(report.queues).toBe(0)
    expect(report.remaining.toSorted()).toEqual(queues.toSorted())
    // Requests: clock, registry, version, the sweep of all queues, the sweep of one, and the mark.
    expect(time.trips.length).toBe(6)
  })
})

describe('two runs at once', () => {
  test('two parallel runs move and count each due and each lapsed job once', async () => {
    const hand = handOf()
    await lapsed(hand, 500)
    await enqueue(databaseOn(), hand.queue, 1, 500)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    const reports = await Promise.all([maintain(databaseOn()), maintain(databaseOn())])
    const sum = (count: 'promoted' | 'reaped') => reports.reduce((total, report) => total + report[count], 0)
    expect([sum('promoted'), sum('reaped')]).toEqual([500, 500])
    expect(reports.flatMap(({ failures }) => failures)).toEqual([])
    expect(await raw.run('ZCARD', hand.keys.pending)).toBe(1000)
    await expectConsistent(raw.port, hand.queue)
  })

  test('three parallel runs move each job to dead once', async () => {
    const hand = handOf()
    await hand.send('HSET', hand.keys.meta, 'maxAttempts', 1)
    await lapsed(hand, 300)
    const always = [hand.queue]
    const reports = await Promise.all([
      maintain(databaseOn(), { always }),
      maintain(databaseOn(), { always }),
      maintain(databaseOn(), { always }),
    ])
    expect(reports.reduce((total, { dead }) => total + dead, 0)).toBe(300)
    expect(await hand.send('HGET', hand.keys.failed, 'count')).toBe('300')
    await expectConsistent(raw.port, hand.queue)
  })
})

describe('a clock of the worker that is wrong', () => {
  test.each([10 * MINUTE_MS, -10 * MINUTE_MS])(
    'a Worker clock that is wrong by %d ms moves no job too early or too late',
    async (off) => {
      const database = databaseOn(port, () => Date.now() + off)
      const [due, later] = [freshQueue(), freshQueue()]
      await enqueue(database, due, 1)
      await enqueue(database, later, 5 * MINUTE_MS)
      await untilServer(raw.port, (await serverNow(raw.port)) + 2)
      expect(await maintain(database)).toMatchObject({ queues: 2, promoted: 1 })
      await maintain(database)
      expect(await raw.run('ZCARD', `emq:{${later}}:schedule`)).toBe(1)
      // The mark of the run and the next visits follow the server's clock.
      const now = await serverNow(raw.port)
      expect(Math.abs(Number(await raw.run('GET', GLOBAL_KEYS.maintenance)) - now)).toBeLessThan(5_000)
      const planned = (await visitAt(later)) ?? 0
      expect(planned).toBeGreaterThan(now)
      expect(planned).toBeLessThan(now + 5 * MINUTE_MS + 5_000)
      await expectConsistent(raw.port, due, later)
    },
  )
})

describe('a run for some queues only', () => {
  test('a run for some queues visits only them and writes no mark', async () => {
    const database = databaseOn()
    const [mine, theirs] = [`mine-${freshQueue()}`, freshQueue()]
    for (const queue of [mine, theirs]) await enqueue(database, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    const only = (queue: string): boolean => queue.startsWith('mine-')
    const report = await maintain(database, { only, always: [theirs] })
    expect(report).toMatchObject({ queues: 1, promoted: 1, remaining: [] })
    expect(await raw.run('ZCARD', `emq:{${theirs}}:schedule`)).toBe(1)
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).toBeNull()
    expect(await maintain(database)).toMatchObject({ promoted: 1 })
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).not.toBeNull()
    await expectConsistent(raw.port, mine, theirs)
  })
})

describe('the version check', () => {
  test('a run with a queue to sweep reads the wire version before it sweeps', async () => {
    const database = databaseOn()
    await maintain(database)
    for (const always of [false, true]) {
      const queue = freshQueue()
      if (!always) await raw.run('ZADD', GLOBAL_KEYS.queues, 5, queue)
      await raw.run('SET', GLOBAL_KEYS.version, 'echomq:4.0.0')
      const run = maintain(database, { always: always ? [queue] : [] })
      await expect(run).rejects.toBeInstanceOf(WireVersionError)
      expect(await visitAt(queue)).toBe(always ? undefined : 5)
      await raw.run('DEL', GLOBAL_KEYS.version, GLOBAL_KEYS.queues)
      await maintain(database)
    }
  })

  test('a run with another wire version stops before it writes anything', async () => {
    const database = databaseOn()
    const queue = freshQueue()
    await enqueue(database, queue, 1)
    await untilServer(raw.port, (await serverNow(raw.port)) + 2)
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:4.0.0')
    const before = await visitAt(queue)
    await expect(maintain(database)).rejects.toBeInstanceOf(WireVersionError)
    expect(await visitAt(queue)).toBe(before)
    expect(await raw.run('ZCARD', `emq:{${queue}}:schedule`)).toBe(1)
    expect(await raw.run('GET', GLOBAL_KEYS.maintenance)).toBeNull()
    await raw.run('SET', GLOBAL_KEYS.version, 'echomq:3.0.0')
    expect(await maintain(database)).toMatchObject({ promoted: 1 })
    await expectConsistent(raw.port, queue)
  })
})

test('one run visits all of a thousand due queues', async () => {
  const database = databaseOn()
  const queues = Array.from({ length: 1100 }, () => freshQueue())
  for (const queue of queues) await raw.run('ZADD', GLOBAL_KEYS.queues, 7, queue)
  // Some stay due after their visit, and some names are not queue names: they do not hide the others.
  for (const name of ['a}b', 'emq', '', 'x'.repeat(129)]) await raw.run('ZADD', GLOBAL_KEYS.queues, 1, name)
  for (const queue of queues.slice(0, 600)) await raw.run('ZADD', `emq:{${queue}}:pending`, 0, idOf(1))
  expect(await maintain(database)).toMatchObject({ queues: 1100, remaining: [], failures: [] })
})

function databaseOn(over: RedisPort = port, now?: () => number): Database {
  return createDatabase(over, { wireAccept: ['echomq:2.', 'echomq:3.'], wireClaim: undefined }, now)
}

/** A run that sees the server's clock that much later. */
async function runAfter(
  ms: number,
  options: Parameters<typeof maintain>[1] = {},
): Promise<MaintenanceReport> {
  const database = databaseOn()
  database.clock.learn((await serverNow(raw.port)) + ms, database.now())
  return maintain(database, options)
}

/** A queue without the bridge: what other clients and the tests themselves do. */
function handOf(queue = freshQueue()): Hand {
  return handOn(raw.port, queue)
}

async function visitAt(queue: string): Promise<number | undefined> {
  const score = await raw.run('ZSCORE', GLOBAL_KEYS.queues, queue)
  return score === null ? undefined : Number(score)
}

async function enqueue(database: Database, queue: string, delayMs?: number, count = 1): Promise<void> {
  await database.queue(queue).enqueueMany(Array.from({ length: count }, () => ({ payload: 'x', delayMs })))
}

function idOf(n: number): string {
  return `JOB${String(n).padStart(11, '0')}`
}

async function lapsed(hand: Hand, count = 1): Promise<void> {
  for (let n = 1; n <= count; n++) await hand.enqueue(idOf(n))
  for (let n = 1; n <= count; n++) await hand.claim(0)
  await untilServer(raw.port, (await serverNow(raw.port)) + 1)
}
