/**
 * Conformance: plays the six gates of the protocol and further scenarios with the core scripts alone, over REST or RESP.
 * Uses its own queue names and deletes their keys at the end, so it can run against a database in use.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { createMinter } from '../protocol/ids.ts'
import { keyspace } from '../protocol/keys.ts'
import { accept, refuse } from '../protocol/refusals.ts'
import { SCRIPTS } from '../protocol/scripts.generated.ts'
import { type Core, createCore } from '../queue/core.ts'
import type { RedisPort } from '../queue/redis.ts'
import { groups, integer, list, optionalText, text } from '../queue/replies.ts'

/** What a gate works with: two clients of one queue of its own. */
type Stage = {
  readonly port: RedisPort
  readonly queue: Core
  readonly other: Core
  readonly keys: ReturnType<typeof keyspace>
  readonly mint: () => string
  readonly row: (id: string) => Promise<Record<string, string>>
  readonly scoreIn: (set: string, id: string) => Promise<string | undefined>
  /** Returns how many jobs and rows the queue has. */
  readonly remains: () => Promise<number>
}

type Gate = {
  readonly name: string
  /** What a passed gate proves. */
  readonly shows: string
  readonly play: (stage: Stage) => Promise<void>
}

const LEASE_MS = 30_000
const STALE = refuse({ refused: 'stale', reason: 'superseded' })
const RELEASED = refuse({ refused: 'stale', reason: 'released' })
const LAPSED = refuse({ refused: 'stale', reason: 'lapsed' })
const GONE = refuse({ refused: 'gone' })

/** Claims a job and fails without one. */
async function claimed(queue: Core, leaseMs = LEASE_MS) {
  const job = await queue.claim(leaseMs)
  assert.ok(job, 'the claim returned no job')
  return job
}

/** Repeats a sweep until it moves a job: the clock of the server decides when. */
async function until(sweep: () => Promise<number>): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if ((await sweep()) > 0) return
    await sleep(10)
  }
  assert.fail('no job was moved within two seconds')
}

function promoted(queue: Core): Promise<void> {
  return until(async () => (await queue.promote(10)).promoted)
}

function reaped(queue: Core): Promise<void> {
  return until(async () => (await queue.reap(10)).reaped)
}

