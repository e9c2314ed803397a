/** Ids: the text of a snowflake, its mint time, and the minter. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  classifyJobId,
  createMinter,
  decodeSnowflake,
  encodeSnowflake,
  isJobId,
  lowestIdAt,
  mintedAt,
  SNOWFLAKE_EPOCH_MS,
} from '../../src/protocol/ids.ts'

const MAX = 2n ** 63n - 1n
const snowflakes = fc.bigInt({ min: 0n, max: MAX })
test.each([
  [274557032793636864n, '0KHTOWnGLuC'],
  [320636799581945856n, '0NgWEfAEJfs'],
  [0n, '00000000000'],
  [MAX, 'AzL8n0Y58m7'],
])('the snowflake %s has the text %s', (snowflake, text) => {
  expect(encodeSnowflake(snowflake)).toBe(text)
  expect(decodeSnowflake(text)).toBe(snowflake)
})

test('15: the text of a snowflake keeps all 63 bits', () => {
  for (const snowflake of [2n ** 53n + 1n, MAX]) {
    expect(decodeSnowflake(encodeSnowflake(snowflake))).toBe(snowflake)
  }
})

test('the texts of snowflakes are decoded exactly and have the order of the numbers', () => {
  fc.assert(
    fc.property(snowflakes, snowflakes, (a, b) => {
      const [first, second] = [encodeSnowflake(a), encodeSnowflake(b)]
      expect(first).toMatch(/^[0-9A-Za-z]{11}$/)
      expect(decodeSnowflake(first)).toBe(a)
      expect(Math.sign(compareBytes(first, second))).toBe(a < b ? -1 : a > b ? 1 : 0)
    }),
  )
})

test('a snowflake out of range is not encoded, and a malformed text is not decoded', () => {
  expect(() => encodeSnowflake(-1n)).toThrow(RangeError)
  expect(() => encodeSnowflake(MAX + 1n)).toThrow(RangeError)
  for (const text of [
    'zzzzzzzzzzz',
    'AzL8n0Y58m8',
    '0KHTOWnGLu',
    '00KHTOWnGLuC',
    '0KHTOWnGLu-',
    '0KHTOWnGLuC\n',
    '',
  ]) {
    expect(decodeSnowflake(text), JSON.stringify(text)).toBeUndefined()
  }
})

test('an id that starts with JOB names a job, and another prefix another kind', () => {
  expect(classifyJobId('JOB0KHTOWnGLuC')).toBe('job')
  expect(classifyJobId('JOBAzL8n0Y58m7')).toBe('job')
  expect(classifyJobId('USR0KHTOWnGLuC')).toBe('other-kind')
  expect(isJobId('JOB0KHTOWnGLuC')).toBe(true)
  expect(isJobId('USR0KHTOWnGLuC')).toBe(false)
})

test.each([
  'JOBzzzzzzzzzzz',
  'USRzzzzzzzzzzz',
  'JOBAzL8n0Y58m8',
  'job0Dq5JVGd5nZ',
  'JoB0Dq5JVGd5nZ',
  'JOB0Dq5JVGd5n',
  'JOB0Dq5JVGd5nZ0',
  'JOB0Dq5JVGd5n:',
  'JOB0Dq5JVGd5n\n',
  'JOB0Dq5JVGd5nZ\n',
  '\nJOB0Dq5JVGd5nZ',
  'JOB0Dq5JVGd5n\u00e9',
  'ÄOB0Dq5JVGd5nZ',
  '',
])('14: the id %j is ill-formed', (text) => {
  expect(classifyJobId(text)).toBe('ill-formed')
  expect(() => mintedAt(text)).toThrow(RangeError)
})

test('an id contains its mint time', () => {
  expect(new Date(mintedAt('JOB0Dq5JVGd5nZ')).toISOString()).toBe('2025-06-01T00:00:00.000Z')
  expect(mintedAt('JOB00000000000')).toBe(SNOWFLAKE_EPOCH_MS)
  expect(mintedAt('USR0Dq5JVGd5nZ')).toBe(Date.UTC(2025, 5, 1))
})

const last = mintedAt('JOBAzL8n0Y58m7')

test('the lowest id of an instant separates ids minted before it from those minted at it or later', () => {
  fc.assert(
    fc.property(snowflakes, fc.integer({ min: -2, max: 2 }), (snowflake, distance) => {
      const id = `JOB${encodeSnowflake(snowflake)}`
      const instant = mintedAt(id) + distance
      expect(compareBytes(id, lowestIdAt(instant)) >= 0).toBe(mintedAt(id) >= instant)
    }),
  )
})

test('the lowest id of an instant before the epoch is the lowest of all, and past the last instant above all', () => {
  expect(lowestIdAt(0)).toBe('JOB00000000000')
  expect(lowestIdAt(Number.NEGATIVE_INFINITY)).toBe('JOB00000000000')
  expect(lowestIdAt(SNOWFLAKE_EPOCH_MS)).toBe('JOB00000000000')
  expect(mintedAt(lowestIdAt(last))).toBe(last)
  for (const ms of [last + 1, Number.POSITIVE_INFINITY]) {
    expect(compareBytes(lowestIdAt(ms), 'JOBAzL8n0Y58m7')).toBe(1)
  }
})

test('the lowest id of a fraction of a millisecond is that of the next one', () => {
  expect(lowestIdAt(SNOWFLAKE_EPOCH_MS + 0.5)).toBe(lowestIdAt(SNOWFLAKE_EPOCH_MS + 1))
})

test('10: a minter counts within a millisecond in ASCII order', () => {
  const minter = createMinter(at(Date.UTC(2025, 5, 1)))
  const ids = Array.from({ length: 63 }, () => minter.mint())
  expect(ids.slice(61)).toEqual(['JOB0Dq5JVGd5nZ', 'JOB0Dq5JVGd5na'])
  expect(isIncreasing(ids)).toBe(true)
})

test('11: the ids of a minter rise when the clock steps back', () => {
  for (const start of [1000, SNOWFLAKE_EPOCH_MS + 1000]) {
    const clock = [0, 0, -1, 0, 0].map((step) => start + step)
    const minter = createMinter({ now: () => clock.shift() ?? 0 })
    const ids = Array.from({ length: 5 }, () => minter.mint())
    expect(isIncreasing(ids)).toBe(true)
  }
})

test('12: a minter uses the next millisecond when the clock stands still', () => {
  const now = Date.UTC(2026, 0, 1)
  const minter = createMinter(at(now))
  const ids = Array.from({ length: 5000 }, () => minter.mint())
  expect(isIncreasing(ids)).toBe(true)
  expect(new Set(ids).size).toBe(5000)
  expect(ids.map(mintedAt).filter((ms) => ms === now)).toHaveLength(4096)
  expect(mintedAt(ids[4096] ?? '')).toBe(now + 1)
})

test('the ids of a minter are well-formed and rise for all clocks and collisions', () => {
  const steps = fc.array(
    fc.record({
      step: fc.integer({ min: -5, max: 5 }),
      ids: fc.integer({ min: 1, max: 3 }),
      collides: fc.boolean(),
    }),
    { minLength: 1 },
  )
  const draws = fc.infiniteStream(fc.integer({ min: 0, max: 1023 }))
  fc.assert(
    fc.property(steps, draws, (moves, nodes) => {
      let now = Date.UTC(2026, 0, 1)
      const minter = createMinter({ now: () => now, random: () => Number(nodes.next().value) / 1024 })
      const ids = moves.flatMap((move) => {
        now += move.step
        const minted = Array.from({ length: move.ids }, () => minter.mint())
        if (move.collides) minter.collided()
        return minted
      })
      expect(isIncreasing(ids)).toBe(true)
      expect(ids.every(isJobId)).toBe(true)
    }),
  )
})

test('a minter draws its node once, at the first mint', () => {
  let draws = 0
  const random = () => {
    draws += 1
    return 1023 / 1024
  }
  const minter = createMinter({ now: () => Date.UTC(2026, 0, 1), random })
  expect(draws).toBe(0)
  const ids = [minter.mint(), minter.mint()]
  expect(draws).toBe(1)
  expect(ids.map(nodeOf)).toEqual([1023, 1023])
})

test('13: a minter continues with another node and higher ids after a collision', () => {
  for (const [draw, next] of [
    [0, 1],
    [1 - 2 ** -16, 1022],
  ]) {
    const now = Date.UTC(2026, 0, 1)
    const minter = createMinter({ now: () => now, random: () => draw ?? 0 })
    const first = minter.mint()
    minter.collided()
    const second = minter.mint()
    expect(nodeOf(second)).toBe(next)
    expect(isIncreasing([first, second])).toBe(true)
  }
})

test('a minter with the node of another one collides with it once', () => {
  const other = createMinter(at(0))
  const taken = new Set(Array.from({ length: 100 }, () => other.mint()))
  const draws = [1 / 1024, 0.5]
  const minter = createMinter({ now: () => 0, random: () => draws.shift() ?? 0 })
  let collisions = 0
  for (let stored = 0; stored < 100; ) {
    const id = minter.mint()
    if (taken.has(id)) {
      collisions += 1
      minter.collided()
    } else {
      stored += 1
    }
  }
  expect(collisions).toBe(1)
})

test('a minter uses the real clock and a random node by default', () => {
  const before = Date.now()
  const id = createMinter().mint()
  expect(mintedAt(id)).toBeGreaterThanOrEqual(before)
  expect(mintedAt(id)).toBeLessThanOrEqual(Date.now())
  expect(sequenceOf(id)).toBe(0)
  const nodes = new Set(Array.from({ length: 50 }, () => nodeOf(createMinter().mint())))
  expect(nodes.size).toBeGreaterThan(1)
})

/** Byte order, by an implementation that is not the one under test. */
function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function isIncreasing(ids: readonly string[]): boolean {
  return ids.every((id, index) => index === 0 || compareBytes(ids[index - 1] ?? '', id) < 0)
}

function snowflakeOf(id: string): bigint {
  return decodeSnowflake(id.slice(3)) ?? 0n
}

function sequenceOf(id: string): number {
  return Number(snowflakeOf(id) & 4095n)
}

function nodeOf(id: string): number {
  return Number((snowflakeOf(id) >> 12n) & 1023n)
}

/** A clock that stands still, and a fixed node. */
function at(ms: number, node = 1) {
  return { now: () => ms, random: () => node / 1024 }
}
