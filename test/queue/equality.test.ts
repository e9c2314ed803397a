/**
 * Equality: an extension that does what a core script does writes the same row, sets and counters and returns the same
 * result. Each test starts from a queue after random moves.
 */
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { bareRedis } from './support/bare.ts'
import type { Hand } from './support/hand.ts'
import { anyId, anyMove, attemptsIn, LONG_MS, type Move, play, wordOf } from './support/random-moves.ts'
import { look, type Readable, timeless, type World, wipe } from './support/world.ts'

// Many round trips: on a busy machine they take their time.
vi.setConfig({ testTimeout: 60_000 })

const redis = bareRedis()

test('a batch claim of one job does the same as the claim of the contract after a sweep', async () => {
  await fc.assert(
    fc.asyncProperty(histories(false), async (moves) => {
      // The batch claim sweeps first; the contract's does not.
      const sweep = (hand: Hand) => hand.sweep(100, '0.5')
      await sideBySide(
        moves,
        async (hand) => {
          await sweep(hand)
          const [id, payload, token] = (await hand.claim(LONG_MS)) as Readable[]
          return id === undefined ? [] : [id, payload, String(token)]
        },
        async (hand) => {
          await sweep(hand)
          const [, , id, payload, token] = (await hand.claimMany(1, LONG_MS)) as Readable[]
          return id === undefined ? [] : [id, payload, token]
        },
      )
    }),
    { numRuns: 60 },
  )
})

test('settle by complete does the same as complete', async () => {
  await fc.assert(
    fc.asyncProperty(histories(true), anyId, fc.constantFrom(0, 0, -1, 1), async (moves, id, off) => {
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

test('settle by retry does the same as retry, with and without a delay and a limit of the call', async () => {
  const options = fc.record({
    delay: fc.constantFrom('', 0, LONG_MS),
    limit: fc.constantFrom('', 0, 1, 2),
    off: fc.constantFrom(0, 0, -1, 1),
    jitter: fc.constantFrom('0', '0.5', '0.999'),
  })
  await fc.assert(
    fc.asyncProperty(histories(true), anyId, options, async (moves, id, { delay, limit, off, jitter }) => {
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

test('a sweep does the same as a promote and a reap', async () => {
  await fc.assert(
    fc.asyncProperty(histories(true), async (moves) => {
      await sideBySide(
        moves,
        async (hand) => {
          const [promoted, ghosts] = (await hand.promote(100, true)) as number[]
          const [reaped, died, dropped] = (await hand.reap(100, '0.5')) as number[]
          return [promoted, reaped, died, (ghosts ?? 0) + (dropped ?? 0)]
        },
        async (hand) => ((await hand.sweep(100, '0.5')) as Readable[]).slice(1, 5),
      )
    }),
    { numRuns: 60 },
  )
})

test('settle of many items does the same as one settle for each item', async () => {
  const items = fc.array(
    fc.record({
      action: fc.constantFrom('complete' as const, 'retry', 'fail', 'release', 'extend'),
      id: anyId,
      off: fc.constantFrom(0, 0, 0, -1),
      ms: fc.constantFrom(0, LONG_MS),
    }),
    { minLength: 1, maxLength: 5 },
  )
  await fc.assert(
    fc.asyncProperty(histories(false), items, async (moves, items) => {
      const itemsIn = (world: World) =>
        items.map(({ action, id, off, ms }) => ({
          ...{ action, id, ms, maxAttempts: 2, error: 'why' },
          token: attemptsIn(world, id) + off,
        }))
      await sideBySide(
        moves,
        async (hand, world) => (await hand.settle(itemsIn(world))) as Readable[],
        async (hand, world) => {
          const replies: Readable[] = []
          for (const item of itemsIn(world)) replies.push(...((await hand.settle([item])) as Readable[]))
          return replies
        },
      )
    }),
    { numRuns: 60 },
  )
})

function histories(ghosts: boolean) {
  return fc.array(anyMove(ghosts), { minLength: 0, maxLength: 12 })
}

/** Makes the same moves in two queues, then a different one in each, and compares the replies and the queues. */
async function sideBySide(
  moves: readonly Move[],
  one: (hand: Hand, world: World) => Promise<unknown>,
  other: (hand: Hand, world: World) => Promise<unknown>,
): Promise<void> {
  const outcomes = []
  for (const way of [one, other]) {
    const hand = redis.fresh()
    await hand.set('backoffBaseMs', LONG_MS)
    await play(hand, moves)
    const before = await look(redis.port, hand.queue)
    const reply = await way(hand, before.world)
    const { world, now } = await look(redis.port, hand.queue)
    const nameless = JSON.parse(JSON.stringify(timeless(world, now)).replaceAll(hand.queue, 'q'))
    outcomes.push({ before: timeless(before.world, before.now).rows, reply, after: nameless })
    await wipe(redis.port, hand.queue)
  }
  expect(outcomes[1]).toEqual(outcomes[0])
}
