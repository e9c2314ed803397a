/**
 * `npm run bench`: runs all measurements, or those that are named, and writes bench/results.json, the measured part of
 * docs/performance.md and docs/charts. Needs no network.
 */

import { openLab } from './lab.ts'
import { measureOverhead } from './overhead.ts'
import { writePage } from './page.ts'
import type { Section } from './report.ts'
import { mergeResults } from './results.ts'

/** In the order of the page. */
const MEASUREMENTS = {
  overhead: measureOverhead,
}

type Name = keyof typeof MEASUREMENTS

const isName = (text: string): text is Name => Object.hasOwn(MEASUREMENTS, text)

const all = Object.keys(MEASUREMENTS).filter(isName)
const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !isName(name))
if (unknown.length > 0) {
  console.error(`Unknown measurement: ${unknown.join(', ')}. Choose from: ${all.join(', ')}.`)
  process.exit(2)
}

const sections: Record<string, Section> = {}
const startedAt = performance.now()
const seconds = () => `${Math.round((performance.now() - startedAt) / 1000)} s`
const lab = await openLab()
try {
  for (const name of wanted.length === 0 ? all : wanted.filter(isName)) {
    console.log(`${name} (after ${seconds()})`)
    sections[name] = await MEASUREMENTS[name](lab)
  }
} finally {
  await lab.stop()
}
const results = await mergeResults(sections, all)
await writePage(results)
console.log(`done in ${seconds()}: bench/results.json, docs/performance.md, docs/charts`)
