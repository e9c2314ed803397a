/**
 * The core: eight verbs, six of them scripts that every client of the protocol shares, two of them plain reads. They
 * answer what the contract says and nothing beside it; whatever else the product can do is an extension.
 */
import { keyspace } from '../protocol/keys.ts'
import { parseRefusal, type Refusal } from '../protocol/refusals.ts'
import { type Command, RedisError, type RedisPort, type Reply } from './redis.ts'
import { bytes, integer, list, text } from './replies.ts'
import { call, run, type ScriptCall } from './scripts.ts'

/** A job as the contract's claim hands it out; without a payload it is a ghost. */
export type ClaimedRow = {
  readonly id: string
  readonly token: number
  readonly payload: Uint8Array | undefined
}

/** How a failed job is given back. */
export type RetryOptions = {
  readonly delayMs?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly error?: string | undefined
}

/** Runs one script, behind the commands that go before it in the same round trip; a refusal is a value. */
export async function runOne(
  port: RedisPort,
  script: ScriptCall,
  before: readonly Command[] = [],
): Promise<{ reply: Reply } | Refusal> {
  const reply = (await run(port, [...before, script])).at(-1) ?? null
  const refusal = reply instanceof RedisError ? parseRefusal(reply.text) : undefined
  return refusal ?? { reply }
}

/**
 * The eight verbs over a Redis port.
 *
 * @example
 * const emails = createCore(port, 'emails')
 * await emails.enqueue('JOB0KHTOWnGLuC', '{"to":"a@example.com"}')
 * const job = await emails.claim(30_000)
 * if (job !== undefined) await emails.complete(job.id, job.token)
 */
export function createCore(port: RedisPort, queue: string) {
  const keys = keyspace(queue)
  return {
    /** Puts a new job into pending. A duplicate changes nothing. */
    async enqueue(id: string, payload: string): Promise<'enqueued' | 'duplicate' | Refusal> {
      const result = await runOne(port, call('enqueue', [keys.job(id), keys.pending], [id, payload]))
      if ('refused' in result) return result
      return integer(result.reply) === 1 ? 'enqueued' : 'duplicate'
    },

    /** Takes the oldest pending job under a lease, in ms. Not safe to repeat: each run takes another one. */
    async claim(leaseMs: number): Promise<ClaimedRow | undefined> {
      const [reply] = await run(port, [call('claim', [keys.pending, keys.active], [keys.jobPrefix, leaseMs])])
      const [id, payload, token] = list(reply)
      if (id === undefined) return undefined
      return { id: text(id), payload: bytes(payload), token: integer(token) }
    },

    /** Retires a finished job. `gone` is the calm answer to a repeat. */
    async complete(id: string, token: number): Promise<'completed' | Refusal> {
      const result = await runOne(
        port,
        call(
          'complete',
          [
            keys.active,
            keys.job(id),
            keys.pending,
            keys.schedule,
            keys.dead,
            keys.completed,
            keys.ghosts,
            keys.startBy,
          ],
          [id, token],
        ),
      )
      if ('refused' in result) return result
      return integer(result.reply) === 1 ? 'completed' : { refused: 'gone' }
    },

    /**
     * Gives a failed job back, to run again after `delayMs`, or dead when its budget is spent. Left out, the delay is
     * the queue's backoff with full jitter, and the budget the job's or the queue's.
     */
    async retry(
      id: string,
      token: number,
      { delayMs, maxAttempts, error = '' }: RetryOptions,
    ): Promise<{ status: 'scheduled' | 'dead'; delayMs: number } | Refusal> {
      const result = await runOne(
        port,
        call(
          'retry',
          [keys.active, keys.schedule, keys.dead, keys.job(id), keys.failed, keys.meta],
          [id, token, delayMs ?? '', maxAttempts ?? '', error, Math.random()],
        ),
      )
      if ('refused' in result) return result
      const [state, delay] = list(result.reply)
      return { status: text(state) === 'dead' ? 'dead' : 'scheduled', delayMs: integer(delay) }
    },

    /** Moves due jobs to pending, at most `limit`. */
    async promote(limit: number): Promise<{ promoted: number; ghosts: number; more: boolean }> {
      const [reply] = await run(port, [
        call(
          'promote',
          [keys.schedule, keys.pending, keys.ghosts, keys.active, keys.dead],
          [keys.jobPrefix, limit, 'report'],
        ),
      ])
      const [promoted, ghosts, more] = list(reply)
      return { promoted: integer(promoted), ghosts: integer(ghosts), more: integer(more) === 1 }
    },

    /** Takes jobs whose lease has lapsed out of active, at most `limit`. */
    async reap(limit: number): Promise<{ reaped: number; dead: number; ghosts: number; more: boolean }> {
      const [reply] = await run(port, [
        call(
          'reap',
          [keys.active, keys.pending, keys.schedule, keys.dead, keys.failed, keys.ghosts, keys.meta],
          [keys.jobPrefix, limit, Math.random()],
        ),
      ])
      const [reaped, dead, ghosts, more] = list(reply)
      return {
        reaped: integer(reaped),
        dead: integer(dead),
        ghosts: integer(ghosts),
        more: integer(more) === 1,
      }
    },

    /** The ids in pending, newest first. */
    async browse(limit: number): Promise<string[]> {
      const [reply] = await run(port, [['ZRANGE', keys.pending, '+', '-', 'BYLEX', 'REV', 'LIMIT', 0, limit]])
      return list(reply).map(text)
    },

    /** How many jobs are pending. */
    async pendingSize(): Promise<number> {
      const [reply] = await run(port, [['ZCARD', keys.pending]])
      return integer(reply)
    },
  }
}
