import { expect, test } from 'vitest'
import { median, once, percentile, ratio, takeTurns } from '../../bench/statistics.ts'

test('the median of an even count is the mean of the two in the middle', () => {
  expect(median([9, 1, 5])).toBe(5)
  expect(median([4, 1, 3, 2])).toBe(2.5)
  expect(() => median([])).toThrow('no median')
})

test('a percentile is a measured value that the share of the values does not exceed', () => {
  const values = Array.from({ length: 100 }, (_, nth) => 100 - nth)

  expect([0, 0.5, 0.99, 1].map((share) => percentile(values, share))).toEqual([1, 50, 99, 100])
})

test('a ratio compares each round of one contender with the same round of the other', () => {
  const one = { unit: '/s', rounds: [10, 90] } as const
  const other = { unit: '/s', rounds: [5, 30] } as const

  expect(ratio(one, other)).toEqual({ unit: 'x', rounds: [2, 3] })
  expect(once(7, 'count')).toEqual({ unit: 'count', rounds: [7] })
})

test('contenders warm up once, then take turns in alternating order', async () => {
  const runs: string[] = []
  const contender = (name: string) => ({
    name,
    async run(round: number) {
      runs.push(`${name}${round}`)
      return { round: [round, 'count'] } as const
    },
  })
  const figures = await takeTurns([contender('a'), contender('b')], 2)

  expect(runs).toEqual(['a0', 'b0', 'b1', 'a1', 'a2', 'b2'])
  expect(figures('a', 'round')).toEqual({ unit: 'count', rounds: [1, 2] })
  expect(() => figures('c', 'round')).toThrow('No contender c')
})
