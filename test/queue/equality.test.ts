/**
 * An extension that does what a core script does does it to the letter: the same row, the same sets, the same counters,
 * the same answer. And whatever two clients do in whatever order, the invariants hold.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import { type Hand, handOn } from './support/hand.ts'
import { look, type Readable, serverNow, timeless, untilServer, type World, wipe } from './support/world.ts'

// Many round trips: on a machine that is busy with other things they take their time.
vi.setConfig({ testTimeout: 60_000 })

const redis = bareRedis()
let second: RespPort
beforeAll(async () => {
  second = await createRespPort(redis.url)
})
afterAll(() => second.close())

const IDS = ['JOB00000000001', 'JOB00000000002', 'JOB00000000003'] as const
const LONG_MS = 100_000

/** A move as data, so that it can be made twice, in two queues, and shrunk. Times are long, or over at once. */
type Move =
  | { readonly do: 'enqueue' | 'enqueueLater' | 'enqueueMany'; readonly id: string }
  | { readonly do: 'claim' | 'claimMany'; readonly lapses: boolean; readonly limit: number }
  | {
      readonly do: 'complete' | 'retry' | 'settle'
      readonly id: string
      /** How far from the newest token: 0 is right. */
      readonly off: number
      readonly action: 'complete' | 'retry' | 'fail' | 'release' | 'extend'
      readonly later: boolean
      readonly maxAttempts: '' | 0 | 1 | 2
    }
  | { readonly do: 'promote' | 'reap' | 'sweep'; readonly limit: number }
  | { readonly do: 'redrive' | 'remove' | 'reschedule'; readonly id: string }
  | { readonly do: 'loseRow'; readonly id: string }
  | { readonly do: 'redriveMany' }
  | { readonly do: 'drain'; readonly set: 'pending' | 'schedule' | 'dead' }

const id = fc.constantFrom(...IDS)
const limit = fc.integer({ min: 1, max: 3 })
const enqueues = fc.record({ do: fc.constantFrom('enqueue', 'enqueueLater', 'enqueueMany'), id })
const claims = fc.record({ do: fc.constantFrom('claim', 'claimMany'), lapses: fc.boolean(), limit })
const reports = fc.record({
  do: fc.constantFrom('complete', 'retry', 'settle'),
  id,
  off: fc.constantFrom(0, 0, 0, 0, -1, 1),
  action: fc.constantFrom('complete', 'retry', 'fail', 'release', 'extend'),
  later: fc.boolean(),
  maxAttempts: fc.constantFrom('', 0, 1, 2),
})
const pumps = fc.record({ do: fc.constantFrom('promote', 'reap', 'sweep'), limit })
const operations = fc.record({ do: fc.constantFrom('redrive', 'remove', 'reschedule'), id })
const masses = fc.oneof(
  fc.record({ do: fc.constant('redriveMany') }),
  fc.record({ do: fc.constant('drain'), set: fc.constantFrom('pending', 'schedule', 'dead') }),
)

const weighted = (ghosts: boolean): fc.Arbitrary<Move> =>
  fc.oneof(
    { weight: 4, arbitrary: enqueues },
    { weight: 5, arbitrary: claims },
    { weight: 6, arbitrary: reports },
    { weight: 3, arbitrary: pumps },
    { weight: 2, arbitrary: operations },
    { weight: 1, arbitrary: masses },
    { weight: ghosts ? 1 : 0, arbitrary: fc.record({ do: fc.constant('loseRow'), id }) },
  ) as fc.Arbitrary<Move>

const attemptsIn = (world: World, id: string): number => Number(world.rows[id]?.['attempts'] ?? 0)

