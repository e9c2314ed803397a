/**
 * Mixed fleets: consumers of Redis and consumers of the Worker share one queue, while jobs fail and consumers stall
 * beyond their leases. Their own output shows that exactly one `complete` of every job was accepted.
 */
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { groups, integer, list, text } from '../../src/queue/replies.ts'
import type { Child, Line } from './support/child.ts'
import { buildConsumers, type Consumers, type Kind } from './support/consumers.ts'
import type { Delivery } from './support/mail-api.ts'
import { atRest, emails, localStack, type Scene, scene, untilLooking } from './support/scene.ts'

const LEASE_MS = 1_000

const local = localStack()
let consumers: Consumers
beforeAll(() => {
  consumers = buildConsumers()
})
afterAll(() => consumers?.remove())

const said = (child: Child, event: string): Line[] => child.lines.filter((line) => line.event === event)

/** The mail API takes a few milliseconds, and is busy at the first attempt of every tenth job. */
const answer = async ({ to, nth }: Delivery): Promise<number> => {
  await setTimeout(5)
  return nth === 1 && to.includes('0@') ? 503 : 202
}

/** Stops a consumer until others have claimed its jobs. */
async function stall(child: Child, { queue, place }: Scene): Promise<void> {
  child.process.kill('SIGSTOP')
  const [reply] = await local.port.send([['ZRANGE', keyspace(place.queue).active, 0, -1, 'WITHSCORES']])
  const held = groups(list(reply), 2).map(([id, deadline]) => ({ id: text(id), deadline: integer(deadline) }))
  const stillHeld = async () => {
    const views = await Promise.all(held.map(({ id }) => queue.job(id)))
    return views.filter((view, nth) => Date.parse(view?.leaseUntil ?? '') === held[nth]?.deadline).length
  }
  await expect.poll(stillHeld, { timeout: 30_000 }).toBe(0)
  child.process.kill('SIGCONT')
}

test.each<[Kind, number]>([
  ['go', 2000],
  ['python', 400],
])(
  'a %s consumer and a consumer of the Worker complete each of %d jobs exactly once',
  async (kind, count) => {
    const stage = await scene(local, answer, LEASE_MS)
    const { queue, place } = stage
    // Both consumers run before most jobs are enqueued.
    const [first, ...others] = emails(count)
    const jobs = await queue.enqueueMany(first ? [first] : [])
    const atWorker = consumers.node(place)
    await atWorker.until({ event: 'completed' })
    await queue.pause()
    const atRedis = consumers[kind](place)
    await untilLooking(local)
    jobs.push(...(await queue.enqueueMany(others)))
    await queue.resume()

    const left = async () => {
      const { counts } = await queue.stats()
      return counts.pending
    }
    for (let seen = 0; (await left()) > 0; ) {
      const worked = async () => said(atRedis, 'completed').length > seen || (await left()) === 0
      await expect.poll(worked, { timeout: 30_000 }).toBe(true)
      await stall(atRedis, stage)
      seen = said(atRedis, 'completed').length + 200
    }

    expect(await atRest(local, queue)).toEqual({ completed: count, failed: 0, ghosts: 0, dead: 0 })
    // Exactly once: no id is missing, and none occurs twice.
    const completed = () => [...said(atRedis, 'completed'), ...said(atWorker, 'completed')]
    const ledger = () => completed().map(({ id = '' }) => id)
    await expect
      .poll(() => ledger().toSorted(), { timeout: 5_000 })
      .toEqual(jobs.map((job) => ('id' in job ? job.id : '')))
    // Both consumers completed a share, some jobs failed, and some leases lapsed.
    const retried = [...said(atRedis, 'retried'), ...said(atWorker, 'retried')]
    const lapsed = completed().filter(
      ({ id, token }) => token !== 1 && !retried.some((line) => line.id === id),
    )
    expect(said(atRedis, 'completed').length).toBeGreaterThan(count / 20)
    expect(said(atWorker, 'completed').length).toBeGreaterThan(count / 20)
    expect(retried.length).toBeGreaterThanOrEqual(count / 20)
    expect(lapsed.length).toBeGreaterThan(0)
  },
)
