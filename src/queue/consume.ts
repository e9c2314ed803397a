/**
 * Consuming: claims under a lease with a fencing token, and the moves of a job by its holder.
 *
 * A claim with a limit is one run of the batch script, which reads the pause and sweeps in the same run. A claim without
 * a limit is one run of the contract's script, behind a sweep that this isolate remembers for a second.
 */

import { accept, type Result, refuse, type StaleReason } from '../protocol/refusals.ts'
import { call, type ScriptCall } from '../protocol/script-call.ts'
import type { QueueContext, QueueRef } from './context.ts'
import { claimRow, complete, type Retried } from './core.ts'
import { type Reply, UpstreamError } from './redis.ts'
import { bytes, groups, integer, list, text, textMap } from './replies.ts'
import { type PendingCall, run } from './scripts.ts'
import { sweepForClaim } from './sweep.ts'

/** A job in the hands of a consumer. */
export type ClaimedJob = {
  readonly id: string
  readonly payload: Uint8Array
  /** The fencing token: only the newest one moves the job. */
  readonly token: number
  /** How much of the lease is left, in ms. */
  readonly leaseMs: number
  /** Which attempt of its budget this is, from 1. Only of claims with a limit. */
  readonly attempt?: number
  /** The budget; 0 means no limit. Only of claims with a limit. */
  readonly maxAttempts?: number
  /** What the producer gave with the job. Only of claims with a limit. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export type Claimed = {
  readonly jobs: readonly ClaimedJob[]
  readonly paused: boolean
  /** The claim returned no job but stopped early: the queue may not be empty. */
  readonly more?: boolean
  /** The queue has as many active jobs as it may have. */
  readonly capped?: boolean
  /** Milliseconds until the next job is due or a lease lapses, when the script has read it. */
  readonly nextMs?: number | undefined
}

export type ClaimOptions = {
  readonly leaseMs?: number | undefined
  readonly limit?: number | undefined
  /** Names the claim, so that a repeat returns the same jobs and tokens. */
  readonly claimId?: string | undefined
}

type Settling = { readonly id: string; readonly token: number }

/** A move of a claimed job. Delays and leases are in ms. */
export type Settlement = Settling &
  (
    | { readonly action: 'complete' }
    | {
        readonly action: 'retry'
        readonly delayMs?: number | undefined
        readonly maxAttempts?: number | undefined
        readonly error?: string | undefined
      }
    | { readonly action: 'fail'; readonly error?: string | undefined }
    | { readonly action: 'release'; readonly delayMs?: number | undefined }
    | { readonly action: 'extend'; readonly leaseMs: number }
  )

export type Settled =
  | { readonly id: string; readonly status: 'completed' | 'pending' }
  | Retried
  | { readonly id: string; readonly status: 'extended'; readonly leaseMs: number }

/** Ghosts in a row that one claim removes before it returns no job. */
const MAX_GHOSTS = 100

const FIRST_HINT_MS = 50
const LONGEST_HINT_MS = 1_000

const claimCall = (q: string, limit: number, { leaseMs, claimId }: ClaimOptions): ScriptCall =>
  call('claim_many', { q, leaseMs, limit, jitter: Math.random(), claimId })

function readClaim(reply: Reply | undefined): Claimed {
  const [status, nextMs, ...rest] = list(reply)
  const next = integer(nextMs)
  return {
    paused: text(status) === 'paused',
    capped: text(status) === 'full',
    more: text(status) === 'ok' && next === 0 && rest.length === 0,
    nextMs: next < 0 ? undefined : next,
    jobs: groups(rest, 7).map(([id, payload, token, leaseMs, attempt, maxAttempts, headers]) => ({
      id: text(id),
      payload: bytes(payload) ?? new Uint8Array(),
      token: integer(token),
      leaseMs: integer(leaseMs),
      attempt: integer(attempt),
      maxAttempts: integer(maxAttempts),
      headers: textMap(headers),
    })),
  }
}

async function claimMany({ port, queue }: QueueRef, limit: number, options: ClaimOptions): Promise<Claimed> {
  const [reply] = await run(port, [claimCall(queue, limit, options)])
  return readClaim(reply)
}

/** Claims up to `limit` jobs by the batch script; without a limit, one job by the contract's script. */
export async function claim(context: QueueContext, options: ClaimOptions): Promise<Claimed> {
  if (options.limit !== undefined) return claimMany(context, options.limit, options)
  const rules = await context.memory.sweep.current(() => sweepForClaim(context))
  if (rules.paused) return { jobs: [], paused: true }
  // The contract's script does not know the limit of active jobs.
  if (rules.capped) return claimMany(context, 1, options)
  const leaseMs = options.leaseMs ?? rules.leaseMs
  for (let ghosts = 0; ghosts < MAX_GHOSTS; ghosts++) {
    const job = await claimRow(context, leaseMs).catch(unreadable)
    // The contract's script stops at a key of the wrong type, and at attempts that it cannot count up. The batch script
    // skips such a row, or reports such a set.
    if (job === 'unreadable') return claimMany(context, 1, options)
    if (job === undefined) return { jobs: [], paused: false }
    const { id, token, payload } = job
    if (payload === undefined) await complete(context, id, token)
    else if (Number.isSafeInteger(token) && token > 0)
      return { jobs: [{ id, token, payload, leaseMs }], paused: false }
    // No route accepts such a token, so nobody could settle the job.
    else await fail(context, id, token, 'attempts is not a number that can be counted up')
  }
  return { jobs: [], paused: false, more: true }
}

