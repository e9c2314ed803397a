/** Medians, percentiles, ratios, and the rounds in which contenders take turns. */

import type { Rounds, Unit } from './report.ts'

/** The smallest value that at least this share of the values does not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const value = sorted[Math.max(Math.ceil(share * sorted.length) - 1, 0)]
  if (value === undefined) throw new RangeError('No values: there is no percentile.')
  return value
}

/** The middle value; of an even count the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]]
  if (low === undefined || high === undefined) throw new RangeError('No values: there is no median.')
  return (low + high) / 2
}

/** A figure that was measured or counted once. */
export const once = (value: number, unit: Unit): Rounds => ({ unit, rounds: [value] })

/** Round by round, so that a noisy moment counts for both sides. */
export function ratio(one: Rounds, other: Rounds): Rounds {
  return {
    unit: 'x',
    rounds: one.rounds.map((value, round) => value / (other.rounds[round] ?? Number.NaN)),
  }
}

/** The figures of one contender in one round. */
export type Readings = Readonly<Record<string, readonly [number, Unit]>>

export type Contender = { readonly name: string; run(round: number): Promise<Readings> }

/** Reads one figure of one contender. */
export type Figures = (contender: string, figure: string) => Rounds

/**
 * Runs all contenders once to warm up, then in rounds. Every second round runs them in reverse order, so that none
 * always has the same neighbour.
 */
export async function takeTurns(contenders: readonly Contender[], rounds: number): Promise<Figures> {
  const figures = new Map<string, { unit: Unit; rounds: number[] }>()
  for (let round = 0; round <= rounds; round += 1) {
    for (const { name, run } of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const readings = await run(round)
      if (round === 0) continue
      for (const [figure, [value, unit]] of Object.entries(readings)) {
        const key = `${name}/${figure}`
        const known = figures.get(key) ?? { unit, rounds: [] }
        known.rounds.push(value)
        figures.set(key, known)
      }
    }
  }
  return (contender, figure) => {
    const found = figures.get(`${contender}/${figure}`)
    if (found === undefined) throw new Error(`No contender ${contender} measured ${figure}.`)
    return found
  }
}
