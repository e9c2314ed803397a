/**
 * Sweeps: one run of the script that promotes what is due, reaps what has lapsed and expires what nobody started in
 * time, each up to a limit.
 */

import { DEFAULT_LEASE_MS } from '../protocol/limits.ts'
import { call, type ScriptCall } from '../protocol/script-call.ts'
import type { QueueRef } from './context.ts'
import { type RedisPort, type Reply, UpstreamError } from './redis.ts'
import type { ClaimRules } from './remembered-sweep.ts'
import { integer, list, optionalInteger, optionalText } from './replies.ts'
import { run } from './scripts.ts'

export type SweepReport = {
  /** The server's clock, ms. */
  readonly now: number
  readonly promoted: number
  readonly reaped: number
  readonly dead: number
  readonly ghosts: number
  /** Whether the sweep left due jobs behind. */
  readonly more: boolean
  /** When the next sweep has something to do, server ms; undefined while the queue rests. */
  readonly nextAt: number | undefined
  /** Jobs that are pending after the sweep. */
  readonly pending: number
}

/** Jobs of each kind that the sweep of a claim moves. */
const LIMIT_OF_CLAIM = 100

const sweepCall = (q: string, limit: number): ScriptCall => call('sweep', { q, limit, jitter: Math.random() })

function readReport(reply: Reply | undefined): SweepReport {
  const [now = 0, promoted = 0, reaped = 0, dead = 0, ghosts = 0, more, nextAt, pending] =
    list(reply).map(integer)
  if (nextAt === undefined || pending === undefined)
    throw new UpstreamError('Redis returned an incomplete report of a sweep')
  return {
    now,
    promoted,
    reaped,
    dead,
    ghosts,
    more: more === 1,
    nextAt: nextAt < 0 ? undefined : nextAt,
    pending,
  }
}

/** Sweeps the queue, moving at most `limit` jobs of each kind. */
export async function sweep({ port, queue }: QueueRef, limit: number): Promise<SweepReport> {
  const [reply] = await run(port, [sweepCall(queue, limit)])
  return readReport(reply)
}

/**
 * Sweeps many queues in one round trip. A queue that fails has its error in its place.
 *
 * @throws {UpstreamError} when the whole round trip failed.
 */
export async function sweepAll(
  port: RedisPort,
  queues: readonly string[],
  limit: number,
): Promise<(SweepReport | UpstreamError)[]> {
  const replies = await run(
    port,
    queues.map((queue) => sweepCall(queue, limit)),
  )
  return queues.map((_, nth) => {
    try {
      return readReport(replies[nth])
    } catch (error) {
      if (error instanceof UpstreamError) return error
      throw error
    }
  })
}

/** Sweeps the queue and reads the rules for a claim without a limit. */
export async function sweepForClaim({ port, queue, keys }: QueueRef): Promise<ClaimRules> {
  const [swept, settings] = await run(port, [
    sweepCall(queue, LIMIT_OF_CLAIM),
    ['HMGET', keys.meta, 'paused', 'maxActive', 'leaseMs'],
  ])
  const [paused, maxActive, leaseMs] = list(settings)
  return {
    paused: optionalText(paused) !== undefined,
    capped: (optionalInteger(maxActive) ?? 0) > 0,
    leaseMs: optionalInteger(leaseMs) ?? DEFAULT_LEASE_MS,
    more: readReport(swept).more,
  }
}
