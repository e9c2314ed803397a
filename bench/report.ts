/**
 * What a measurement returns. `bench/results.json` holds it as it is; `page.ts` turns it into tables and charts.
 */

/** One figure: a value for each round. */
export type Rounds = { readonly unit: Unit; readonly rounds: readonly number[] }

export type Unit = '/s' | 'ms' | 'µs' | 'x' | 'bytes' | 'count' | '$'

/** `null`: not measured here; a note says why. */
export type Cell = string | Rounds | null

export type Table = {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}

export type BarChart = {
  readonly kind: 'bars'
  /** The name of its file in docs/charts, without `.svg`. */
  readonly file: string
  readonly title: string
  readonly bars: readonly { readonly label: string; readonly value: Rounds; readonly isOurs: boolean }[]
}

export type LineChart = {
  readonly kind: 'lines'
  readonly file: string
  readonly title: string
  /** In powers of ten. */
  readonly x: readonly number[]
  readonly lines: readonly { readonly label: string; readonly values: readonly Rounds[] }[]
}

export type Target = {
  readonly figure: string
  readonly value: Rounds
  readonly limit: 'at least' | 'at most'
  readonly target: number
}

export type Section = {
  readonly title: string
  /** Sentences: how it was measured, what is missing and why. */
  readonly notes: readonly string[]
  readonly tables: readonly Table[]
  readonly charts: readonly (BarChart | LineChart)[]
  readonly targets: readonly Target[]
}

export type Results = {
  readonly measuredAt: string
  readonly machine: Readonly<Record<string, string>>
  readonly versions: Readonly<Record<string, string>>
  /** By the name of the measurement. */
  readonly sections: Readonly<Record<string, Section>>
}
