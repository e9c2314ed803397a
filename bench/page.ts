/** The measured part of docs/performance.md, and its charts. The rest of the page is written by hand and stays. */

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { drawChart } from './chart.ts'
import { format, formatWithSpread } from './format.ts'
import type { Cell, Results, Section, Target } from './report.ts'
import { median } from './statistics.ts'

const DOCS = new URL('../docs/', import.meta.url)
const PAGE = new URL('performance.md', DOCS)
const CHARTS = new URL('charts/', DOCS)

const START = '<!-- Measured: `npm run bench` writes everything from here to the end. -->'
const END = '<!-- End of the measured part. -->'

export async function writePage(results: Results): Promise<void> {
  await writeFile(PAGE, replaceMeasured(await readFile(PAGE, 'utf8'), renderResults(results)))
  await rm(CHARTS, { recursive: true, force: true })
  await mkdir(CHARTS)
  for (const chart of Object.values(results.sections).flatMap(({ charts }) => charts)) {
    await writeFile(new URL(`${chart.file}.svg`, CHARTS), drawChart(chart))
  }
}

/** Replaces what is between the markers, or appends it with its markers. */
export function replaceMeasured(page: string, measured: string): string {
  const from = page.indexOf(START)
  const to = page.indexOf(END)
  if (from >= 0 && to < from)
    throw new Error('docs/performance.md has no marker at the end of its measured part.')
  const before = from < 0 ? `${page.trimEnd()}\n\n` : page.slice(0, from)
  const after = from < 0 ? '\n' : page.slice(to + END.length)
  return `${before}${START}\n\n${measured.trim()}\n\n${END}${after}`
}

export function renderResults({ measuredAt, machine, versions, sections }: Results): string {
  const targets = Object.values(sections).flatMap((section) => section.targets)
  const list = (values: Readonly<Record<string, string>>): string =>
    Object.entries(values)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')
  return [
    '## Measured',
    `\`npm run bench\` measured this part on ${measuredAt}.`,
    [
      `- Machine: ${list(machine)}.`,
      `- Versions: ${list(versions)}.`,
      '- A figure is the median of the rounds; the lowest and the highest round are in parentheses. The contenders take turns in each round, after a warm-up.',
      '- The absolute numbers belong to this machine. Compare ratios.',
    ].join('\n'),
    ...(targets.length === 0 ? [] : ['### Targets', renderTargets(targets)]),
    ...Object.values(sections).map(renderSection),
  ].join('\n\n')
}

function renderTargets(targets: readonly Target[]): string {
  return markdownTable(
    ['figure', 'target', 'measured', 'reached'],
    targets.map((target) => [
      target.figure,
      `${target.limit} ${target.target}`,
      format(target.value),
      isReached(target) ? 'yes' : 'no',
    ]),
  )
}

export function isReached({ value, limit, target }: Target): boolean {
  return limit === 'at least' ? median(value.rounds) >= target : median(value.rounds) <= target
}

function renderSection({ title, notes, tables, charts }: Section): string {
  return [
    `### ${title}`,
    ...tables.map(({ columns, rows }) =>
      markdownTable(
        columns,
        rows.map((row) => row.map(renderCell)),
      ),
    ),
    ...charts.map((chart) => `![${chart.title}](charts/${chart.file}.svg)`),
    ...(notes.length === 0 ? [] : [notes.map((note) => `- ${note}`).join('\n')]),
  ].join('\n\n')
}

function renderCell(cell: Cell): string {
  if (cell === null) return 'not measured'
  return typeof cell === 'string' ? cell : formatWithSpread(cell)
}

function markdownTable(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n')
}