const GATES: readonly Gate[] = [
  {
    name: 'L1 surface',
    shows:
      "the machine's surface: claim, complete, retry, promote, reap join enqueue, browse, pending_size -- five new verbs, every transition one script",
    async play({ queue, mint }) {
      const core = ['claim', 'complete', 'enqueue', 'promote', 'reap', 'retry'] as const
      for (const name of core) assert.match(SCRIPTS[name].sha1, /^[0-9a-f]{40}$/)
      assert.equal(SCRIPTS.claim.sha1, '2319de1e94e21dd355032c7a25b90636b53f36cd')
      const reads = ['browse', 'pendingSize'] as const
      assert.deepEqual(Object.keys(queue).sort(), [...core, ...reads].sort())
      const ids = [mint(), mint(), mint()]
      for (const id of ids)
        assert.deepEqual(await queue.enqueue(id, '{}'), accept({ id, status: 'enqueued' }))
      assert.deepEqual(await queue.browse(10), ids.toReversed())
      assert.equal(await queue.pendingSize(), 3)
    },
  },
  {
    name: 'L2 happy',
    shows:
      'claim hands out the oldest job with a server-clock lease and fencing token 1; complete with the right token retires the row -- nothing remains',
    async play({ port, queue, keys, mint, row, scoreIn, remains }) {
      const [first, second] = [mint(), mint()]
      await queue.enqueue(second, 'second')
      await queue.enqueue(first, 'first')
      assert.deepEqual(await row(first), { state: 'pending', attempts: '0', payload: 'first' })
      const job = await claimed(queue)
      assert.equal(job.id, first)
      assert.equal(job.token, 1)
      assert.deepEqual(await row(first), { state: 'active', attempts: '1', payload: 'first' })
      const [time] = await port.send([['TIME']])
      const left = Number(await scoreIn(keys.active, first)) - integer(list(time)[0]) * 1000
      assert.ok(
        left > LEASE_MS - 5_000 && left < LEASE_MS + 1_000,
        `the lease is ${left} ms from the server's now`,
      )
      assert.deepEqual(await queue.complete(first, 1), accept({ id: first, status: 'completed' }))
      assert.deepEqual(
        await queue.complete((await claimed(queue)).id, 1),
        accept({ id: second, status: 'completed' }),
      )
      assert.equal(await remains(), 0)
      assert.equal(await queue.claim(LEASE_MS), undefined)
    },
  },
  {
    name: 'L3 fence',
    shows:
      "a stale token is refused on the wire: EMQSTALE; the lease holder's work survives the zombie's complete",
    async play({ queue, mint, row }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      await claimed(queue)
      const before = await row(id)
      assert.deepEqual(await queue.complete(id, 99), STALE)
      assert.deepEqual(await queue.retry(id, 99, { delayMs: 0, maxAttempts: 2 }), STALE)
      assert.deepEqual(await row(id), before)
      assert.deepEqual(await queue.complete(id, 1), accept({ id, status: 'completed' }))
    },
  },
  {
    name: 'L4 schedule',
    shows:
      'retry parks the job in the schedule, promote moves the due back to pending, and the next claim hands token 2 -- one job, two lives, one counter',
    async play({ queue, mint, row }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      await claimed(queue)
      const retried = await queue.retry(id, 1, { delayMs: 20, maxAttempts: 5, error: 'boom' })
      assert.deepEqual(retried, accept({ id, status: 'scheduled', delayMs: 20 }))
      assert.equal((await row(id))['state'], 'scheduled')
      assert.equal(await queue.pendingSize(), 0)
      await promoted(queue)
      assert.equal((await claimed(queue)).token, 2)
      assert.deepEqual(await queue.complete(id, 1), STALE)
      assert.deepEqual(await queue.complete(id, 2), accept({ id, status: 'completed' }))
    },
  },
  {
    name: 'L5 dead',
    shows:
      'attempts 2 against max 2 is the morgue: state dead, last_error kept, and the dead set browses in mint order like everything else',
    async play({ port, queue, keys, mint, row }) {
      const ids = [mint(), mint()]
      for (const id of ids) await queue.enqueue(id, '{}')
      for (const token of [1, 2]) {
        for (const id of ids) {
          assert.equal((await claimed(queue)).id, id)
          await queue.retry(id, token, { delayMs: 0, maxAttempts: 2, error: `failed ${token}` })
        }
        if (token === 1) await promoted(queue)
      }
      for (const id of ids) {
        const { state, last_error: lastError } = await row(id)
        assert.deepEqual({ state, lastError }, { state: 'dead', lastError: 'failed 2' })
      }
      const [dead] = await port.send([['ZRANGE', keys.dead, '+', '-', 'BYLEX', 'REV']])
      assert.deepEqual(list(dead).map(text), ids.toReversed())
    },
  },
  {
    name: 'L6 reap',
    shows:
      "a 40 ms lease expires unanswered; reap returns the orphan to pending and the next claim holds token 2 -- crash recovery is one zset scan on the server's clock",
    async play({ queue, mint, row }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      await claimed(queue, 40)
      await reaped(queue)
      assert.equal((await row(id))['state'], 'pending')
      assert.equal((await claimed(queue)).token, 2)
      assert.deepEqual(await queue.complete(id, 2), accept({ id, status: 'completed' }))
    },
  },
]

