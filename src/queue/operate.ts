/**
 * Operating: redrive, remove, drain, reschedule, pause and settings. Every mass operation is bounded and says
 * whether there is more.
 */
import { lowestIdAt } from '../protocol/ids.ts'
import { keyspace } from '../protocol/keys.ts'
import type { Refusal } from '../protocol/refusals.ts'
import { runOne } from './core.ts'
import { type QueueSettings, readSettings } from './observe.ts'
import type { Command, RedisPort } from './redis.ts'
import { registerQueue, touchQueue } from './registry.ts'
import { groups, integer, list, text } from './replies.ts'
import { call, run } from './scripts.ts'

export type RedriveRequest = {
  readonly limit: number
  /** Mint time, epoch ms, inclusive. */
  readonly from?: number | undefined
  /** Mint time, epoch ms, exclusive. */
  readonly to?: number | undefined
  readonly errorContains?: string | undefined
  readonly dryRun?: boolean | undefined
  /** The last id that was looked at before. */
  readonly cursor?: string | undefined
}

/** Changes to settings: `null` takes one back to its default, what is left out stays. */
export type SettingsChange = {
  readonly maxAttempts?: number | null | undefined
  readonly backoff?:
    | { readonly baseMs?: number | null | undefined; readonly maxMs?: number | null | undefined }
    | null
    | undefined
  readonly leaseMs?: number | null | undefined
  readonly maxActive?: number | null | undefined
  readonly maxPending?: number | null | undefined
}

/** Dead jobs that one mass redrive looks at, at the most. */
const REDRIVE_SCAN = 1000

export function createOperator(port: RedisPort, queue: string) {
  const keys = keyspace(queue)

  return {
    /** Brings one dead job back to pending with a fresh budget. */
    async redrive(id: string): Promise<'pending' | Refusal> {
      const result = await runOne(
        port,
        call('redrive', [keys.dead, keys.pending, keys.job(id), keys.startBy], [id]),
        [touchQueue(queue)],
      )
      if ('refused' in result) return result
      return integer(result.reply) === 1 ? 'pending' : { refused: 'gone' }
    },

    /** Brings dead jobs back, oldest first. */
    async redriveMany(
      request: RedriveRequest,
    ): Promise<{ redriven: number; more: boolean; cursor: string | undefined }> {
      const { from, to, cursor } = request
      const first = from === undefined ? '' : lowestIdAt(from)
      const isBehind = cursor !== undefined && cursor >= first
      const isDry = request.dryRun === true
      const replies = await run(port, [
        ...(isDry ? [] : [touchQueue(queue)]),
        call(
          'redrive_many',
          [keys.dead, keys.pending, keys.startBy],
          [
            keys.jobPrefix,
            request.limit,
            isBehind ? `(${cursor}` : first === '' ? '-' : `[${first}`,
            to === undefined ? '+' : `(${lowestIdAt(to)}`,
            REDRIVE_SCAN,
            request.errorContains ?? '',
            isDry ? 1 : 0,
          ],
        ),
      ])
      const [redriven, last, more] = list(replies.at(-1))
      const hasMore = integer(more) === 1
      return { redriven: integer(redriven), more: hasMore, cursor: hasMore ? text(last) : undefined }
    },

    /** Moves a scheduled job to another time; a time that has come puts it into pending. */
    async reschedule(
      id: string,
      when: { readonly delayMs: number } | { readonly runAt: number },
    ): Promise<{ status: 'pending' | 'scheduled' } | Refusal> {
      const args = 'delayMs' in when ? [id, when.delayMs, ''] : [id, '', when.runAt]
      const result = await runOne(
        port,
        call('reschedule', [keys.schedule, keys.pending, keys.job(id)], args),
        [touchQueue(queue)],
      )
      if ('refused' in result) return result
      const status = text(list(result.reply)[0])
      if (status === 'gone') return { refused: 'gone' }
      return { status: status === 'pending' ? 'pending' : 'scheduled' }
    },

    /** Deletes a job, unless a live lease holds it. */
    async remove(id: string): Promise<'removed' | Refusal> {
      const result = await runOne(
        port,
        call(
          'remove',
          [keys.active, keys.pending, keys.schedule, keys.dead, keys.job(id), keys.startBy],
          [id],
        ),
      )
      if ('refused' in result) return result
      return integer(result.reply) === 1 ? 'removed' : { refused: 'gone' }
    },

    /** Deletes jobs of one state, oldest first. */
    async drain(
      state: 'pending' | 'scheduled' | 'dead',
      limit: number,
    ): Promise<{ removed: number; more: boolean }> {
      const set = { pending: keys.pending, scheduled: keys.schedule, dead: keys.dead }[state]
      const sets = [keys.pending, keys.active, keys.schedule, keys.dead]
      const [reply] = await run(port, [call('purge', [set, keys.startBy, ...sets], [keys.jobPrefix, limit])])
      const [removed, more] = list(reply)
      return { removed: integer(removed), more: integer(more) === 1 }
    },

    /** Stops claims through this API, and nothing else. */
    async pause(): Promise<void> {
      const [, reply] = await run(port, [registerQueue(queue), ['HSET', keys.meta, 'paused', 1]])
      integer(reply)
    },

    async resume(): Promise<void> {
      const [reply] = await run(port, [['HDEL', keys.meta, 'paused']])
      integer(reply)
    },

    /** Merges a change into the settings and answers those in force. */
    async changeSettings(change: SettingsChange): Promise<QueueSettings> {
      const { backoff } = change
      const fields = {
        maxAttempts: change.maxAttempts,
        backoffBaseMs: backoff === null ? null : backoff?.baseMs,
        backoffMaxMs: backoff === null ? null : backoff?.maxMs,
        leaseMs: change.leaseMs,
        maxActive: change.maxActive,
        maxPending: change.maxPending,
      }
      const set = Object.entries(fields).flatMap(([field, value]) =>
        typeof value === 'number' ? [field, value] : [],
      )
      const unset = Object.entries(fields).flatMap(([field, value]) => (value === null ? [field] : []))
      const commands: Command[] = []
      if (set.length > 0 || unset.length > 0) commands.push(registerQueue(queue))
      if (set.length > 0) commands.push(['HSET', keys.meta, ...set])
      if (unset.length > 0) commands.push(['HDEL', keys.meta, ...unset])
      const replies = await run(port, [...commands, ['HGETALL', keys.meta]])
      // A change that Redis did not take must not be answered as one that is in force.
      for (const reply of replies.slice(0, -1)) integer(reply)
      return readSettings(
        new Map(groups(list(replies.at(-1)), 2).map(([field, value]) => [text(field), value ?? null])),
      )
    },
  }
}
