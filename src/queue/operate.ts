/**
 * Operating: redrive, remove, purge, reschedule, pause and settings. Every mass operation is bounded and reports whether
 * more is left.
 */
import { lowestIdAt } from '../protocol/ids.ts'
import { accept, type Result, refuse } from '../protocol/refusals.ts'
import { type JobState, SET_OF_STATE } from '../protocol/states.ts'
import type { QueueContext, QueueRef } from './context.ts'
import { type QueueSettings, readSettings } from './observe.ts'
import type { Command, Reply } from './redis.ts'
import { registerQueue, touchQueue } from './registry.ts'
import { integer, list, pairs, text } from './replies.ts'
import { run, runMove, runScript } from './scripts.ts'

export type RedriveRequest = {
  readonly limit: number
  /** Mint time, epoch ms, inclusive. */
  readonly from?: number | undefined
  /** Mint time, epoch ms, exclusive. */
  readonly to?: number | undefined
  readonly errorContains?: string | undefined
  readonly dryRun?: boolean | undefined
  /** The last id that an earlier call read. */
  readonly cursor?: string | undefined
}

/** Changes to settings: `null` restores a default, and an absent setting keeps its value. */
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

/** Dead jobs that one mass redrive reads at most. */
const REDRIVE_SCAN = 1000

/** The result of a script that returns 1 for a move and 0 for a job that does not exist. */
function movedTo<Status extends string>(
  id: string,
  status: Status,
  result: Result<Reply>,
): Result<{ id: string; status: Status }> {
  if (!result.ok) return result
  return integer(result.value) === 1 ? accept({ id, status }) : refuse({ refused: 'gone' })
}

/** Moves one dead letter back to pending with a fresh budget. */
export const redrive = async (
  ref: QueueRef,
  id: string,
): Promise<Result<{ id: string; status: 'pending' }>> =>
  movedTo(id, 'pending', await runMove(ref, 'redrive', { id }, [touchQueue(ref.queue)]))

/** Moves dead letters back to pending, oldest first. */
export async function redriveMany(
  ref: QueueRef,
  { limit, from, to, cursor, errorContains, dryRun = false }: RedriveRequest,
): Promise<{ redriven: number; more: boolean; cursor: string | undefined }> {
  const first = from === undefined ? '' : lowestIdAt(from)
  const isBehind = cursor !== undefined && cursor >= first
  const reply = await runScript(
    ref,
    'redrive_many',
    {
      limit,
      from: isBehind ? `(${cursor}` : first === '' ? '-' : `[${first}`,
      to: to === undefined ? '+' : `(${lowestIdAt(to)}`,
      scan: REDRIVE_SCAN,
      errorContains,
      dryRun,
    },
    dryRun ? [] : [touchQueue(ref.queue)],
  )
  const [redriven, last, more] = list(reply)
  const hasMore = integer(more) === 1
  return { redriven: integer(redriven), more: hasMore, cursor: hasMore ? text(last) : undefined }
}

/** Moves a scheduled job to another time; a time in the past moves it to pending. */
export async function reschedule(
  ref: QueueRef,
  id: string,
  when: { readonly delayMs: number } | { readonly runAt: number },
): Promise<Result<{ id: string; status: 'pending' | 'scheduled' }>> {
  const time = { delayMs: undefined, runAt: undefined, ...when }
  const result = await runMove(ref, 'reschedule', { id, ...time }, [touchQueue(ref.queue)])
  if (!result.ok) return result
  const status = text(list(result.value)[0])
  if (status === 'gone') return refuse({ refused: 'gone' })
  return accept({ id, status: status === 'pending' ? 'pending' : 'scheduled' })
}

/** Deletes a job, unless a consumer holds it under a live lease. */
export const remove = async (ref: QueueRef, id: string): Promise<Result<{ id: string; status: 'removed' }>> =>
  movedTo(id, 'removed', await runMove(ref, 'remove', { id }))

/** Deletes jobs of one state, oldest first. */
export async function purge(
  ref: QueueRef,
  state: Exclude<JobState, 'active'>,
  limit: number,
): Promise<{ removed: number; more: boolean }> {
  const reply = list(await runScript(ref, 'purge', { set: SET_OF_STATE[state], limit }))
  const [removed = 0, more] = reply.map(integer)
  return { removed, more: more === 1 }
}

/** Changes the queue itself, and returns the reply to a read behind the changes. */
async function change(
  { port, memory }: QueueContext,
  commands: readonly Command[],
  read: readonly Command[] = [],
): Promise<Reply | undefined> {
  // A claim through this isolate sees the change at once.
  const replies = await run(port, [...commands, ...read]).finally(() => memory.sweep.forget())
  // A change that Redis rejected is not in force: this throws.
  for (const reply of replies.slice(0, commands.length)) integer(reply)
  return replies[commands.length]
}

/** Stops claims through this API, and nothing else. */
export async function pause(context: QueueContext): Promise<void> {
  await change(context, [registerQueue(context.queue), ['HSET', context.keys.meta, 'paused', 1]])
}

/** Lets claims through again, and returns how many jobs are pending. */
export async function resume(context: QueueContext): Promise<{ pending: number }> {
  const { meta, pending } = context.keys
  return { pending: integer(await change(context, [['HDEL', meta, 'paused']], [['ZCARD', pending]])) }
}

/** Merges a change into the settings and returns the settings in force. */
export async function changeSettings(
  context: QueueContext,
  { backoff, ...settings }: SettingsChange,
): Promise<QueueSettings> {
  const { queue, keys } = context
  const fields = Object.entries({
    ...settings,
    backoffBaseMs: backoff === null ? null : backoff?.baseMs,
    backoffMaxMs: backoff === null ? null : backoff?.maxMs,
  })
  const set = fields.flatMap(([field, value]) => (typeof value === 'number' ? [field, value] : []))
  const unset = fields.flatMap(([field, value]) => (value === null ? [field] : []))
  const commands: Command[] = []
  if (set.length > 0 || unset.length > 0) commands.push(registerQueue(queue))
  if (set.length > 0) commands.push(['HSET', keys.meta, ...set])
  if (unset.length > 0) commands.push(['HDEL', keys.meta, ...unset])
  return readSettings(pairs(await change(context, commands, [['HGETALL', keys.meta]])))
}