const SCENARIOS: readonly Gate[] = [
  {
    name: 'S1 duplicate',
    shows: 'an enqueue with the id of an existing job returns duplicate and changes nothing, in every state',
    async play({ queue, mint, row }) {
      const id = mint()
      await queue.enqueue(id, 'first')
      assert.deepEqual(await queue.enqueue(id, 'second'), accept({ id, status: 'duplicate' }))
      await claimed(queue)
      assert.deepEqual(await queue.enqueue(id, 'second'), accept({ id, status: 'duplicate' }))
      assert.deepEqual(await row(id), { state: 'active', attempts: '1', payload: 'first' })
    },
  },
  {
    name: 'S2 kind',
    shows: 'an id of another kind is rejected before anything is written: EMQKIND',
    async play({ queue, mint, remains }) {
      assert.deepEqual(
        await queue.enqueue(mint().replace('JOB', 'USR'), '{}'),
        refuse({ refused: 'wrong_kind' }),
      )
      assert.equal(await remains(), 0)
    },
  },
  {
    name: 'S3 order',
    shows: 'jobs are delivered in the byte order of their ids, whatever the order of their enqueues',
    async play({ queue }) {
      const ids = ['JOB0Dq5JVGd5nZ', 'JOB0Dq5JVGd5na', 'JOB0KHTOWnGLuC', 'JOB0NgWEfAEJfs']
      for (const id of ids.toReversed()) await queue.enqueue(id, '{}')
      const claims = []
      for (const _ of ids) claims.push((await claimed(queue)).id)
      assert.deepEqual(claims, ids)
    },
  },
  {
    name: 'S4 gone',
    shows: 'a late report on a completed job returns gone and creates nothing',
    async play({ queue, mint, remains }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      await claimed(queue)
      await queue.complete(id, 1)
      assert.deepEqual(await queue.complete(id, 1), GONE)
      assert.deepEqual(await queue.retry(id, 1, { delayMs: 0, maxAttempts: 5 }), GONE)
      assert.equal(await remains(), 0)
    },
  },
  {
    name: 'S5 spent token',
    shows:
      'a consumer that has released a job has lost its token, whether the job is scheduled, pending or dead',
    async play({ queue, mint }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      assert.deepEqual(await queue.complete(id, 0), STALE)
      await claimed(queue)
      await queue.retry(id, 1, { delayMs: 0, maxAttempts: 2 })
      assert.deepEqual(await queue.complete(id, 1), RELEASED)
      await promoted(queue)
      assert.deepEqual(await queue.complete(id, 1), RELEASED)
      await claimed(queue)
      await queue.retry(id, 2, { delayMs: 0, maxAttempts: 2 })
      assert.deepEqual(await queue.complete(id, 2), RELEASED)
    },
  },
  {
    name: 'S6 late completion',
    shows: 'after the reap and before the next claim the last owner may complete the job, and nothing else',
    async play({ queue, mint, remains }) {
      const id = mint()
      await queue.enqueue(id, '{}')
      await claimed(queue, 20)
      await reaped(queue)
      assert.deepEqual(await queue.retry(id, 1, { delayMs: 0, maxAttempts: 5 }), LAPSED)
      assert.deepEqual(await queue.complete(id, 1), accept({ id, status: 'completed' }))
      assert.equal(await remains(), 0)
    },
  },
  {
    name: 'S7 ghost',
    shows: 'a ghost is removed when it is found, and blocks neither its id nor the next job',
    async play({ port, queue, keys, mint, remains }) {
      const [inPending, inActive, inSchedule, good] = [mint(), mint(), mint(), mint()]
      await port.send([
        ['ZADD', keys.pending, 0, inPending],
        ['ZADD', keys.active, 1, inActive],
        ['ZADD', keys.schedule, 1, inSchedule],
      ])
      await queue.enqueue(good, '{}')
      await queue.reap(10)
      await queue.promote(10)
      const ghost = await claimed(queue)
      assert.deepEqual([ghost.id, ghost.payload], [inPending, undefined])
      assert.deepEqual(await queue.complete(ghost.id, ghost.token), GONE)
      assert.equal((await claimed(queue)).id, good)
      assert.deepEqual(await queue.complete(good, 1), accept({ id: good, status: 'completed' }))
      assert.deepEqual(await queue.enqueue(inActive, '{}'), accept({ id: inActive, status: 'enqueued' }))
      await queue.complete((await claimed(queue)).id, 1)
      assert.equal(await remains(), 0)
    },
  },
  {
    name: 'S8 script flush',
    shows: 'every move reloads the scripts of a Redis that has lost them',
    async play({ port, queue, mint }) {
      const flush = () => port.send([['SCRIPT', 'FLUSH']])
      const id = mint()
      await flush()
      assert.deepEqual(await queue.enqueue(id, '{}'), accept({ id, status: 'enqueued' }))
      await flush()
      await claimed(queue)
      await flush()
      await queue.retry(id, 1, { delayMs: 0, maxAttempts: 5 })
      await flush()
      await promoted(queue)
      await flush()
      await queue.reap(10)
      await claimed(queue)
      await flush()
      assert.deepEqual(await queue.complete(id, 2), accept({ id, status: 'completed' }))
    },
  },
  {
    name: 'S9 two clients',
    shows: 'two clients never get the same job, and drain the queue together',
    async play({ queue, other, mint, remains }) {
      const ids = Array.from({ length: 40 }, mint)
      await Promise.all(ids.map((id) => queue.enqueue(id, '{}')))
      const done: string[] = []
      const work = async (core: Core) => {
        for (let job = await core.claim(LEASE_MS); job !== undefined; job = await core.claim(LEASE_MS)) {
          assert.ok((await core.complete(job.id, job.token)).ok)
          done.push(job.id)
        }
      }
      await Promise.all([work(queue), work(other)])
      assert.deepEqual(done.sort(), ids.sort())
      assert.equal(await remains(), 0)
    },
  },
]

