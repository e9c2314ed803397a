/**
 * A deployment: bindings read into settings, and the database they name, kept for as long as the isolate lives and the
 * bindings stay what they are.
 */
import { type EnvReading, parseEnv } from './env.ts'
import { createDatabase, type OpenDatabase } from './queue/database.ts'
import { createUpstashPort } from './queue/upstash.ts'
import { POLLING, type Wake } from './wake/wake.ts'

export type Bindings = Readonly<Record<string, unknown>>

export type Deployment = {
  readonly env: EnvReading
  /** Undefined when the bindings do not name a usable one. */
  readonly database: OpenDatabase | undefined
  readonly wake: Wake
}

export type DeploymentOptions = {
  /** The clock, in epoch ms. It prices absolute times and limits; leases and delays are the server's. */
  readonly now?: () => number
  /** How waiting claims learn of jobs. Default: they poll. `createProcessWake()` serves one process. */
  readonly wake?: Wake | ((bindings: Bindings) => Wake)
}

/** Reads deployments from bindings; the last one is kept. Changed bindings must be another object. */
export function createDeployments(options: DeploymentOptions = {}): (bindings: Bindings) => Deployment {
  let known: { bindings: Bindings; fingerprint: string; deployment: Deployment } | undefined
  return (bindings) => {
    if (known?.bindings === bindings) return known.deployment
    const relevant = Object.entries(bindings).filter(([name]) => /^(EMQ_|UPSTASH_)/.test(name))
    const fingerprint = JSON.stringify(relevant)
    if (known?.fingerprint === fingerprint) {
      known.bindings = bindings
      return known.deployment
    }
    const env = parseEnv(bindings)
    const { wake: wakeOf = POLLING } = options
    const wake = typeof wakeOf === 'function' ? wakeOf(bindings) : wakeOf
    const { redis, limits } = env.settings
    const port = redis && createUpstashPort({ ...redis, timeoutMs: limits.redisTimeoutMs })
    const database = port && createDatabase(port, env.settings, options.now, wake.ring)
    known = { bindings, fingerprint, deployment: { env, database, wake } }
    return known.deployment
  }
}
