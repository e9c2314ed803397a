/**
 * Every state of a job, by the moves that lead to it. Legal moves alone build a state, except for ghosts and half rows,
 * which evictions and other clients leave.
 */

import { serverNow, untilServer } from '../../support/clock.ts'
import type { Hand } from './hand.ts'

/** A delay that does not end while a test runs. */
export const LATER_MS = 100_000

/** Claims under a lease that has lapsed when this returns. Nothing has reaped it yet. */
async function claimAndLapse(hand: Hand): Promise<void> {
  await hand.claim(1)
  await untilServer(hand.port, (await serverNow(hand.port)) + 1)
}

async function lapseAndReap(hand: Hand): Promise<void> {
  await claimAndLapse(hand)
  await hand.reap()
}

async function setBackoff(hand: Hand, baseMs: number): Promise<void> {
  await hand.set('backoffBaseMs', baseMs)
}

const release = (hand: Hand, id: string, token: number) =>
  hand.settle([{ action: 'release', id, token, ms: 0 }])

async function claimTwice(hand: Hand, id: string): Promise<void> {
  await hand.enqueue(id)
  await hand.claim()
  await release(hand, id, 1)
  await hand.claim()
}

/** Each state by its name. */
export const STATES = {
  'no row': async () => {},
  'a ghost in pending': async (hand, id) => {
    await hand.send('ZADD', hand.keys.pending, 0, id)
  },
  'a ghost in active': async (hand, id) => {
    await hand.send('ZADD', hand.keys.active, 1, id)
  },
  'a ghost in schedule': async (hand, id) => {
    await hand.send('ZADD', hand.keys.schedule, 1, id)
  },
  'a ghost in dead': async (hand, id) => {
    await hand.send('ZADD', hand.keys.dead, 0, id)
  },
  'half a row in active': async (hand, id) => {
    await hand.send('ZADD', hand.keys.pending, 0, id)
    await claimAndLapse(hand)
  },
  'half a row in schedule': async (hand, id) => {
    await hand.send('ZADD', hand.keys.schedule, 1, id)
    await hand.send('HSET', hand.keys.job(id), 'state', 'scheduled', 'last_error', 'late report')
  },
  'half a row in no set': async (hand, id) => {
    await hand.send('HSET', hand.keys.job(id), 'last_error', 'late report')
  },

  'pending, never claimed': async (hand, id) => {
    await hand.enqueue(id)
  },
  'pending after a release': async (hand, id) => {
    await claimTwice(hand, id)
    await release(hand, id, 2)
  },
  'pending after a retry': async (hand, id) => {
    await hand.enqueue(id)
    for (const token of [1, 2]) {
      await hand.claim()
      await hand.retry(id, token, 0, 0)
      await hand.promote()
    }
  },
  'pending after a first lapse': async (hand, id) => {
    await hand.enqueue(id)
    await hand.claim()
    await release(hand, id, 1)
    await lapseAndReap(hand)
  },
  'pending after a redrive': async (hand, id) => {
    await hand.enqueue(id)
    await lapseAndReap(hand)
    await hand.claim()
    await hand.retry(id, 2, 0, 2)
    await hand.redrive(id)
  },
  'pending after a redrive from a lapse': async (hand, id) => {
    await hand.enqueueMany([{ id, maxAttempts: 1 }])
    await lapseAndReap(hand)
    await hand.redrive(id)
  },
  'pending past its startBy': async (hand, id) => {
    await hand.enqueueMany([{ id, startBy: (await serverNow(hand.port)) - 1000 }])
  },

  'active by its first claim': async (hand, id) => {
    await hand.enqueue(id)
    await hand.claim()
  },
  'active by a claim in time for its startBy': async (hand, id) => {
    await hand.enqueueMany([{ id, startBy: (await serverNow(hand.port)) + LATER_MS }])
    await hand.claim()
  },
  'active by a second claim': claimTwice,
  'active again after a lapse': async (hand, id) => {
    await hand.enqueue(id)
    await lapseAndReap(hand)
    await hand.claim()
  },
  'active again after a redrive': async (hand, id) => {
    await hand.enqueueMany([{ id, maxAttempts: 1 }])
    await lapseAndReap(hand)
    await hand.redrive(id)
    await hand.claim()
  },
  'active with a lapsed lease': async (hand, id) => {
    await hand.enqueue(id)
    await hand.claim()
    await release(hand, id, 1)
    await claimAndLapse(hand)
  },
  'active with a second lapsed lease': async (hand, id) => {
    await setBackoff(hand, LATER_MS)
    await hand.enqueue(id)
    await lapseAndReap(hand)
    await claimAndLapse(hand)
  },
  'active with a lapsed lease and a spent budget': async (hand, id) => {
    await hand.enqueueMany([{ id, maxAttempts: 2 }])
    await hand.claim()
    await hand.retry(id, 1, 0, 2)
    await hand.promote()
    await claimAndLapse(hand)
  },

  'scheduled by a delay': async (hand, id) => {
    await hand.enqueueMany([{ id, delayMs: LATER_MS }])
  },
  'scheduled by a delay and due': async (hand, id) => {
    await hand.enqueueMany([{ id, delayMs: 1 }])
    await untilServer(hand.port, (await serverNow(hand.port)) + 1)
  },
  'scheduled past its startBy': async (hand, id) => {
    const now = await serverNow(hand.port)
    await hand.enqueueMany([{ id, delayMs: LATER_MS, startBy: now - 1000 }])
  },
  'scheduled by a retry': async (hand, id) => {
    await claimTwice(hand, id)
    await hand.retry(id, 2, LATER_MS, 0)
  },
  'scheduled by a retry and due': async (hand, id) => {
    await claimTwice(hand, id)
    await hand.retry(id, 2, 0, 0)
  },
  'scheduled by a release': async (hand, id) => {
    await claimTwice(hand, id)
    await hand.settle([{ action: 'release', id, token: 2, ms: LATER_MS }])
  },
  'scheduled by a second lapse': async (hand, id) => {
    await setBackoff(hand, LATER_MS)
    await hand.enqueue(id)
    await lapseAndReap(hand)
    await lapseAndReap(hand)
  },
  'scheduled by a second lapse and due': async (hand, id) => {
    await hand.set('backoffBaseMs', 1, 'backoffMaxMs', 1)
    await hand.enqueue(id)
    await lapseAndReap(hand)
    await lapseAndReap(hand)
    await untilServer(hand.port, (await serverNow(hand.port)) + 1)
  },

  'dead by a retry': async (hand, id) => {
    await claimTwice(hand, id)
    await hand.retry(id, 2, 0, 1)
  },
  'dead by a fail': async (hand, id) => {
    await claimTwice(hand, id)
    await hand.settle([{ action: 'fail', id, token: 2, error: 'no use' }])
  },
  'dead by a fail before its startBy': async (hand, id) => {
    await hand.enqueueMany([{ id, startBy: (await serverNow(hand.port)) + LATER_MS }])
    await hand.claim()
    await hand.settle([{ action: 'fail', id, token: 1, error: 'no use' }])
  },
  'dead by a lapse': async (hand, id) => {
    await hand.enqueueMany([{ id, maxAttempts: 2 }])
    await lapseAndReap(hand)
    await lapseAndReap(hand)
  },
  'dead by its startBy': async (hand, id) => {
    await hand.enqueueMany([{ id, startBy: (await serverNow(hand.port)) - 1000 }])
    await hand.sweep()
  },
} satisfies Record<string, (hand: Hand, id: string) => Promise<void>>

export type StateName = keyof typeof STATES

/** Builds a state for one job of an otherwise empty queue. */
export const build = (name: StateName, hand: Hand, id: string): Promise<void> => STATES[name](hand, id)