export type ConformanceOptions = {
  /** The connection of the first client. The second has `other`, by default the same. */
  readonly port: RedisPort
  readonly other?: RedisPort
  /** Receives each line. Default: standard output. */
  readonly print?: (line: string) => void
}

function stageOf(port: RedisPort, other: RedisPort, name: string, mint: () => string): Stage {
  const keys = keyspace(name)
  return {
    port,
    queue: createCore(port, name),
    other: createCore(other, name),
    keys,
    mint,
    async row(id) {
      const [reply] = await port.send([['HGETALL', keys.job(id)]])
      return Object.fromEntries(groups(list(reply), 2).map(([field, value]) => [text(field), text(value)]))
    },
    async scoreIn(set, id) {
      const [reply] = await port.send([['ZSCORE', set, id]])
      return optionalText(reply)
    },
    async remains() {
      const [pending, active, schedule, dead] = await port.send(
        [keys.pending, keys.active, keys.schedule, keys.dead].map((key) => ['ZCARD', key]),
      )
      const rows = await rowKeys(port, keys.jobPrefix)
      return [pending, active, schedule, dead].map(integer).reduce((sum, size) => sum + size, rows.length)
    },
  }
}

async function rowKeys(port: RedisPort, prefix: string): Promise<string[]> {
  const found: string[] = []
  let cursor = '0'
  do {
    const [reply] = await port.send([['SCAN', cursor, 'MATCH', `${prefix}*`, 'COUNT', 1000]])
    const [next, keys] = list(reply)
    cursor = text(next)
    found.push(...list(keys).map(text))
  } while (cursor !== '0')
  return found
}

async function cleanUp({ port, keys }: Stage): Promise<void> {
  const rows = await rowKeys(port, keys.jobPrefix)
  const { pending, active, schedule, dead, completed, failed, ghosts } = keys
  await port.send([['DEL', pending, active, schedule, dead, completed, failed, ghosts, ...rows]])
}

/** Plays all gates and scenarios, prints one line for each, and returns whether all passed. */
export async function runConformance({
  port,
  other = port,
  print = console.log,
}: ConformanceOptions): Promise<boolean> {
  const minter = createMinter()
  const run = `conformance-${Date.now()}`
  async function play(gates: readonly Gate[]): Promise<number> {
    let passed = 0
    for (const gate of gates) {
      const stage = stageOf(port, other, `${run}-${gate.name.slice(0, 2)}`, minter.mint)
      try {
        await gate.play(stage)
        passed++
        print(`${gate.name} ok -- ${gate.shows}`)
      } catch (error) {
        const reason = error instanceof Error ? error.message.split('\n').join(' ') : 'failed'
        print(`${gate.name} FAILED -- ${reason}`)
      } finally {
        await cleanUp(stage).catch(() => print(`${gate.name}: the keys of its queue could not be deleted`))
      }
    }
    return passed
  }
  const gates = await play(GATES)
  const scenarios = await play(SCENARIOS)
  const isClean = gates === GATES.length && scenarios === SCENARIOS.length
  if (scenarios < SCENARIOS.length) print(`scenarios: ${scenarios} of ${SCENARIOS.length} passed`)
  print(`${isClean ? 'PASS' : 'FAIL'} ${gates}/${GATES.length}`)
  return isClean
}
