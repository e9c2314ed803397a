/** The audit: finds inconsistent jobs, repairs every case that has one correct fix, and never reports a healthy job. */
import { setTimeout } from 'node:timers/promises'
import * as fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { createMinter } from '../../src/protocol/ids.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import { accept } from '../../src/protocol/refusals.ts'
import { AUDIT_SETS, type AuditFinding, type AuditRequest } from '../../src/queue/audit.ts'
import { createCore } from '../../src/queue/core.ts'
import { createDatabase, type Database, type Queue } from '../../src/queue/database.ts'
import type { Command, RedisPort } from '../../src/queue/redis.ts'
import { groups, integer, list, optionalText, text } from '../../src/queue/replies.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { apiOn, freshQueue, TOKENS } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const minter = createMinter()
const mint = () => minter.mint()
let port: RedisPort
let database: Database

beforeAll(() => {
  port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
  database = createDatabase(port, { wireAccept: ['echomq:3.'], wireClaim: undefined })
})

type Keys = ReturnType<typeof keyspace>
type Fault = {
  readonly name: string
  /** What makes a healthy pending job inconsistent. */
  readonly commands: (keys: Keys, id: string) => Command[]
  readonly findings: readonly Pick<AuditFinding, 'kind' | 'sets'>[]
  /** Where the job is after the repair: its set and its score. */
  readonly places: Record<string, unknown>
  /** Undefined: the row is gone. */
  readonly state: string | undefined
}

const row = (state: string, attempts = '1') => ['state', state, 'attempts', attempts, 'payload', '{}']

const FAULTS: readonly Fault[] = [
  {
    name: 'a ghost whose row was evicted',
    commands: (keys, id) => [['DEL', keys.job(id)]],
    findings: [{ kind: 'ghost', sets: ['pending'] }],
    places: {},
    state: undefined,
  },
  {
    name: 'a ghost in two sets with a half row',
    commands: (keys, id) => [
      ['HDEL', keys.job(id), 'payload'],
      ['ZADD', keys.active, 5_000, id],
      ['ZADD', keys.startBy, 5_000, id],
    ],
    findings: [{ kind: 'ghost', sets: ['pending', 'active'] }],
    places: {},
    state: undefined,
  },
  {
    name: 'a half row in no set',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['HDEL', keys.job(id), 'payload'],
    ],
    findings: [{ kind: 'ghost', sets: [] }],
    places: {},
    state: undefined,
  },
  {
    name: 'a pending job in no set',
    commands: (keys, id) => [['ZREM', keys.pending, id]],
    findings: [{ kind: 'orphan', sets: [] }],
    places: { pending: 0 },
    state: 'pending',
  },
  {
    name: 'an active job in no set',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['HSET', keys.job(id), ...row('active')],
    ],
    findings: [{ kind: 'orphan', sets: [] }],
    places: { active: expect.any(Number) },
    state: 'active',
  },
  {
    name: 'a scheduled job in no set, which becomes pending because its due time is lost',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['HSET', keys.job(id), ...row('scheduled')],
    ],
    findings: [{ kind: 'orphan', sets: [] }],
    places: { pending: 0 },
    state: 'pending',
  },
  {
    name: 'a dead job in no set',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['HSET', keys.job(id), ...row('dead')],
    ],
    findings: [{ kind: 'orphan', sets: [] }],
    places: { dead: 0 },
    state: 'dead',
  },
  {
    name: 'a job in two sets, one of which its row names',
    commands: (keys, id) => [['ZADD', keys.schedule, 5_000, id]],
    findings: [{ kind: 'doubled', sets: ['pending', 'schedule'] }],
    places: { pending: 0 },
    state: 'pending',
  },
  {
    name: 'a job in two sets with a wrong score in the one that its row names',
    commands: (keys, id) => [
      ['HSET', keys.job(id), ...row('dead')],
      ['ZADD', keys.dead, 7, id],
    ],
    findings: [{ kind: 'doubled', sets: ['pending', 'dead'] }],
    places: { dead: 0 },
    state: 'dead',
  },
  {
    name: 'a job in two sets with a live lease, whose row names neither',
    commands: (keys, id) => [
      ['HSET', keys.job(id), ...row('dead')],
      ['ZADD', keys.active, 9_000_000_000_000, id],
    ],
    findings: [{ kind: 'doubled', sets: ['pending', 'active'] }],
    places: { active: 9_000_000_000_000 },
    state: 'active',
  },
  {
    name: 'a job in all four sets without a state',
    commands: (keys, id) => [
      ['HDEL', keys.job(id), 'state'],
      ['ZADD', keys.active, 9_000_000_000_000, id],
      ['ZADD', keys.schedule, 8_000_000_000_000, id],
      ['ZADD', keys.dead, 0, id],
    ],
    findings: [{ kind: 'doubled', sets: ['pending', 'active', 'schedule', 'dead'] }],
    places: { active: 9_000_000_000_000 },
    state: 'active',
  },
  {
    name: 'a job in schedule and dead whose row names neither',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['ZADD', keys.schedule, 8_000_000_000_000, id],
      ['ZADD', keys.dead, 0, id],
    ],
    findings: [{ kind: 'doubled', sets: ['schedule', 'dead'] }],
    places: { schedule: 8_000_000_000_000 },
    state: 'scheduled',
  },
  {
    name: 'a pending job with a score',
    commands: (keys, id) => [['ZADD', keys.pending, 1.5, id]],
    findings: [{ kind: 'score', sets: ['pending'] }],
    places: { pending: 0 },
    state: 'pending',
  },
  {
    name: 'a job whose row names another set',
    commands: (keys, id) => [['HSET', keys.job(id), 'state', 'active']],
    findings: [{ kind: 'state', sets: ['pending'] }],
    places: { pending: 0 },
    state: 'pending',
  },
  {
    name: 'a job with a wrong score and a wrong state',
    commands: (keys, id) => [
      ['ZREM', keys.pending, id],
      ['ZADD', keys.dead, -3, id],
    ],
    findings: [
      { kind: 'state', sets: ['dead'] },
      { kind: 'score', sets: ['dead'] },
    ],
    places: { dead: 0 },
    state: 'dead',
  },
]

