import { expect, test } from 'vitest'
import { drawChart } from '../../bench/chart.ts'
import { format, formatWithSpread } from '../../bench/format.ts'
import { isReached, renderResults, replaceMeasured } from '../../bench/page.ts'
import type { Results } from '../../bench/report.ts'

const rounds = { unit: '/s', rounds: [900, 1234, 2000] } as const

const RESULTS: Results = {
  measuredAt: '2026-01-01',
  machine: { system: 'Linux' },
  versions: { redis: '7.0.15' },
  sections: {
    lives: {
      title: 'Whole lives',
      notes: ['A note.'],
      tables: [
        {
          columns: ['queue', 'lives'],
          rows: [
            ['ours', rounds],
            ['theirs', null],
          ],
        },
      ],
      charts: [{ kind: 'bars', file: 'lives', title: 'Lives', bars: [] }],
      targets: [
        {
          figure: 'lives beside theirs',
          value: { unit: 'x', rounds: [1.4] },
          limit: 'at least',
          target: 1.5,
        },
      ],
    },
  },
}

test('a figure is the median with its unit, and with the spread where there are several rounds', () => {
  expect(format(rounds)).toBe('1,234/s')
  expect(formatWithSpread(rounds)).toBe('1,234/s (900 to 2,000)')
  expect(formatWithSpread({ unit: 'ms', rounds: [0.01234] })).toBe('0.0123 ms')
  expect(format({ unit: '$', rounds: [42.94] })).toBe('$42.9')
})

test('the page has the targets, the tables, the charts and the notes of each section', () => {
  const page = renderResults(RESULTS)

  expect(page).toContain('| lives beside theirs | at least 1.5 | 1.4 x | no |')
  expect(page).toContain('| ours | 1,234/s (900 to 2,000) |')
  expect(page).toContain('| theirs | not measured |')
  expect(page).toContain('![Lives](charts/lives.svg)')
  expect(page).toContain('- A note.')
})

test('a second run replaces the measured part of the page and nothing else', () => {
  const first = replaceMeasured('# Performance\n\nBy hand.\n', 'first')
  const second = replaceMeasured(`${first}Below.\n`, 'second')

  expect(first).toMatch(/^# Performance\n\nBy hand\.\n\n<!-- .* -->\n\nfirst\n\n<!-- .* -->\n$/)
  expect(second).toBe(`${first.replace('first', 'second')}Below.\n`)
  expect(() => replaceMeasured(first.replace(/<!-- End.*/, ''), 'third')).toThrow('no marker')
})

test('a target is reached at its limit', () => {
  const target = { figure: 'f', value: { unit: 'x', rounds: [2] }, target: 2 } as const

  expect(isReached({ ...target, limit: 'at least' })).toBe(true)
  expect(isReached({ ...target, limit: 'at most' })).toBe(true)
  expect(isReached({ ...target, limit: 'at most', target: 1.9 })).toBe(false)
  expect(isReached({ ...target, limit: 'at least', target: 2.1 })).toBe(false)
})

test('a bar is as long as its median, and labels are escaped', () => {
  const svg = drawChart({
    kind: 'bars',
    file: 'f',
    title: 'A < B',
    bars: [
      { label: 'ours & theirs', value: { unit: '/s', rounds: [100] }, isOurs: true },
      { label: 'peer', value: { unit: '/s', rounds: [50] }, isOurs: false },
    ],
  })
  const widths = [...svg.matchAll(/class="(ours|peer)" .*? width="(\d+)"/g)].map(([, , width]) =>
    Number(width),
  )

  expect(widths).toHaveLength(2)
  expect((widths[0] ?? 0) / (widths[1] ?? 1)).toBeCloseTo(2, 1)
  expect(svg).toContain('A &lt; B')
  expect(svg).toContain('ours &amp; theirs')
})

test('a line chart has a point for each power of ten', () => {
  const svg = drawChart({
    kind: 'lines',
    file: 'f',
    title: 'Size',
    x: [3, 4, 5],
    lines: [{ label: 'claim', values: [1, 1, 2].map((ms) => ({ unit: 'ms', rounds: [ms] })) }],
  })
  const points =
    /points="([^"]+)"/
      .exec(svg)?.[1]
      ?.split(' ')
      .map((point) => point.split(',').map(Number)) ?? []

  expect(points).toHaveLength(3)
  expect(points[0]?.[1]).toBe(points[1]?.[1])
  // Up is a smaller y.
  expect(points[2]?.[1]).toBeLessThan(points[1]?.[1] ?? 0)
  expect(svg).toContain('>10³<')
})