/** Makes a move; what has been set to be over at once is over when this returns. */
async function make(hand: Hand, move: Move, world: World): Promise<Readable> {
  const { send, keys } = hand
  switch (move.do) {
    case 'enqueue':
      return hand.enqueue(move.id)
    case 'enqueueMany':
      return hand.enqueueMany([{ id: move.id, maxAttempts: 2 }])
    case 'enqueueLater':
      return hand.enqueueMany([{ id: move.id, delayMs: LONG_MS }])
    case 'claim':
    case 'claimMany': {
      const leaseMs = move.lapses ? 0 : LONG_MS
      const reply = await (move.do === 'claim' ? hand.claim(leaseMs) : hand.claimMany(move.limit, leaseMs))
      if (move.lapses) await untilServer(hand.port, (await serverNow(hand.port)) + 1)
      return reply
    }
    case 'complete':
    case 'retry':
    case 'settle': {
      const token = attemptsIn(world, move.id) + move.off
      const ms = move.later ? LONG_MS : 0
      if (move.do === 'complete') return hand.complete(move.id, token)
      if (move.do === 'retry') return hand.retry(move.id, token, ms, move.maxAttempts, 'boom', '0.5')
      const lease = move.action === 'extend' ? LONG_MS : ms
      const { action, id, maxAttempts } = move
      return hand.settle([{ action, id, token, ms: lease, maxAttempts, error: 'boom' }])
    }
    case 'promote':
    case 'reap':
    case 'sweep':
      return hand[move.do](move.limit)
    case 'redrive':
    case 'remove':
      return hand[move.do](move.id)
    case 'reschedule':
      return hand.reschedule(move.id, { delayMs: 0 })
    case 'redriveMany':
      return hand.redriveMany({ limit: 2 })
    case 'drain':
      return hand.purge(move.set, 2)
    case 'loseRow':
      return send('DEL', keys.job(move.id))
  }
}

/** Brings a queue where some moves lead. */
async function play(hand: Hand, moves: readonly Move[]): Promise<void> {
  for (const move of moves) await make(hand, move, (await look(hand.port, hand.queue)).world)
}

/** Plays the same moves in two queues, then another move in each, and holds what came of it side by side. */
async function sideBySide(
  moves: readonly Move[],
  one: (hand: Hand, world: World) => Promise<unknown>,
  other: (hand: Hand, world: World) => Promise<unknown>,
): Promise<void> {
  const told = []
  for (const way of [one, other]) {
    const hand = handOn(redis.port, freshQueue())
    await hand.send('HSET', hand.keys.meta, 'backoffBaseMs', LONG_MS)
    await play(hand, moves)
    const before = await look(redis.port, hand.queue)
    const answer = await way(hand, before.world)
    const { world, now } = await look(redis.port, hand.queue)
    const nameless = JSON.parse(JSON.stringify(timeless(world, now)).replaceAll(hand.queue, 'q'))
    told.push({ before: timeless(before.world, before.now).rows, answer, after: nameless })
    await wipe(redis.port, hand.queue)
  }
  expect(told[1]).toEqual(told[0])
}

const histories = (ghosts: boolean) => fc.array(weighted(ghosts), { minLength: 0, maxLength: 12 })

/** The words of both ways to answer a report. */
const wordOf = (reply: Readable): string => {
  if (typeof reply === 'object' && reply !== null && 'error' in reply) {
    const { error } = reply
    if (error.endsWith('gone')) return 'gone'
    return /\((\w+)\)$/.exec(error)?.[1] ?? 'superseded'
  }
  if (reply === 1 || reply === 0) return reply === 1 ? 'completed' : 'gone'
  const [word, detail] = Array.isArray(reply) ? reply : [reply]
  return word === 'stale' ? String(detail) : String(word)
}

