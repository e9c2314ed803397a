/**
 * A mixed fleet: clients with only the six core scripts over RESP, and this queue over REST, work one queue together.
 * Some of them fail, crash or report late.
 */
import { expect, test } from 'vitest'
import { createDatabase } from '../../src/queue/database.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { createBridge } from '../../src/stack/bridge/bridge.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { handOn } from './support/hand.ts'

const redis = bareRedis()

const JOBS = 10_000
const PLAIN_CLIENTS = 8
const OWN_CLIENTS = 2

/** What a client does with its next job, from a generator of its own. */
function behaviours(seed: number): () => 'work' | 'fail' | 'crash' | 'late' {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    const roll = (state >>> 8) % 100
    if (roll < 90) return 'work'
    return roll < 94 ? 'fail' : roll < 97 ? 'crash' : 'late'
  }
}

test('plain clients and REST clients together complete each of ten thousand jobs exactly once and leave no key', {
  timeout: 60_000,
}, async () => {
  const queue = freshQueue()
  const setup = handOn(redis.port, queue)
  await setup.send('HSET', setup.keys.meta, 'maxAttempts', 0, 'backoffBaseMs', 1, 'backoffMaxMs', 5)
  const bridge = await createBridge({ redisUrl: redis.url, token: 'fleet' })
  const completes = new Map<string, number>()
  const deliveries = { plain: 0, own: 0 }
  const accept = (id: string): void => {
    completes.set(id, (completes.get(id) ?? 0) + 1)
  }
  const isDone = (): boolean => completes.size >= JOBS
  const stopAt = performance.now() + 45_000
  const isRunning = (): boolean => !isDone() && performance.now() < stopAt

  async function plainClient(nth: number): Promise<void> {
    const port = await createRespPort(redis.url)
    const hand = handOn(port, queue)
    const next = behaviours(nth + 1)
    const late: { id: string; token: number }[] = []
    while (isRunning()) {
      const does = next()
      // A client that crashes or reports late loses its lease at once.
      const isLost = does === 'crash' || does === 'late'
      const [id, , token] = (await hand.claim(isLost ? 0 : 30_000)) as [string?, string?, number?]
      if (id === undefined || token === undefined) {
        await hand.promote(100)
        await hand.reap(100)
        continue
      }
      deliveries.plain += 1
      if (does === 'work' && (await hand.complete(id, token)) === 1) accept(id)
      if (does === 'fail') await hand.retry(id, token, 0, 0)
      if (does === 'late') late.push({ id, token })
      if (late.length > 3) {
        const report = late.shift()
        if (report && (await hand.complete(report.id, report.token)) === 1) accept(report.id)
      }
    }
    port.close()
  }

  async function ownClient(nth: number): Promise<void> {
    const port = createUpstashPort({ url: bridge.url, token: 'fleet', timeoutMs: 10_000 })
    const own = createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(queue)
    const next = behaviours(nth + 100)
    let late: { id: string; token: number }[] = []
    while (isRunning()) {
      const { jobs } = await own.claim({ limit: 20, leaseMs: 200 })
      deliveries.own += jobs.length
      const todo = jobs.map(({ id, token }) => ({ id, token, does: next() }))
      const reports = [
        ...todo.flatMap(({ id, token, does }) =>
          does === 'work' || does === 'fail'
            ? [
                does === 'work'
                  ? { action: 'complete' as const, id, token }
                  : { action: 'retry' as const, id, token, delayMs: 1 },
              ]
            : [],
        ),
        ...late.map(({ id, token }) => ({ action: 'complete' as const, id, token })),
      ]
      late = todo.filter(({ does }) => does === 'late')
      if (reports.length === 0) continue
      const { results } = await own.settle(reports)
      for (const result of results) {
        if (result.ok && result.value.status === 'completed') accept(result.value.id)
      }
    }
  }

  async function producer(): Promise<void> {
    const port = createUpstashPort({ url: bridge.url, token: 'fleet', timeoutMs: 10_000 })
    const own = createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(queue)
    for (let sent = 0; sent < JOBS; sent += 500)
      await own.enqueueMany(
        Array.from({ length: 500 }, (_, n) => ({
          payload: String(sent + n),
          ...(n % 10 === 0 ? { delayMs: n } : {}),
        })),
      )
  }

  const start = performance.now()
  await Promise.all([
    producer(),
    ...Array.from({ length: PLAIN_CLIENTS }, (_, nth) => plainClient(nth)),
    ...Array.from({ length: OWN_CLIENTS }, (_, nth) => ownClient(nth)),
  ])
  const took = ((performance.now() - start) / 1000).toFixed(1)
  const total = deliveries.plain + deliveries.own
  console.info(
    `${JOBS} jobs in ${took} s, ${total} deliveries: ${deliveries.plain} plain, ${deliveries.own} by REST`,
  )

  expect(completes.size).toBe(JOBS)
  expect([...completes.values()].every((times) => times === 1)).toBe(true)
  expect(await setup.send('HGET', setup.keys.completed, 'count')).toBe(String(JOBS))
  expect(Math.min(deliveries.plain, deliveries.own)).toBeGreaterThan(0)
  expect(total).toBeGreaterThan(JOBS)
  expect(await census(redis.port, queue)).toEqual([])
  const left = (await keysOf(redis.port, queue)).map((key) => key.replace(`emq:{${queue}}:`, ''))
  expect(left.sort()).toEqual(['meta', 'metrics:completed'])
  await bridge.stop()
})
