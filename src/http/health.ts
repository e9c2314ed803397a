/** The open routes: whether the Worker lives, and whether it can serve. No secrets, no names. */
import * as z from 'zod'
import type { EnvReading } from '../env.ts'
import { GLOBAL_KEYS } from '../protocol/keys.ts'
import type { Database } from '../queue/database.ts'
import { WireVersionError } from '../queue/fence.ts'
import { integer, list, optionalText, text } from '../queue/replies.ts'
import { run } from '../queue/scripts.ts'

const CHECK = ['ok', 'failed'] as const

export const readinessSchema = z.object({
  status: z.enum(['ready', 'unready']),
  checks: z.object({
    redis: z.enum([...CHECK, 'misconfigured', 'evicting']).meta({
      description: '`evicting`: it may remove jobs when memory is short, so its policy must be changed.',
    }),
    tokens: z.enum(CHECK),
    wireVersion: z.enum([...CHECK, 'unknown']),
    maintenance: z.object({
      ageMs: z.int().nullable().meta({
        description: 'Milliseconds since the last completed maintenance; null when there was none.',
      }),
    }),
  }),
})

type Check = (typeof CHECK)[number]
export type Readiness = z.infer<typeof readinessSchema>

/** Whether a policy of Redis lets it remove rows when memory is short: every queue loses jobs under one. */
const isEvicting = (info: string): boolean => /maxmemory_policy:(?!noeviction)/.test(info)

/** Looks at everything that a request needs. Never throws. */
export async function readiness(env: EnvReading, database: Database | undefined): Promise<Readiness> {
  const tokens: Check = env.settings.tokens.length > 0 ? 'ok' : 'failed'
  let redis: Readiness['checks']['redis'] = database === undefined ? 'misconfigured' : 'failed'
  let wireVersion: Readiness['checks']['wireVersion'] = 'unknown'
  let ageMs: number | null = null
  if (database !== undefined) {
    try {
      const [version, mark, time, info] = await run(database.port, [
        ['GET', GLOBAL_KEYS.version],
        ['GET', GLOBAL_KEYS.maintenance],
        ['TIME'],
        ['INFO', 'memory'],
      ])
      const [seconds, micros] = list(time).map(integer)
      const markedAt = optionalText(mark)
      if (markedAt !== undefined)
        ageMs = Math.max(0, Math.floor((seconds ?? 0) * 1000 + (micros ?? 0) / 1000 - Number(markedAt)))
      redis = info instanceof Uint8Array && isEvicting(text(info)) ? 'evicting' : 'ok'
      database.fence.judge(version)
      wireVersion = 'ok'
    } catch (error) {
      if (error instanceof WireVersionError) wireVersion = 'failed'
    }
  }
  const isReady = env.ok && redis === 'ok' && wireVersion === 'ok'
  return {
    status: isReady ? 'ready' : 'unready',
    checks: { redis, tokens, wireVersion, maintenance: { ageMs } },
  }
}
