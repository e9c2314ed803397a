/** Charts as SVG: bars, or lines over powers of ten. They follow the reader's light or dark theme. */

import { format } from './format.ts'
import type { BarChart, LineChart, Rounds } from './report.ts'
import { median } from './statistics.ts'

const WIDTH = 720
const MARGIN = 16
const TITLE_HEIGHT = 40
const BAR = { height: 18, step: 28, labelWidth: 350, valueWidth: 90 }
const PLOT = { left: 70, right: 170, height: 240 }
const LINE_COLORS = ['#2563eb', '#d97706', '#059669', '#9333ea', '#dc2626', '#475569']

const STYLE = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2937 }
.title { font-weight: 600; font-size: 14px }
.ours { fill: #2563eb } .peer { fill: #94a3b8 }
.spread, .axis { stroke: #6b7280; fill: none }
@media (prefers-color-scheme: dark) { text { fill: #e5e7eb } .spread, .axis { stroke: #d1d5db } }
</style>`

export const drawChart = (chart: BarChart | LineChart): string =>
  chart.kind === 'bars' ? drawBars(chart) : drawLines(chart)

/** The median as a bar, the lowest and highest round as a thin line over its end. */
function drawBars({ title, bars }: BarChart): string {
  const from = MARGIN + BAR.labelWidth
  const most = Math.max(...bars.flatMap(({ value }) => value.rounds))
  const x = (value: number): number =>
    Math.round(from + (value / most) * (WIDTH - from - BAR.valueWidth - MARGIN))
  const lines = bars.map(({ label, value, isOurs }, nth) => {
    const top = TITLE_HEIGHT + nth * BAR.step
    const middle = top + BAR.height / 2
    const baseline = middle + 4
    return [
      `<text x="${from - 8}" y="${baseline}" text-anchor="end">${xml(label)}</text>`,
      `<rect class="${isOurs ? 'ours' : 'peer'}" x="${from}" y="${top}" width="${Math.max(x(median(value.rounds)) - from, 1)}" height="${BAR.height}" rx="2"/>`,
      `<path class="spread" d="M${x(Math.min(...value.rounds))} ${middle}H${x(Math.max(...value.rounds))}"/>`,
      `<text x="${x(Math.max(...value.rounds)) + 8}" y="${baseline}">${xml(format(value))}</text>`,
    ].join('\n')
  })
  return svg(title, TITLE_HEIGHT + bars.length * BAR.step + MARGIN, lines)
}

/** Both axes in steps of a factor. */
function drawLines({ title, x: powers, lines }: LineChart): string {
  const all = lines.flatMap(({ values }) => values.map(({ rounds }) => median(rounds)))
  const low = 2 ** Math.floor(Math.log2(Math.min(...all)))
  const high = 2 ** Math.ceil(Math.log2(Math.max(...all)))
  const bottom = TITLE_HEIGHT + PLOT.height
  const across = WIDTH - PLOT.left - PLOT.right
  const xOf = (nth: number): number => Math.round(PLOT.left + (nth / Math.max(powers.length - 1, 1)) * across)
  const yOf = (value: number): number =>
    Math.round(bottom - (Math.log2(value / low) / Math.max(Math.log2(high / low), 1)) * PLOT.height)
  const unit = lines[0]?.values[0]?.unit ?? 'ms'
  const steps = Array.from({ length: Math.log2(high / low) + 1 }, (_, nth) => low * 2 ** nth)
  const axes = [
    `<path class="axis" d="M${PLOT.left} ${TITLE_HEIGHT}V${bottom}H${PLOT.left + across}"/>`,
    ...powers.map(
      (power, nth) =>
        `<text x="${xOf(nth)}" y="${bottom + 20}" text-anchor="middle">10${superscript(power)}</text>`,
    ),
    ...steps.map(
      (value) =>
        `<text x="${PLOT.left - 8}" y="${yOf(value) + 4}" text-anchor="end">${format({ unit, rounds: [value] })}</text>`,
    ),
  ]
  const labels = apart(lines.map(({ values }) => yOf(last(values))))
  const drawn = lines.map(({ label, values }, nth) => {
    const color = LINE_COLORS[nth % LINE_COLORS.length]
    const points = values.map(({ rounds }, at) => `${xOf(at)},${yOf(median(rounds))}`).join(' ')
    return [
      `<polyline points="${points}" fill="none" stroke="${color}" stroke-width="2"/>`,
      `<text x="${PLOT.left + across + 10}" y="${(labels[nth] ?? 0) + 4}" style="fill: ${color}">${xml(label)}</text>`,
    ].join('\n')
  })
  return svg(title, bottom + 40, [...axes, ...drawn])
}

const last = (values: readonly Rounds[]): number => median(values.at(-1)?.rounds ?? [])

/** The same heights in the same order, moved so that no two labels overlap. */
function apart(heights: readonly number[]): number[] {
  const order = heights.map((_, nth) => nth).toSorted((a, b) => (heights[a] ?? 0) - (heights[b] ?? 0))
  const moved = [...heights]
  let free = Number.NEGATIVE_INFINITY
  for (const nth of order) {
    moved[nth] = Math.max(heights[nth] ?? 0, free)
    free = (moved[nth] ?? 0) + 16
  }
  return moved
}

function svg(title: string, height: number, content: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${xml(title)}">`,
    STYLE,
    `<text class="title" x="${MARGIN}" y="22">${xml(title)}</text>`,
    ...content,
    '</svg>\n',
  ].join('\n')
}

const xml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

const superscript = (power: number): string =>
  [...String(power)].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]).join('')
