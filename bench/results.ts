/** bench/results.json: the last figures of each measurement, and where they were measured. */

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { cpus, totalmem, type } from 'node:os'
import { findRedisBinary } from '../src/stack/redis-binary.ts'
import { findPostgres } from './postgres.ts'
import type { Results, Section } from './report.ts'

const FILE = new URL('results.json', import.meta.url)
const PACKAGES = ['workerd', 'miniflare', 'hono', 'bullmq', '@upstash/queue', 'pg-boss', 'graphile-worker']

/** Replaces the sections that were measured now, and keeps the others. */
export async function mergeResults(
  sections: Readonly<Record<string, Section>>,
  order: readonly string[],
): Promise<Results> {
  const known: Record<string, Section> = existsSync(FILE)
    ? (JSON.parse(await readFile(FILE, 'utf8')) as Results).sections
    : {}
  const merged = { ...known, ...sections }
  return {
    measuredAt: new Date().toISOString().slice(0, 10),
    machine: {
      system: type(),
      processor: `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}`,
      memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    },
    versions: await versions(),
    sections: Object.fromEntries(order.flatMap((name) => (merged[name] ? [[name, merged[name]]] : []))),
  }
}

export const writeResults = (results: Results): Promise<void> =>
  writeFile(FILE, `${JSON.stringify(results, null, 2)}\n`)

async function versions(): Promise<Record<string, string>> {
  const postgres = findPostgres()
  return {
    node: process.versions.node,
    redis: firstNumber(execFileSync(await findRedisBinary(), ['--version'], { encoding: 'utf8' })),
    ...(postgres && {
      postgresql: firstNumber(execFileSync(postgres.server, ['--version'], { encoding: 'utf8' })),
    }),
    ...Object.fromEntries(await Promise.all(PACKAGES.map(async (name) => [name, await versionOf(name)]))),
  }
}

const firstNumber = (text: string): string => /\d+(\.\d+)+/.exec(text)?.[0] ?? 'unknown'

/** From the file, because not every package exports its package.json. */
async function versionOf(name: string): Promise<string> {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const file = folders.map((folder) => `${folder}/${name}/package.json`).find((path) => existsSync(path))
  if (file === undefined) return 'missing'
  const { version }: { version: string } = JSON.parse(await readFile(file, 'utf8'))
  return version.replace(/^v/, '')
}