function unreadable(error: unknown): 'unreadable' {
  if (error instanceof UpstreamError && error.ofAnotherType) return 'unreadable'
  throw error
}

/** Whether the last claim of the queue in this isolate returned jobs. */
export const wasBusy = ({ memory }: QueueContext): boolean => memory.wasBusy

/** When to claim again after a claim that returned `jobs`, in ms: later while the queue stays empty. */
export function hintMs({ memory }: QueueContext, jobs: number, nextMs: number | undefined): number {
  memory.wasBusy = jobs > 0
  if (jobs > 0) {
    memory.emptyClaims = 0
    return 0
  }
  const growing = FIRST_HINT_MS * 2 ** Math.min(memory.emptyClaims++, 10)
  return Math.max(1, Math.ceil(Math.min(growing, LONGEST_HINT_MS, nextMs ?? LONGEST_HINT_MS)))
}

function settleCall(q: string, items: readonly Settlement[]): ScriptCall {
  const each = items.map((item) => ({
    action: item.action,
    id: item.id,
    token: item.token,
    ms: millisecondsOf(item),
    maxAttempts: 'maxAttempts' in item ? item.maxAttempts : undefined,
    error: 'error' in item ? item.error : undefined,
    jitter: Math.random(),
  }))
  return call('settle', { q, each })
}

function millisecondsOf(item: Settlement): number | undefined {
  switch (item.action) {
    case 'retry':
      return item.delayMs
    case 'release':
      return item.delayMs ?? 0
    case 'extend':
      return item.leaseMs
    default:
      return undefined
  }
}

function readSettled(id: string, word: Reply | undefined, detail: Reply | undefined): Result<Settled> {
  const status = text(word)
  switch (status) {
    case 'completed':
    case 'dead':
    case 'pending':
      return accept({ id, status })
    case 'scheduled':
      return accept({ id, status, delayMs: integer(detail) })
    case 'extended':
      return accept({ id, status, leaseMs: integer(detail) })
    case 'gone':
      return refuse({ refused: 'gone' })
    case 'stale':
      return refuse({ refused: 'stale', reason: text(detail) as StaleReason })
    default:
      throw new UpstreamError('Redis returned an unknown status')
  }
}

/** Whether a claim returned no job. Redis does not remember it, so it can run again under the same claimId. */
const isEmptyClaim = (reply: Reply | undefined): boolean => Array.isArray(reply) && reply.length <= 2

/**
 * Settles many jobs, each by its own action, and can claim the next ones in the same round trip.
 *
 * The claim depends on the settle before it, which may free places under the limit of active jobs. When Redis lost the
 * script of the settle but not that of the claim, the claim runs first: a claim that got no job then runs again after
 * the settle. One that got jobs keeps them, because a batch may be short and a second claim could not be repeated.
 */
export async function settle(
  { port, queue }: QueueRef,
  items: readonly Settlement[],
  next?: ClaimOptions & { readonly limit: number },
): Promise<{ results: Result<Settled>[]; claimed?: Claimed }> {
  const calls: PendingCall[] = [settleCall(queue, items)]
  if (next !== undefined) calls.push({ ...claimCall(queue, next.limit, next), isIncomplete: isEmptyClaim })
  const [settled, claimed] = await run(port, calls)
  const pairs = groups(list(settled), 2)
  if (pairs.length !== items.length) throw new UpstreamError('Redis returned too few results')
  const results = items.map(({ id }, nth) => readSettled(id, ...(pairs[nth] as [Reply, Reply])))
  return next === undefined ? { results } : { results, claimed: readClaim(claimed) }
}

async function settleOne(ref: QueueRef, item: Settlement): Promise<Result<Settled>> {
  const { results } = await settle(ref, [item])
  return results[0] as Result<Settled>
}

/** Moves a job to dead: it is never retried. */
export const fail = (ref: QueueRef, id: string, token: number, error?: string): Promise<Result<Settled>> =>
  settleOne(ref, { action: 'fail', id, token, error })

/** Gives a job back after `delayMs`, default 0, without using its retry budget. */
export const release = (
  ref: QueueRef,
  id: string,
  token: number,
  delayMs?: number,
): Promise<Result<Settled>> => settleOne(ref, { action: 'release', id, token, delayMs })

/** Sets the lease to end `leaseMs` after the server's now. */
export const extend = (ref: QueueRef, id: string, token: number, leaseMs: number): Promise<Result<Settled>> =>
  settleOne(ref, { action: 'extend', id, token, leaseMs })
