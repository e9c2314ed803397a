/**
 * `npm run bench`: runs all measurements, or those that are named, and writes bench/results.json, the measured part of
 * docs/performance.md and docs/charts. Needs no network.
 *
 * `--quick` measures a tenth in one round, prints the page and writes nothing: it shows that the measurements work.
 */

import { parseArgs } from 'node:util'
import { measureCost } from './cost.ts'
import { FULL, openLab, QUICK } from './lab.ts'
import { measureLives } from './lives.ts'
import { measureOverhead } from './overhead.ts'
import { renderResults, writePage } from './page.ts'
import type { Section } from './report.ts'
import { mergeResults, writeResults } from './results.ts'
import { measureScale } from './scale.ts'
import { measureStart } from './start.ts'
import { measureWake } from './wake.ts'

/** In the order of the page. */
const MEASUREMENTS = {
  overhead: measureOverhead,
  lives: measureLives,
  cost: measureCost,
  scale: measureScale,
  start: measureStart,
  wake: measureWake,
}

type Name = keyof typeof MEASUREMENTS

const isName = (text: string): text is Name => Object.hasOwn(MEASUREMENTS, text)

const all = Object.keys(MEASUREMENTS).filter(isName)
const { values: options, positionals: wanted } = parseArgs({
  options: { quick: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const unknown = wanted.filter((name) => !isName(name))
if (unknown.length > 0) {
  console.error(`Unknown measurement: ${unknown.join(', ')}. Choose from: ${all.join(', ')}.`)
  process.exit(2)
}

const sections: Record<string, Section> = {}
const startedAt = performance.now()
const seconds = () => `${Math.round((performance.now() - startedAt) / 1000)} s`
const lab = await openLab(options.quick ? QUICK : FULL)
try {
  for (const name of wanted.length === 0 ? all : wanted.filter(isName)) {
    console.log(`${name} (after ${seconds()})`)
    sections[name] = await MEASUREMENTS[name](lab)
  }
} finally {
  await lab.stop()
}
const results = await mergeResults(sections, all)
if (options.quick) {
  console.log(renderResults(results))
} else {
  await writeResults(results)
  await writePage(results)
  console.log(`done in ${seconds()}: bench/results.json, docs/performance.md, docs/charts`)
}
