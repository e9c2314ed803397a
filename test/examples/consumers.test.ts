/**
 * The consumers of the examples, each a process of its own against the whole local stack: they work, fail, crash and
 * stop as a consumer must, in each language alike.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { text } from '../../src/queue/replies.ts'
import { startRedis } from '../../src/stack/redis-server.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { expectConsistent } from '../support/census.ts'
import { type Child, PROJECT } from './support/child.ts'
import { buildConsumers, type Consumers, type Kind } from './support/consumers.ts'
import { atRest, emails, localStack, scene, untilLooking } from './support/scene.ts'

/** For tests that wait until a lease lapses. */
const SHORT_LEASE_MS = 900

const local = localStack()
let consumers: Consumers
beforeAll(() => {
  consumers = buildConsumers()
})
afterAll(() => consumers?.remove())

/** A Redis for one test. */
async function otherRedis() {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const port = await createRespPort(redis.url)
  onTestFinished(() => port.close())
  return { redisUrl: redis.url, port }
}

const ids = (child: Child, event: string): string[] =>
  child.lines.filter((line) => line.event === event).map(({ id = '' }) => id)

describe.each<Kind>(['node', 'go', 'python'])('the %s consumer', (kind) => {
  test('a consumer completes jobs, retries a failed one and stops retrying when the budget is spent', async () => {
    const { mail, queue, place } = await scene(local, ({ to, nth }) =>
      to === 'never@example.com' || (to === 'busy@example.com' && nth === 1) ? 503 : 202,
    )
    const results = await queue.enqueueMany([
      { payload: { to: 'busy@example.com' } },
      { payload: { to: 'never@example.com' } },
      ...emails(20),
    ])
    const [busy, never, ...others] = results.map((job) => ('id' in job ? job.id : ''))
    const consumer = consumers[kind](place)

    await consumer.until({ event: 'dead', id: never ?? '', token: 3 })

    expect(await atRest(local, queue)).toEqual({ completed: 21, failed: 1, ghosts: 0, dead: 1 })
    expect((await queue.job(never ?? ''))?.lastError).toContain('503')
    await expect.poll(() => ids(consumer, 'completed').toSorted()).toEqual([busy, ...others].toSorted())
    expect(consumer.lines).toContainEqual({ event: 'retried', id: busy, token: 1 })
    expect(consumer.lines).toContainEqual({ event: 'completed', id: busy, token: 2 })
    expect(mail.ledger).toHaveLength(20 + 2 + 3)
    expect(consumer.stderr()).toBe('')
  })

  test('a job whose consumer is killed is completed exactly once by another', async () => {
    const { mail, queue, place } = await scene(
      local,
      ({ nth }) => (nth === 1 ? new Promise(() => {}) : 202),
      SHORT_LEASE_MS,
    )
    const { id } = await queue.enqueue({ to: 'ada@example.com' })
    const first = consumers[kind](place)
    await expect.poll(() => mail.ledger, { timeout: 30_000 }).toHaveLength(1)

    first.process.kill('SIGKILL')
    expect(await first.ended).toBe('SIGKILL')
    const second = consumers[kind](place)
    await second.until({ event: 'completed', id, token: 2 })

    expect(await atRest(local, queue)).toEqual({ completed: 1, failed: 0, ghosts: 0, dead: 0 })
    expect(mail.ledger).toEqual([1, 2].map((nth) => ({ id, to: 'ada@example.com', nth })))
    expect(ids(first, 'completed')).toEqual([])
  })

  test('a consumer finishes its active jobs on SIGTERM and starts no others', async () => {
    const held = Promise.withResolvers<number>()
    const { mail, queue, place } = await scene(local, () => held.promise)
    const results = await queue.enqueueMany(emails(30))
    const consumer = consumers[kind](place)
    const concurrency = kind === 'node' ? 10 : 4
    await expect.poll(() => mail.ledger, { timeout: 30_000 }).toHaveLength(concurrency)

    consumer.process.kill('SIGTERM')
    await consumer.until({ event: 'stopping' })
    held.resolve(202)

    expect(await consumer.ended).toBe(0)
    const begun = results.slice(0, concurrency).map((job) => ('id' in job ? job.id : ''))
    expect(ids(consumer, 'completed').toSorted()).toEqual(begun)
    expect((await queue.stats()).counts).toEqual({
      pending: 30 - concurrency,
      active: 0,
      scheduled: 0,
      dead: 0,
    })
    await expectConsistent(local.port, queue.name)
  })
})

test('the node consumer exits with 1 when its token is rejected and does not print it', async () => {
  const { place } = await scene(local)
  const token = 'not-a-token'

  const child = consumers.node({ ...place, token })

  expect(await child.ended).toBe(1)
  expect(child.stderr()).toContain('unauthorized')
  expect(child.stderr()).not.toContain(token)
})