test.each(FAULTS)('an audit finds and repairs $name', async ({ commands, findings, places, state }) => {
  const queue = database.queue(freshQueue())
  const keys = keyspace(queue.name)
  const [id, before, after] = [mint(), mint(), mint()]
  for (const job of [before, id, after]) await queue.enqueue(job, '{}')
  await port.send(commands(keys, id))
  const found = findings.map((finding) => ({ id, ...finding }))
  const broken = await everything(queue.name)

  expect(await auditAll(queue)).toMatchObject({ findings: found, repaired: 0 })
  expect(await everything(queue.name)).toEqual(broken)
  expect(await census(port, queue.name)).not.toEqual([])

  expect(await auditAll(queue, { repair: true })).toMatchObject({
    findings: found,
    repaired: found.length,
  })
  expect(await placesOf(queue.name, id)).toEqual(places)
  expect((await rowOf(queue.name, id))['state']).toBe(state)
  expect(await census(port, queue.name)).toEqual([])
  const stats = await queue.stats()
  expect(stats.ghosts).toBe(findings[0]?.kind === 'ghost' ? 1 : 0)

  expect(await auditAll(queue, { repair: true })).toMatchObject({ findings: [], repaired: 0 })
})

test('an audit reports a job without a state that is in no set, and does not repair it', async () => {
  const queue = database.queue(freshQueue())
  const keys = keyspace(queue.name)
  const nameless = mint()
  await queue.enqueue(nameless, '{}')
  await port.send([
    ['ZREM', keys.pending, nameless],
    ['HDEL', keys.job(nameless), 'state'],
  ])
  const broken = await everything(queue.name)

  expect(await auditAll(queue, { repair: true })).toMatchObject({
    findings: [{ id: nameless, kind: 'orphan', sets: [] }],
    repaired: 0,
  })
  expect(await everything(queue.name)).toEqual(broken)
})

test('an audit treats a key of the wrong type in the place of a row as a ghost', async () => {
  const queue = database.queue(freshQueue())
  const keys = keyspace(queue.name)
  const [listed, alone] = [mint(), mint()]
  await queue.enqueue(listed, '{}')
  await port.send([
    ['DEL', keys.job(listed)],
    ['SET', keys.job(listed), 'not a hash'],
    ['SADD', keys.job(alone), 'not a hash'],
  ])

  expect(await auditAll(queue, { repair: true })).toMatchObject({
    findings: [
      { id: listed, kind: 'ghost', sets: ['pending'] },
      { id: alone, kind: 'ghost', sets: [] },
    ],
    repaired: 2,
  })
  expect((await auditAll(queue, {})).findings).toEqual([])
  expect(await census(port, queue.name)).toEqual([])
})

test('the token of an active job in no set still completes the job after a repair', async () => {
  const { queue, id, token } = await orphaned()
  expect(await queue.complete(id, token)).toEqual(accept({ id, status: 'completed' }))
  expect(await census(port, queue.name)).toEqual([])
})

