/** The invariants of the protocol under random moves of two clients, one after the other and at the same time. */
import fc from 'fast-check'
import { beforeAll, expect, test, vi } from 'vitest'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { bareRedis } from './support/bare.ts'
import { batch } from './support/claims.ts'
import { handOn } from './support/hand.ts'
import { anyMove, IDS, type Move, make, play, wordOf } from './support/random-moves.ts'
import { look, type Readable, type World, wipe } from './support/world.ts'

// Many round trips: on a busy machine they take their time.
vi.setConfig({ testTimeout: 60_000 })

const redis = bareRedis()
let second: RespPort
beforeAll(async () => {
  second = await createRespPort(redis.url)
  return () => second.close()
})

test('after every move of two clients the invariants hold, no token decreases, and no completed job is claimed', async () => {
  const step = fc.record({ client: fc.boolean(), move: anyMove(false) })
  const steps = fc.array(step, { minLength: 5, maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(steps, async (steps) => {
      const queue = freshQueue()
      const hands = [handOn(redis.port, queue), handOn(second, queue)] as const
      await hands[0].set('backoffBaseMs', 1, 'backoffMaxMs', 2)
      const witness = new Witness()
      let before = (await look(redis.port, queue)).world
      for (const { client, move } of steps) {
        const reply = await make(hands[client ? 1 : 0], move, before)
        const { world } = await look(redis.port, queue)
        witness.see(move, reply, before, world)
        before = world
        expect(violationsIn(world)).toEqual([])
      }
      await redis.clean({ queue })
      await wipe(redis.port, queue)
    }),
    { numRuns: 80 },
  )
})

test('a sweep, a claim and a purge remove all ghosts, and the invariants hold again', async () => {
  const losing = fc.array(anyMove(true), { minLength: 5, maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(losing, async (moves) => {
      const hand = redis.fresh()
      // The core enqueue has two keys and cannot remove a ghost from the other sets.
      const tidy = moves.map((move) =>
        move.do === 'enqueue' ? { ...move, do: 'enqueueMany' as const } : move,
      )
      await play(hand, tidy)
      // All leases lapse and all scheduled jobs become due; claims and sweeps then meet every id that is not dead.
      for (const key of [hand.keys.active, hand.keys.schedule])
        for (const id of IDS) await hand.send('ZADD', key, 'XX', 1, id)
      for (const _ of [1, 2]) {
        await hand.claimMany(10, 0)
        await redis.pass()
        await hand.sweep()
      }
      await hand.purge('dead')
      await redis.clean(hand)
      await wipe(redis.port, hand.queue)
    }),
    { numRuns: 60 },
  )
})

test('moves sent at the same time over two connections leave a consistent queue', async () => {
  const both = fc.array(fc.tuple(anyMove(false), anyMove(false)), { minLength: 5, maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(both, async (pairs) => {
      const queue = freshQueue()
      const [one, two] = [handOn(redis.port, queue), handOn(second, queue)]
      const { world } = await look(redis.port, queue)
      let known = world
      await Promise.all([
        ...pairs.map(async ([move]) => {
          await make(one, move, known)
          known = (await look(redis.port, queue)).world
        }),
        ...pairs.map(([, move]) => make(two, move, known)),
      ])
      await redis.clean({ queue })
      await wipe(redis.port, queue)
    }),
    { numRuns: 40 },
  )
})

/** Checks each move against what was seen of the moves before. */
class Witness {
  readonly #tokens = new Map<string, number>()
  readonly #completed = new Set<string>()

  see(move: Move, reply: Readable, before: World, after: World): void {
    for (const id of IDS) {
      const row = after.rows[id]
      if (row === undefined) this.#tokens.delete(id)
      else {
        const token = Number(row['attempts'])
        expect(token).toBeGreaterThanOrEqual(before.rows[id] ? (this.#tokens.get(id) ?? 0) : 0)
        this.#tokens.set(id, token)
      }
      // An id that was enqueued again is another job.
      if (!(id in before.rows) && row?.['state'] !== undefined && row['attempts'] === '0')
        this.#completed.delete(id)
    }
    const claimed =
      move.do === 'claim'
        ? (reply as Readable[]).slice(0, 1)
        : move.do === 'claimMany'
          ? batch(reply).ids
          : []
    for (const id of claimed) expect([...this.#completed]).not.toContain(id)
    const ended = move.do === 'complete' || (move.do === 'settle' && move.action === 'complete')
    if (ended && wordOf(reply) === 'completed') {
      this.#completed.add(move.id)
      expect(after.rows[move.id]).toBeUndefined()
      expect(after.completed).toBe(before.completed + 1)
    }
    const isReport = move.do === 'complete' || move.do === 'retry' || move.do === 'settle'
    if (isReport && ['superseded', 'released', 'lapsed', 'gone'].includes(wordOf(reply)))
      expect(after).toEqual(before)
  }
}

/** Violations of the invariants in a world: faster than a census, which runs once at the end. */
function violationsIn({ rows, pending, active, schedule, dead }: World): string[] {
  const sets = { pending, active, scheduled: schedule, dead }
  const places = (id: string) => Object.entries(sets).flatMap(([state, set]) => (id in set ? [state] : []))
  const violations = Object.entries(rows).flatMap(([id, row]) => {
    const where = places(id).join(' and ')
    return where === row['state'] && row['payload'] !== undefined
      ? []
      : [`${id}: ${row['state']} in ${where}`]
  })
  const listed = Object.values(sets).flatMap((set) => Object.keys(set))
  return [...violations, ...listed.filter((id) => !(id in rows)).map((id) => `${id} has no row`)]
}