describe('from wherever some moves have led,', () => {
  test('a batch claim of one is the claim of the contract', async () => {
    await fc.assert(
      fc.asyncProperty(histories(false), async (moves) => {
        // The batch claim sweeps first; the contract's does not.
        const settled = async (hand: Hand): Promise<void> => {
          await hand.sweep(100, '0.5')
        }
        await sideBySide(
          moves,
          async (hand) => {
            await settled(hand)
            const [id, payload, token] = (await hand.claim(LONG_MS)) as Readable[]
            return id === undefined ? [] : [id, payload, String(token)]
          },
          async (hand) => {
            await settled(hand)
            const [, , id, payload, token] = (await hand.claimMany(1, LONG_MS)) as Readable[]
            return id === undefined ? [] : [id, payload, token]
          },
        )
      }),
      { numRuns: 60 },
    )
  })

  test('settling by complete is the complete of the core', async () => {
    await fc.assert(
      fc.asyncProperty(histories(true), id, fc.constantFrom(0, 0, -1, 1), async (moves, id, off) => {
        const token = (world: World): number => attemptsIn(world, id) + off
        await sideBySide(
          moves,
          async (hand, world) => wordOf(await hand.complete(id, token(world))),
          async (hand, world) => wordOf(await hand.settle([{ action: 'complete', id, token: token(world) }])),
        )
      }),
      { numRuns: 80 },
    )
  })

  test('settling by retry is the retry of the core, with and without a delay and a limit of its own', async () => {
    const options = fc.record({
      delay: fc.constantFrom('', 0, LONG_MS),
      limit: fc.constantFrom('', 0, 1, 2),
      off: fc.constantFrom(0, 0, -1, 1),
      jitter: fc.constantFrom('0', '0.5', '0.999'),
    })
    await fc.assert(
      fc.asyncProperty(histories(true), id, options, async (moves, id, { delay, limit, off, jitter }) => {
        const token = (world: World): number => attemptsIn(world, id) + off
        await sideBySide(
          moves,
          async (hand, world) => {
            const reply = await hand.retry(id, token(world), delay, limit, 'why', jitter)
            return [wordOf(reply), Array.isArray(reply) ? reply[1] : null]
          },
          async (hand, world) => {
            const item = { id, token: token(world), ms: delay, maxAttempts: limit, error: 'why', jitter }
            const reply = await hand.settle([{ action: 'retry', ...item }])
            const word = wordOf(reply)
            return [word, word === 'scheduled' || word === 'dead' ? (reply as Readable[])[1] : null]
          },
        )
      }),
      { numRuns: 80 },
    )
  })

  test('a sweep is a promote and a reap', async () => {
    await fc.assert(
      fc.asyncProperty(histories(true), async (moves) => {
        await sideBySide(
          moves,
          async (hand) => {
            const [promoted, lost] = (await hand.promote(100, true)) as number[]
            const [reaped, died, dropped] = (await hand.reap(100, '0.5')) as number[]
            return [promoted, reaped, died, (lost ?? 0) + (dropped ?? 0)]
          },
          async (hand) => ((await hand.sweep(100, '0.5')) as Readable[]).slice(1, 5),
        )
      }),
      { numRuns: 60 },
    )
  })

  test('many jobs settled in one batch end as if each had been settled alone', async () => {
    const items = fc.array(
      fc.record({
        action: fc.constantFrom('complete' as const, 'retry', 'fail', 'release', 'extend'),
        id,
        off: fc.constantFrom(0, 0, 0, -1),
        ms: fc.constantFrom(0, LONG_MS),
      }),
      { minLength: 1, maxLength: 5 },
    )
    await fc.assert(
      fc.asyncProperty(histories(false), items, async (moves, items) => {
        const told = (world: World) =>
          items.map(({ action, id, off, ms }) => ({
            ...{ action, id, ms, maxAttempts: 2, error: 'why' },
            token: attemptsIn(world, id) + off,
          }))
        await sideBySide(
          moves,
          async (hand, world) => (await hand.settle(told(world))) as Readable[],
          async (hand, world) => {
            const replies: Readable[] = []
            for (const item of told(world)) replies.push(...((await hand.settle([item])) as Readable[]))
            return replies
          },
        )
      }),
      { numRuns: 60 },
    )
  })
})

/** What a run of moves must never show, told move by move. */
class Witness {
  readonly #tokens = new Map<string, number>()
  readonly #finished = new Set<string>()