describe.each<Exclude<Kind, 'node'>>(['go', 'python'])('the %s consumer, a client of Redis', (kind) => {
  test('a consumer of Redis claims nothing from a paused queue', async () => {
    const { mail, queue, place } = await scene(local)
    await queue.pause()
    const { id } = await queue.enqueue({ to: 'ada@example.com' })
    const consumer = consumers[kind](place)

    await untilLooking(local)
    expect(mail.ledger).toEqual([])
    expect((await queue.stats()).counts).toMatchObject({ pending: 1, active: 0 })

    await queue.resume()
    await consumer.until({ event: 'completed', id, token: 1 })
  })

  test('a consumer of Redis removes ghosts and completes the jobs after them', async () => {
    const { mail, queue, place } = await scene(local)
    const ghost = await queue.enqueue({ to: 'nobody@example.com' })
    const { id } = await queue.enqueue({ to: 'ada@example.com' })
    await local.port.send([['DEL', `emq:{${queue.name}}:job:${ghost.id}`]])
    const consumer = consumers[kind](place)

    await consumer.until({ event: 'completed', id })

    expect(await atRest(local, queue)).toEqual({ completed: 1, failed: 0, ghosts: 1, dead: 0 })
    expect(mail.ledger.map((delivery) => delivery.id)).toEqual([id])
  })

  test('a consumer of Redis survives closed connections and a lost script cache', async () => {
    const { queue, place } = await scene(local, () => 202, SHORT_LEASE_MS)
    const results = await queue.enqueueMany(emails(300))
    const connections = async (): Promise<string[]> => {
      const [reply] = await local.port.send([['CLIENT', 'LIST']])
      return text(reply).match(/(?<=^id=)\d+/gm) ?? []
    }
    const ofOthers = await connections()
    const consumer = consumers[kind](place)
    const done = () => ids(consumer, 'completed').length + ids(consumer, 'gone').length

    for (const share of [50, 120, 200]) {
      await expect.poll(done, { timeout: 30_000, interval: 5 }).toBeGreaterThan(share)
      const own = (await connections()).filter((id) => !ofOthers.includes(id))
      await local.port.send([['SCRIPT', 'FLUSH'], ...own.map((id) => ['CLIENT', 'KILL', 'ID', id])])
    }

    expect(await atRest(local, queue)).toEqual({ completed: 300, failed: 0, ghosts: 0, dead: 0 })
    const ended = [...ids(consumer, 'completed'), ...ids(consumer, 'gone')]
    await expect.poll(() => new Set(ended).size).toBe(300)
    expect(ended.toSorted()).toEqual(results.map((job) => ('id' in job ? job.id : '')))
  })

  test('a consumer of Redis does not start with changed scripts', async () => {
    const { place } = await scene(local)
    const lua = mkdtempSync(join(tmpdir(), 'emq-lua-'))
    onTestFinished(() => rmSync(lua, { recursive: true }))
    cpSync(join(PROJECT, 'lua'), lua, { recursive: true })
    await appendFile(join(lua, 'claim.lua'), '\n')

    const child = consumers[kind]({ ...place, lua: relative(PROJECT, lua) })

    expect(await child.ended).toBe(1)
    expect(child.stderr()).toContain('claim.lua has the SHA-1')
  })

  test('a consumer of Redis authenticates with a password', async () => {
    const { place } = await scene(local)
    const id = 'JOB0KHTOWnGLuC'
    const { job, pending } = keyspace(place.queue)
    const { redisUrl, port } = await otherRedis()
    await port.send([
      ['HSET', job(id), 'state', 'pending', 'attempts', 0, 'payload', '{"to":"ada@example.com"}'],
      ['ZADD', pending, 0, id],
      ['CONFIG', 'SET', 'requirepass', 'p@ss'],
    ])

    const { host } = new URL(redisUrl)
    const stranger = consumers[kind]({ ...place, redisUrl: `redis://${host}` })
    expect(await stranger.ended).toBe(1)
    expect(stranger.stderr()).toContain('NOAUTH')

    const consumer = consumers[kind]({ ...place, redisUrl: `redis://default:p%40ss@${host}` })
    await consumer.until({ event: 'completed', id, token: 1 })
  })

  test('a consumer of Redis does not start with another wire version', async () => {
    const { place } = await scene(local)
    const { redisUrl, port } = await otherRedis()
    await port.send([['SET', '{emq}:version', 'echomq:4.0.0']])

    const child = consumers[kind]({ ...place, redisUrl })

    expect(await child.ended).toBe(1)
    expect(child.stderr()).toContain('echomq:4.0.0')
  })
})

test('the Go consumer is formatted by gofmt and needs no module', () => {
  const folder = join(PROJECT, 'examples/go-consumer')
  expect(execFileSync('gofmt', ['-l', folder], { encoding: 'utf8' })).toBe('')
  expect(readFileSync(join(folder, 'go.mod'), 'utf8')).not.toContain('require')
})
