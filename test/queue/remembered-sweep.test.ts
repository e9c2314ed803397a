/** Claims without a limit: how old a remembered sweep may be, and how many sweeps run. */
import { expect, test } from 'vitest'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { createDatabase } from '../../src/queue/database.ts'
import type { RedisPort, Reply } from '../../src/queue/redis.ts'
import { type ClaimRules, createRememberedSweep } from '../../src/queue/remembered-sweep.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { serverNow, untilServer } from '../support/clock.ts'
import { bareRedis } from './support/bare.ts'
import { handOn } from './support/hand.ts'
import { idsOf } from './support/results.ts'

const RULES: ClaimRules = { paused: false, capped: false, leaseMs: 30_000, more: false }

test('207: a remembered sweep is used for one second, counted from before it was sent', async () => {
  const { sweeps, claim, at } = controlled()
  const first = claim()
  at(400)
  await sweeps[0]?.answer({ leaseMs: 1 })
  expect((await first).leaseMs).toBe(1)
  at(999)
  expect((await claim()).leaseMs).toBe(1)
  at(1_000)
  const later = claim()
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({ leaseMs: 2 })
  expect((await later).leaseMs).toBe(2)
})

test('207: a remembered sweep is not used by a claim that arrives a second after it was sent, however late its answer is', async () => {
  const { sweeps, claim, at } = controlled()
  const early = claim()
  at(1_500)
  const late = [claim(), claim(), claim()]
  expect(sweeps).toHaveLength(1)
  at(4_500)
  await sweeps[0]?.answer({ paused: false })
  expect((await early).paused).toBe(false)
  // The late claims share one sweep that was sent after they arrived.
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({ paused: true })
  for (const claim of late) expect((await claim).paused).toBe(true)
})

test('207: a sweep runs once for fifty claims at once', async () => {
  const { sweeps, claim } = controlled()
  const claims = Array.from({ length: 50 }, claim)
  expect(sweeps).toHaveLength(1)
  await sweeps[0]?.answer({})
  expect(await Promise.all(claims)).toEqual(Array(50).fill(RULES))
  expect(sweeps).toHaveLength(1)
})

test('207: a sweep runs again for the next claim while it reports that more jobs are due', async () => {
  const { sweeps, claim } = controlled()
  const together = [claim(), claim()]
  await sweeps[0]?.answer({ more: true })
  await Promise.all(together)
  expect(sweeps).toHaveLength(1)
  const next = claim()
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({})
  await next
  await claim()
  expect(sweeps).toHaveLength(2)
})

test('207: a remembered sweep is forgotten by a change through this isolate, even when it is still running', async () => {
  const { sweeps, claim, forget } = controlled()
  const before = claim()
  forget()
  const after = claim()
  await sweeps[0]?.answer({ leaseMs: 1 })
  expect((await before).leaseMs).toBe(1)
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({ paused: true })
  expect((await after).paused).toBe(true)
  forget()
  void claim()
  expect(sweeps).toHaveLength(3)
  await sweeps[2]?.answer({})
})

test('207: a sweep is not remembered when it fails, and its error goes to the claim that sent it', async () => {
  const { sweeps, claim } = controlled()
  const [first, second] = [claim(), claim()]
  const failed = expect(first).rejects.toThrow('Redis did not answer')
  await sweeps[0]?.fail()
  await failed
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({})
  expect(await second).toEqual(RULES)
})

test('207: a remembered sweep does not become younger when the clock is set back', async () => {
  const { sweeps, claim, at } = controlled()
  at(10_000)
  const first = claim()
  await sweeps[0]?.answer({})
  await first
  at(0)
  void claim()
  expect(sweeps).toHaveLength(2)
  await sweeps[1]?.answer({})
})

const redis = bareRedis()

const databaseOn = (port: RedisPort, now?: () => number) =>
  createDatabase(port, { wireAccept: [], wireClaim: undefined }, now)

test('207: a claim hands out no job when another isolate paused the queue more than a second before', async () => {
  const name = freshQueue()
  const { state, port } = holding()
  let clock = 0
  const queue = databaseOn(port, () => clock).queue(name)
  const other = databaseOn(redis.port).queue(name)
  await other.enqueueMany(Array.from({ length: 10 }, () => ({ payload: 'x' })))
  // Redis knows the script, so that one sweep is one round trip.
  await other.sweep(0)

  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  state.hold = () => held
  const before = queue.claim({})
  await expect.poll(() => state.sweeps).toBe(1)
  await other.pause()
  clock = 1_100
  const after = Array.from({ length: 5 }, () => queue.claim({}))
  clock = 4_500
  release()
  expect((await before).jobs).toHaveLength(1)
  expect(await Promise.all(after)).toEqual(Array(5).fill({ jobs: [], paused: true }))
  expect(state.sweeps).toBe(2)
})

test('207: a thousand due jobs are claimed one by one with ten sweeps', async () => {
  const name = freshQueue()
  const { state, port } = holding()
  const queue = databaseOn(port, () => 0).queue(name)
  const jobs = Array.from({ length: 1_000 }, () => ({ payload: 'x', delayMs: 1 }))
  const ids = idsOf(await queue.enqueueMany(jobs))
  await untilServer(redis.port, (await serverNow(redis.port)) + 2)
  const claimed = []
  for (const _ of ids) claimed.push(...(await queue.claim({})).jobs.map(({ id }) => id))
  expect(claimed.toSorted()).toEqual(ids.toSorted())
  expect(state.sweeps).toBe(10)
  expect(await census(redis.port, name)).toEqual([])
})

test('207: fifty claims at once run one sweep', async () => {
  const name = freshQueue()
  const { state, port } = holding()
  const queue = databaseOn(port).queue(name)
  const hand = handOn(redis.port, name)
  await hand.sweep()
  await queue.enqueueMany(Array.from({ length: 60 }, () => ({ payload: 'x' })))
  const claims = await Promise.all(Array.from({ length: 50 }, () => queue.claim({})))
  expect(new Set(claims.flatMap(({ jobs }) => jobs.map(({ id }) => id))).size).toBe(50)
  expect(state.sweeps).toBe(1)
})

/** A memory with a clock and sweeps that the test controls. */
function controlled() {
  let clock = 0
  const sweeps: { answer: (rules: Partial<ClaimRules>) => Promise<void>; fail: () => Promise<void> }[] = []
  const memory = createRememberedSweep(() => clock)
  const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
  const sweep = () =>
    new Promise<ClaimRules>((resolve, reject) => {
      sweeps.push({
        answer(rules) {
          resolve({ ...RULES, ...rules })
          return settled()
        },
        fail() {
          reject(new Error('Redis did not answer'))
          return settled()
        },
      })
    })
  return {
    sweeps,
    forget: memory.forget,
    claim: () => memory.current(sweep),
    at(ms: number) {
      clock = ms
    },
  }
}

/** A port that counts sweeps and can hold the answers of those that match. */
function holding() {
  const state = { sweeps: 0, hold: async (): Promise<void> => {} }
  const port: RedisPort = {
    async send(commands): Promise<readonly Reply[]> {
      const replies = await redis.port.send(commands)
      if (commands.some(([, sha1]) => sha1 === SCRIPTS.sweep.sha1)) {
        state.sweeps += 1
        await state.hold()
      }
      return replies
    },
  }
  return { state, port }
}
