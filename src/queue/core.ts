/**
 * The core: eight verbs that every client of the protocol shares. Six are scripts, two are plain reads. They return what
 * the contract says; every other verb is an extension.
 */
import { keyspace } from '../protocol/keys.ts'
import { accept, type Result, refuse } from '../protocol/refusals.ts'
import { type Bound, bind, type QueueRef } from './context.ts'
import type { RedisPort } from './redis.ts'
import { bytes, integer, list, text } from './replies.ts'
import { run, runMove, runScript } from './scripts.ts'

/** A job as the contract's claim returns it; without a payload it is a ghost. */
export type ClaimedRow = {
  readonly id: string
  readonly token: number
  readonly payload: Uint8Array | undefined
}

/** How a failed job is retried. */
export type RetryOptions = {
  readonly delayMs?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly error?: string | undefined
}

export type Retried =
  | { readonly id: string; readonly status: 'dead' }
  | { readonly id: string; readonly status: 'scheduled'; readonly delayMs: number }

/** Moves a new job into pending. A duplicate changes nothing. */
export async function enqueue(
  ref: QueueRef,
  id: string,
  payload: string,
): Promise<Result<{ id: string; status: 'enqueued' | 'duplicate' }>> {
  const result = await runMove(ref, 'enqueue', { id, payload })
  if (!result.ok) return result
  return accept({ id, status: integer(result.value) === 1 ? 'enqueued' : 'duplicate' })
}

/** Claims the oldest pending job under a lease, in ms. Not safe to repeat: each run claims another job. */
export async function claimRow(ref: QueueRef, leaseMs: number): Promise<ClaimedRow | undefined> {
  const [id, payload, token] = list(await runScript(ref, 'claim', { leaseMs }))
  if (id === undefined) return undefined
  return { id: text(id), payload: bytes(payload), token: integer(token) }
}

/** Deletes a finished job. A repeat is refused as `gone`. */
export async function complete(
  ref: QueueRef,
  id: string,
  token: number,
): Promise<Result<{ id: string; status: 'completed' }>> {
  const result = await runMove(ref, 'complete', { id, token })
  if (!result.ok) return result
  return integer(result.value) === 1 ? accept({ id, status: 'completed' }) : refuse({ refused: 'gone' })
}

/**
 * Schedules a failed job again after `delayMs`, or moves it to dead when its budget is used up. The default delay is the
 * queue's backoff with full jitter, and the default budget is the job's, else the queue's.
 */
export async function retry(
  ref: QueueRef,
  id: string,
  token: number,
  { delayMs, maxAttempts, error }: RetryOptions,
): Promise<Result<Retried>> {
  const jitter = Math.random()
  const result = await runMove(ref, 'retry', { id, token, delayMs, maxAttempts, error, jitter })
  if (!result.ok) return result
  const [state, delay] = list(result.value)
  return accept(
    text(state) === 'dead' ? { id, status: 'dead' } : { id, status: 'scheduled', delayMs: integer(delay) },
  )
}

/** Moves due jobs to pending, at most `limit`. */
export async function promote(
  ref: QueueRef,
  limit: number,
): Promise<{ promoted: number; ghosts: number; more: boolean }> {
  const reply = list(await runScript(ref, 'promote', { limit, report: 'report' }))
  const [promoted = 0, ghosts = 0, more] = reply.map(integer)
  return { promoted, ghosts, more: more === 1 }
}

/** Moves jobs whose lease has lapsed out of active, at most `limit`. */
export async function reap(
  ref: QueueRef,
  limit: number,
): Promise<{ reaped: number; dead: number; ghosts: number; more: boolean }> {
  const reply = list(await runScript(ref, 'reap', { limit, jitter: Math.random() }))
  const [reaped = 0, dead = 0, ghosts = 0, more] = reply.map(integer)
  return { reaped, dead, ghosts, more: more === 1 }
}

/** The ids in pending, newest first. */
export async function browse({ port, keys }: QueueRef, limit: number): Promise<string[]> {
  const [reply] = await run(port, [['ZRANGE', keys.pending, '+', '-', 'BYLEX', 'REV', 'LIMIT', 0, limit]])
  return list(reply).map(text)
}

/** How many jobs are pending. */
export async function pendingSize({ port, keys }: QueueRef): Promise<number> {
  const [reply] = await run(port, [['ZCARD', keys.pending]])
  return integer(reply)
}

const CORE = { enqueue, claim: claimRow, complete, retry, promote, reap, browse, pendingSize }

export type Core = Bound<typeof CORE>

/**
 * The eight verbs over a Redis port.
 *
 * @example
 * const emails = createCore(port, 'emails')
 * await emails.enqueue('JOB0KHTOWnGLuC', '{"to":"a@example.com"}')
 * const job = await emails.claim(30_000)
 * if (job !== undefined) await emails.complete(job.id, job.token)
 */
export const createCore = (port: RedisPort, queue: string): Core =>
  bind({ port, queue, keys: keyspace(queue) }, CORE)