test('an active job in no set can be claimed after a repair', async () => {
  const { queue, id, token } = await orphaned()
  const { jobs } = await queue.claim({ limit: 1 })
  expect(jobs).toMatchObject([{ id, token: token + 1 }])
})

test('an active job in no set without budget becomes dead at the first reap after a repair', async () => {
  const { queue, id } = await orphaned(1)
  await queue.reap(100)
  expect(await rowOf(queue.name, id)).toMatchObject({ state: 'dead' })
  expect(await census(port, queue.name)).toEqual([])
})

test('an audit step of a set costs 6 commands and 2 for each id, of an empty set 1', async () => {
  const queue = database.queue(freshQueue())
  await queue.enqueueMany(Array.from({ length: 10 }, () => ({ payload: '1' })))
  await auditAll(queue)
  const costOf = async (walk: 'pending' | 'dead' | 'rows', repair = false) => {
    await shared.bridge.reset()
    const { checked } = await queue.audit({ cursor: { walk, at: '0' }, limit: 1000, repair })
    const { requests, total } = await shared.bridge.counts()
    return { checked, requests, total }
  }
  expect(await costOf('pending')).toEqual({ checked: 10, requests: 2, total: 26 })
  expect(await costOf('pending', true)).toEqual({ checked: 10, requests: 2, total: 27 })
  expect(await costOf('dead')).toEqual({ checked: 0, requests: 1, total: 1 })
  expect((await costOf('rows')).total).toBe(6)
})

test('a repair makes the queue due for maintenance, and an audit alone does not', async () => {
  const queue = database.queue(freshQueue())
  await queue.enqueue(mint(), '{}')
  await auditAll(queue)
  expect(await port.send([['ZSCORE', '{emq}:queues', queue.name]])).toEqual([null])
  await auditAll(queue, { repair: true })
  const [score] = await port.send([['ZSCORE', '{emq}:queues', queue.name]])
  expect(integer(score)).toBeLessThan(2 ** 40)
})

test('an audit changes no key of another queue and no key without a job id', async () => {
  const name = freshQueue()
  const [queue, longer] = [database.queue(name), database.queue(`${name}.x`)]
  const keys = keyspace(name)
  await longer.enqueue(mint(), '{}')
  await port.send([
    ['ZREM', keyspace(longer.name).pending, ...(await longer.browse(10))],
    ['HSET', keys.job('note'), 'payload', 'of no job'],
    ['HSET', keys.job('ORD0NgWEfAEJfs'), 'payload', 'of another kind'],
    ['SET', keys.idempotency('k'), 'v'],
  ])
  const [here, there] = [await everything(name), await everything(longer.name)]
  expect(await auditAll(queue, { repair: true })).toMatchObject({ findings: [] })
  expect(await everything(name)).toEqual(here)
  expect(await everything(longer.name)).toEqual(there)
  expect((await auditAll(longer)).findings).toHaveLength(1)
})

