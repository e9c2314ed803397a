/** Random moves: a move as data, its arbitrary, and the call of its script. */
import fc from 'fast-check'
import { serverNow, untilServer } from '../../support/clock.ts'
import type { Hand } from './hand.ts'
import { look, type Readable, type World } from './world.ts'

export const IDS = ['JOB00000000001', 'JOB00000000002', 'JOB00000000003'] as const
export const LONG_MS = 100_000

/** A move as data, so that it can be made in two queues and shrunk. Delays and leases are long or end at once. */
export type Move =
  | { readonly do: 'enqueue' | 'enqueueLater' | 'enqueueMany'; readonly id: string }
  | { readonly do: 'claim' | 'claimMany'; readonly lapses: boolean; readonly limit: number }
  | {
      readonly do: 'complete' | 'retry' | 'settle'
      readonly id: string
      /** The difference to the newest token. */
      readonly off: number
      readonly action: 'complete' | 'retry' | 'fail' | 'release' | 'extend'
      readonly later: boolean
      readonly maxAttempts: '' | 0 | 1 | 2
    }
  | { readonly do: 'promote' | 'reap' | 'sweep'; readonly limit: number }
  | { readonly do: 'redrive' | 'remove' | 'reschedule'; readonly id: string }
  | { readonly do: 'loseRow'; readonly id: string }
  | { readonly do: 'redriveMany' }
  | { readonly do: 'purge'; readonly set: 'pending' | 'schedule' | 'dead' }

export const anyId = fc.constantFrom(...IDS)
const anyLimit = fc.integer({ min: 1, max: 3 })
const enqueues = fc.record({ do: fc.constantFrom('enqueue', 'enqueueLater', 'enqueueMany'), id: anyId })
const claims = fc.record({ do: fc.constantFrom('claim', 'claimMany'), lapses: fc.boolean(), limit: anyLimit })
const reports = fc.record({
  do: fc.constantFrom('complete', 'retry', 'settle'),
  id: anyId,
  off: fc.constantFrom(0, 0, 0, 0, -1, 1),
  action: fc.constantFrom('complete', 'retry', 'fail', 'release', 'extend'),
  later: fc.boolean(),
  maxAttempts: fc.constantFrom('', 0, 1, 2),
})
const sweeps = fc.record({ do: fc.constantFrom('promote', 'reap', 'sweep'), limit: anyLimit })
const operations = fc.record({ do: fc.constantFrom('redrive', 'remove', 'reschedule'), id: anyId })
const masses = fc.oneof(
  fc.record({ do: fc.constant('redriveMany') }),
  fc.record({ do: fc.constant('purge'), set: fc.constantFrom('pending', 'schedule', 'dead') }),
)

export const anyMove = (ghosts: boolean): fc.Arbitrary<Move> =>
  fc.oneof(
    { weight: 4, arbitrary: enqueues },
    { weight: 5, arbitrary: claims },
    { weight: 6, arbitrary: reports },
    { weight: 3, arbitrary: sweeps },
    { weight: 2, arbitrary: operations },
    { weight: 1, arbitrary: masses },
    { weight: ghosts ? 1 : 0, arbitrary: fc.record({ do: fc.constant('loseRow'), id: anyId }) },
  ) as fc.Arbitrary<Move>

export const attemptsIn = (world: World, id: string): number => Number(world.rows[id]?.['attempts'] ?? 0)

/** Makes a move. A lease that ends at once has lapsed when this returns. */
export async function make(hand: Hand, move: Move, world: World): Promise<Readable> {
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
    case 'purge':
      return hand.purge(move.set, 2)
    case 'loseRow':
      return send('DEL', keys.job(move.id))
  }
}

/** Makes moves one after the other. */
export async function play(hand: Hand, moves: readonly Move[]): Promise<void> {
  for (const move of moves) await make(hand, move, (await look(hand.port, hand.queue)).world)
}

/** The word of a reply to complete, retry or settle. */
export const wordOf = (reply: Readable): string => {
  if (typeof reply === 'object' && reply !== null && 'error' in reply) {
    const { error } = reply
    if (error.endsWith('gone')) return 'gone'
    return /\((\w+)\)$/.exec(error)?.[1] ?? 'superseded'
  }
  if (reply === 1 || reply === 0) return reply === 1 ? 'completed' : 'gone'
  const [word, detail] = Array.isArray(reply) ? reply : [reply]
  return word === 'stale' ? String(detail) : String(word)
}
