/**
 * The readiness check: whether a deployment can serve requests. The response contains no secrets and no names. The log
 * also names variables.
 */
import * as z from 'zod'
import type { EnvReading } from '../env.ts'
import type { Database } from '../queue/database.ts'
import { WireVersionError } from '../queue/fence.ts'
import { RefusedTokenError } from '../queue/upstash.ts'

/** A report is returned again for so long, in milliseconds: anybody may ask, and Redis must not pay for it. */
const REPORT_MS = 5_000

const CHECK = ['ok', 'failed'] as const

export const readinessSchema = z.object({
  status: z.enum(['ready', 'unready']),
  checks: z.object({
    redis: z
      .enum([...CHECK, 'misconfigured', 'unauthorized', 'evicting'])
      .describe(
        '`unauthorized`: Redis rejects the token of the deployment. `evicting`: Redis may delete jobs when memory is low; change its eviction policy.',
      ),
    tokens: z.enum(CHECK),
    settings: z
      .enum(CHECK)
      .describe('`failed`: another variable of the deployment cannot be used. The log names it.'),
    wireVersion: z.enum([...CHECK, 'unknown']),
    maintenance: z.object({
      ageMs: z
        .int()
        .nullable()
        .describe('Milliseconds since the last completed maintenance; null if there was none.'),
    }),
  }),
})

type Check = (typeof CHECK)[number]
export type Readiness = z.infer<typeof readinessSchema>

/** Checks everything that a request needs, and logs the problems. Never throws. */
async function readiness(env: EnvReading, database: Database | undefined): Promise<Readiness> {
  const problems = env.ok ? [] : [...env.problems]
  // The checks `redis` and `tokens` cover their own variables.
  const settings: Check = problems.every((problem) => /^(UPSTASH_|EMQ_TOKENS)/.test(problem))
    ? 'ok'
    : 'failed'
  const tokens: Check = env.settings.tokens.length > 0 ? 'ok' : 'failed'
  let redis: Readiness['checks']['redis'] = database === undefined ? 'misconfigured' : 'failed'
  let wireVersion: Readiness['checks']['wireVersion'] = 'unknown'
  let ageMs: number | null = null
  if (database !== undefined) {
    try {
      const { version, maintenanceAgeMs, isEvicting } = await database.probe()
      ageMs = maintenanceAgeMs ?? null
      redis = isEvicting ? 'evicting' : 'ok'
      if (redis === 'evicting') problems.push('Redis may delete jobs when memory is low')
      database.fence.judge(version)
      wireVersion = 'ok'
    } catch (error) {
      if (error instanceof WireVersionError) wireVersion = 'failed'
      if (error instanceof RefusedTokenError) redis = 'unauthorized'
      problems.push(error instanceof Error ? error.message : String(error))
    }
  }
  if (problems.length > 0) console.error(`not ready: ${problems.join('; ')}`)
  return {
    status: problems.length === 0 ? 'ready' : 'unready',
    checks: { redis, tokens, settings, wireVersion, maintenance: { ageMs } },
  }
}

/** The readiness of deployments, checked at most once in five seconds. */
export function createReadiness(now: () => number = Date.now) {
  const reports = new WeakMap<EnvReading, { readonly at: number; readonly report: Promise<Readiness> }>()
  return (env: EnvReading, database: Database | undefined): Promise<Readiness> => {
    const last = reports.get(env)
    const at = now()
    if (last !== undefined && Math.abs(at - last.at) < REPORT_MS) return last.report
    const report = readiness(env, database)
    reports.set(env, { at, report })
    return report
  }
}