test('one repair makes any inconsistent queue consistent, and an audit alone changes nothing', {
  timeout: 60_000,
}, async () => {
  const place = fc.record({
    sets: fc.subarray([...AUDIT_SETS]),
    score: fc.constantFrom(0, 1, -2.5, 1e12),
    state: fc.constantFrom('pending', 'active', 'scheduled', 'dead', undefined, 'lost'),
    payload: fc.boolean(),
    attempts: fc.integer({ min: 0, max: 9 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(place, { minLength: 1, maxLength: 12 }), async (places) => {
      const queue = database.queue(freshQueue())
      const keys = keyspace(queue.name)
      const ids = places.map(() => mint())
      // The audit scans all keys, so the rows of earlier runs would make it slower.
      await port.send([['FLUSHALL']])
      await port.send(
        places.flatMap(({ sets, score, state, payload, attempts }, nth): Command[] => {
          const id = ids[nth] as string
          return [
            ['HSET', keys.job(id), 'attempts', attempts, ...(payload ? ['payload', '{}'] : [])],
            ...(state === undefined ? [] : [['HSET', keys.job(id), 'state', state]]),
            ...sets.map((set) => ['ZADD', keys[set], score, id]),
          ]
        }),
      )
      const broken = await everything(queue.name)
      const violations = await census(port, queue.name)
      const { findings } = await auditAll(queue, { limit: 5 })
      expect(await everything(queue.name)).toEqual(broken)
      expect(findings.length > 0).toBe(violations.length > 0)

      const repair = await auditAll(queue, { limit: 5, repair: true })
      expect(byId(repair.findings)).toEqual(byId(findings))
      // A job in no set with an unknown state has no correct place.
      const unrepairable = places.flatMap(({ sets, state, payload }, nth) =>
        sets.length === 0 && payload && (state === undefined || state === 'lost') ? [ids[nth]] : [],
      )
      expect(repair.repaired).toBe(findings.length - unrepairable.length)
      const left = (await census(port, queue.name)).sort()
      expect(left).toEqual(unrepairable.sort().map((id) => `${id} is in no set`))
      expect((await auditAll(queue)).findings.map(({ id }) => id).sort()).toEqual(unrepairable)
    }),
    { numRuns: 25 },
  )
})

test('an audit of a consistent queue of 1,000 jobs has no finding and changes nothing', async () => {
  const queue = database.queue(freshQueue())
  await queue.enqueueMany(
    Array.from({ length: 1000 }, (_, nth) => ({ payload: '1', delayMs: nth % 4 === 0 ? 60_000 : 0 })),
  )
  await queue.claim({ limit: 100, leaseMs: 60_000 })
  const { jobs } = await queue.claim({ limit: 100, leaseMs: 60_000 })
  await queue.settle(jobs.map(({ id, token }) => ({ action: 'fail', id, token })))
  const before = await everything(queue.name)

  const audit = await auditAll(queue, { repair: true })
  expect(audit).toMatchObject({ findings: [], repaired: 0 })
  // Each job is checked in its set and by its row. A scan may return a row twice.
  expect(audit.checked).toBeGreaterThanOrEqual(2000)
  expect(audit.steps).toBeGreaterThan(10)
  expect(await everything(queue.name)).toEqual(before)
})

test('audits and repairs of a queue under traffic have no finding and lose no job', {
  timeout: 60_000,
}, async () => {
  const queue = database.queue(freshQueue())
  // Jobs whose lease lapses often wait only for a short time.
  await queue.changeSettings({ backoff: { baseMs: 1, maxMs: 10 } })
  let [produced, completed, audits] = [0, 0, 0]
  const enough = (): boolean => audits >= 8
  const done = (): boolean => enough() && completed === produced

  /** Keeps 1,000 jobs in the queue until there were enough audits. */
  async function produce(): Promise<void> {
    while (!enough()) {
      await queue.enqueueMany(
        Array.from({ length: 50 }, (_, nth) => ({
          payload: '1',
          maxAttempts: 0,
          delayMs: nth % 5 === 0 ? 20 : 0,
        })),
      )
      produced += 50
      while (!enough() && produced - completed >= 1000) await setTimeout(1)
    }
  }
  async function consume(seed: number): Promise<void> {
    for (let round = seed; !done(); round += 1) {
      const { jobs } = await queue.claim({ limit: 20, leaseMs: round % 5 === 0 ? 10 : 5_000 })
      // A consumer that crashes: its leases lapse.
      if (round % 5 === 0) continue
      const { results } = await queue.settle(
        jobs.map(({ id, token }, nth) => {
          const settlement = { id, token }
          if (nth % 7 === 1) return { ...settlement, action: 'retry', delayMs: 5 }
          if (nth % 11 === 1) return { ...settlement, action: 'release', delayMs: 0 }
          if (nth % 13 === 1) return { ...settlement, action: 'fail' }
          return { ...settlement, action: 'complete' }
        }),
      )
      completed += results.filter((result) => result.ok && result.value.status === 'completed').length
    }
  }
  /** The core verbs, as clients in other languages use them. */
  async function consumeAlone(): Promise<void> {
    const core = createCore(port, queue.name)
    while (!done()) {
      const job = await core.claim(1_000)
      if (job === undefined) await core.promote(10)
      else if ((await core.complete(job.id, job.token)).ok) completed += 1
    }
  }
  async function redrive(): Promise<void> {
    while (!done()) await queue.redriveMany({ limit: 10 })
  }
  async function auditing(repair: boolean): Promise<void> {
    while (!done()) {
      expect((await auditAll(queue, { limit: 37, repair })).findings).toEqual([])
      audits += 1
    }
  }
  await Promise.all([
    produce(),
    consume(0),
    consume(2),
    consumeAlone(),
    redrive(),
    auditing(true),
    auditing(false),
  ])
  expect(completed).toBe(produced)
  expect(produced).toBeGreaterThan(1000)
  expect(await census(port, queue.name)).toEqual([])
})

test('POST audit checks step by step with a cursor, and repairs on request', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  const keys = keyspace(queue)
  const { json } = await api.call('POST', `/v1/queues/${queue}/jobs`, { payload: 1 })
  await port.send([['DEL', keys.job(json.id)]])

  const first = await api.call('POST', path(queue))
  expect(first.json).toEqual({
    checked: 1,
    findings: [{ id: json.id, kind: 'ghost', sets: ['pending'] }],
    repaired: 0,
    cursor: 'active:0',
  })
  const repaired = await api.call('POST', path(queue), { repair: true })
  expect(repaired.json).toMatchObject({ repaired: 1 })
  let { cursor } = repaired.json
  while (cursor !== undefined) {
    const step = await api.call('POST', path(queue), { cursor, limit: 1000 })
    expect(step).toMatchObject({ status: 200, json: { findings: [] } })
    cursor = step.json.cursor
  }
  expect(await census(port, queue)).toEqual([])
})

test('POST audit of an unused queue has no finding and creates no key', async () => {
  const api = apiOn(shared)
  const queue = freshQueue()
  let cursor: string | undefined
  do {
    const { status, json } = await api.call('POST', path(queue), { cursor, limit: 1000 })
    expect(status).toBe(200)
    expect(json).toMatchObject({ checked: 0, findings: [], repaired: 0 })
    cursor = json.cursor
  } while (cursor !== undefined)
  expect(await keysOf(port, queue)).toEqual([])
})

test.each([
  { cursor: '' },
  { cursor: 'pending' },
  { cursor: 'pending:-1' },
  { cursor: 'rows:0:1' },
  { cursor: 'job:0' },
  { cursor: 5 },
  { limit: 0 },
  { limit: 1001 },
  { limit: '5' },
  { repair: 'yes' },
  { repair: null },
  { dryRun: true },
])('POST audit rejects the body %j', async (body) => {
  const { status, json } = await apiOn(shared).call('POST', path('q'), body)
  expect(status).toBe(400)
  expect(json).toMatchObject({ code: 'invalid', errors: [{ path: Object.keys(body)[0] }] })
})

test('POST audit rejects a token without the scope operate', async () => {
  const { status } = await apiOn(shared).call('POST', path('q'), {}, { token: TOKENS.observer })
  expect(status).toBe(403)
})

/** A claimed job that a repair has put back into active. */
async function orphaned(maxAttempts?: number) {
  const queue = database.queue(freshQueue())
  const [job] = await queue.enqueueMany([{ payload: '1', maxAttempts }])
  const { jobs } = await queue.claim({ limit: 1, leaseMs: 60_000 })
  const { id, token } = jobs[0] as { id: string; token: number }
  expect(job).toEqual(accept({ id, status: 'enqueued' }))
  await port.send([['ZREM', keyspace(queue.name).active, id]])
  await auditAll(queue, { repair: true })
  return { queue, id, token }
}

function path(queue: string): string {
  return `/v1/queues/${queue}/audit`
}

/** All steps of an audit. */
async function auditAll(queue: Queue, options: Partial<AuditRequest> = {}) {
  const findings: AuditFinding[] = []
  let [checked, repaired, steps] = [0, 0, 0]
  let cursor: AuditRequest['cursor']
  do {
    const step = await queue.audit({ limit: 100, ...options, cursor })
    findings.push(...step.findings)
    checked += step.checked
    repaired += step.repaired
    cursor = step.cursor
    steps += 1
    expect(steps).toBeLessThan(1000)
  } while (cursor !== undefined)
  return { findings, checked, repaired, steps }
}

/** Everything that is stored of a queue. */
async function everything(queue: string): Promise<unknown> {
  const keys = (await keysOf(port, queue)).sort()
  if (keys.length === 0) return []
  const dumps = await port.send(keys.map((key) => ['DUMP', key]))
  return keys.map((key, nth) => [key, String(dumps[nth])])
}

async function rowOf(queue: string, id: string): Promise<Record<string, string | undefined>> {
  const [reply] = await port.send([['HGETALL', keyspace(queue).job(id)]])
  return Object.fromEntries(
    groups(list(reply), 2).map(([field, value]) => [text(field), optionalText(value)]),
  )
}

/** The sets that hold a job, with its scores. */
async function placesOf(queue: string, id: string): Promise<Record<string, number>> {
  const keys = keyspace(queue)
  const replies = await port.send(AUDIT_SETS.map((set) => ['ZSCORE', keys[set], id]))
  return Object.fromEntries(
    AUDIT_SETS.flatMap((set, nth) => (replies[nth] === null ? [] : [[set, integer(replies[nth])]])),
  )
}

/** Findings in order and without repeats: a scan of Redis has no order and may return a key twice. */
function byId(findings: readonly AuditFinding[]): string[] {
  return [...new Set(findings.map(({ id, kind, sets }) => `${id} ${kind} ${sets}`))].sort()
}