  see(move: Move, reply: Readable, before: World, after: World): void {
    for (const id of IDS) {
      const row = after.rows[id]
      if (row === undefined) this.#tokens.delete(id)
      else {
        const token = Number(row['attempts'])
        expect(token).toBeGreaterThanOrEqual(before.rows[id] ? (this.#tokens.get(id) ?? 0) : 0)
        this.#tokens.set(id, token)
      }
      // An id that was enqueued anew is another job.
      if (!(id in before.rows) && row?.['state'] !== undefined && row['attempts'] === '0')
        this.#finished.delete(id)
    }
    const delivered =
      move.do === 'claim'
        ? [(reply as Readable[])[0]]
        : move.do === 'claimMany'
          ? (reply as Readable[]).slice(2).filter((_, nth) => nth % 7 === 0)
          : []
    for (const id of delivered) expect([...this.#finished]).not.toContain(id)
    const ended = move.do === 'complete' || (move.do === 'settle' && move.action === 'complete')
    if (ended && wordOf(reply) === 'completed') {
      this.#finished.add(move.id)
      expect(after.rows[move.id]).toBeUndefined()
      expect(after.completed).toBe(before.completed + 1)
    }
    const refused = /superseded|released|lapsed/.test(wordOf(reply)) || wordOf(reply) === 'gone'
    const reports = move.do === 'complete' || move.do === 'retry' || move.do === 'settle'
    if (reports && refused) expect(after).toEqual(before)
  }
}

describe('whatever two clients do in whatever order,', () => {
  const steps = fc.array(fc.record({ client: fc.boolean(), move: weighted(false) }), {
    minLength: 5,
    maxLength: 40,
  })

  test('the invariants hold, no token goes back, and nothing that is done is delivered again', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (steps) => {
        const queue = freshQueue()
        const hands = [handOn(redis.port, queue), handOn(second, queue)] as const
        await hands[0].send('HSET', hands[0].keys.meta, 'backoffBaseMs', 1, 'backoffMaxMs', 2)
        const witness = new Witness()
        let before = (await look(redis.port, queue)).world
        for (const { client, move } of steps) {
          const reply = await make(hands[client ? 1 : 0], move, before)
          const { world } = await look(redis.port, queue)
          witness.see(move, reply, before, world)
          before = world
          expect(brokenIn(world)).toEqual([])
        }
        expect(await census(redis.port, queue)).toEqual([])
        await wipe(redis.port, queue)
      }),
      { numRuns: 80 },
    )
  })

  test('ghosts are gone once the pumps have been round, and the invariants hold again', async () => {
    const losing = fc.array(weighted(true), { minLength: 5, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(losing, async (moves) => {
        const hand = handOn(redis.port, freshQueue())
        // The core's enqueue is given two keys and cannot clear an id that a lost row has left elsewhere.
        const tidy = moves.map((move) =>
          move.do === 'enqueue' ? { ...move, do: 'enqueueMany' as const } : move,
        )
        await play(hand, tidy)
        // What is leased ends, what waits comes due, what is dead is drained; then a claim meets the rest.
        for (const key of [hand.keys.active, hand.keys.schedule])
          for (const id of IDS) await hand.send('ZADD', key, 'XX', 1, id)
        for (const _ of [1, 2]) {
          await hand.claimMany(10, 0)
          await untilServer(redis.port, (await serverNow(redis.port)) + 1)
          await hand.sweep()
        }
        await hand.purge('dead')
        expect(await census(redis.port, hand.queue)).toEqual([])
        await wipe(redis.port, hand.queue)
      }),
      { numRuns: 60 },
    )
  })

  test('sent at once over two connections, they leave a clean queue', async () => {
    const both = fc.array(fc.tuple(weighted(false), weighted(false)), { minLength: 5, maxLength: 30 })
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
        expect(await census(redis.port, queue)).toEqual([])
        await wipe(redis.port, queue)
      }),
      { numRuns: 40 },
    )
  })
})

/** The invariants on a world at hand: quicker than a census, and held against it at the end of each run. */
function brokenIn({ rows, pending, active, schedule, dead }: World): string[] {
  const sets = { pending, active, scheduled: schedule, dead }
  const places = (id: string) => Object.entries(sets).flatMap(([state, set]) => (id in set ? [state] : []))
  const broken = Object.entries(rows).flatMap(([id, row]) => {
    const where = places(id).join(' and ')
    return where === row['state'] && row['payload'] !== undefined
      ? []
      : [`${id}: ${row['state']} in ${where}`]
  })
  const listed = Object.values(sets).flatMap((set) => Object.keys(set))
  return [...broken, ...listed.filter((id) => !(id in rows)).map((id) => `${id} has no row`)]
}
