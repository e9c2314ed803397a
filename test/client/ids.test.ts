/** Minted ids: compared with those of the protocol, and the cases of identity and order. */
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { type Clock, systemClock } from '../../src/client/clock.ts'
import { createMint, mintClaimId } from '../../src/client/ids.ts'
import { createMinter, isJobId, mintedAt, SNOWFLAKE_EPOCH_MS } from '../../src/protocol/ids.ts'
import { isClaimId } from '../../src/protocol/keys.ts'

function clockOf(epochMs: () => number, random: () => number = () => 0.5): Clock {
  return {
    ...systemClock,
    epochMs,
    random,
  }
}

/** A clock that returns these times one after another, and then the last one again. */
function showing(times: readonly number[]): () => number {
  let nth = 0
  return () => times[Math.min(nth++, times.length - 1)] ?? 0
}

const NOW = Date.UTC(2025, 5, 1)

test('the client mints the same ids as the protocol, for any clock, node and collisions', () => {
  const time = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: -1e12, max: 1e12 }))
  const step = fc.record({ ms: time, isTaken: fc.boolean(), burst: fc.constantFrom(1, 1, 1, 4097) })
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 12 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (steps, chance) => {
        let now = 0
        const ours = createMint(
          clockOf(
            () => now,
            () => chance,
          ),
        )
        const theirs = createMinter({ now: () => now, random: () => chance })
        expect(ours()).toBe(theirs.mint())
        for (const { ms, isTaken, burst } of steps) {
          now = NOW + ms
          if (isTaken) theirs.collided()
          expect(ours(isTaken)).toBe(theirs.mint())
          for (let n = 1; n < burst; n++) if (ours() !== theirs.mint()) expect.fail('differs in a burst')
        }
      },
    ),
    { numRuns: 60 },
  )
})

test('case 10: ids of one millisecond sort in the order of minting', () => {
  const mint = createMint(
    clockOf(
      () => NOW,
      () => 1 / 1024,
    ),
  )
  const ids = Array.from({ length: 63 }, () => mint())
  expect(ids.slice(61)).toEqual(['JOB0Dq5JVGd5nZ', 'JOB0Dq5JVGd5na'])
  expect(ids.toSorted()).toEqual(ids)
})

test('case 11: a clock that steps back repeats no id', () => {
  const mint = createMint(clockOf(showing([1000, 1000, 999, 1000, 1000].map((ms) => NOW + ms))))
  const ids = Array.from({ length: 5 }, () => mint())
  expect(new Set(ids).size).toBe(5)
  expect(ids.toSorted()).toEqual(ids)
})

test('case 12: minting continues while the clock stands still', () => {
  const mint = createMint(clockOf(() => NOW))
  const ids = Array.from({ length: 5000 }, () => mint())
  expect(new Set(ids).size).toBe(5000)
  expect(ids.toSorted()).toEqual(ids)
  expect(ids.every(isJobId)).toBe(true)
  expect([mintedAt(ids[0] ?? ''), mintedAt(ids[4095] ?? ''), mintedAt(ids[4096] ?? '')]).toEqual([
    NOW,
    NOW,
    NOW + 1,
  ])
})

test('case 13: a collision changes the node, and the next ids are above the earlier ones', () => {
  const mint = createMint(
    clockOf(
      () => NOW,
      () => 0.9,
    ),
  )
  const first = mint()
  const second = mint(true)
  expect(second > first).toBe(true)
})

test.each([0, SNOWFLAKE_EPOCH_MS, SNOWFLAKE_EPOCH_MS - 1])('ids rise when the clock is at %i', (ms) => {
  const mint = createMint(clockOf(() => ms))
  const ids = Array.from({ length: 3 }, () => mint())
  expect(ids.every(isJobId)).toBe(true)
  expect(new Set(ids.toSorted())).toEqual(new Set(ids))
  expect(ids.toSorted()).toEqual(ids)
})

describe('random numbers', () => {
  test('the first mint draws the node, and nothing draws it before', () => {
    const random = vi.fn(() => 0.5)
    const mint = createMint(clockOf(() => NOW, random))
    expect(random).not.toHaveBeenCalled()
    mint()
    mint()
    expect(random).toHaveBeenCalledTimes(1)
  })

  test('every node from 0 to 1023 can be drawn, and no other', () => {
    const nodeOf = (chance: number) => {
      const id = createMint(
        clockOf(
          () => SNOWFLAKE_EPOCH_MS,
          () => chance,
        ),
      )()
      return createMinter({ now: () => SNOWFLAKE_EPOCH_MS, random: () => chance }).mint() === id
    }
    expect([0, 0.5, 1023.5 / 1024].every(nodeOf)).toBe(true)
  })
})

test('claim ids are well-formed and differ', () => {
  const ids = Array.from({ length: 1000 }, mintClaimId)
  expect(ids.every(isClaimId)).toBe(true)
  expect(new Set(ids).size).toBe(1000)
})
