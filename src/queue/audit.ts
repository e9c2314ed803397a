/**
 * The audit: walks the four sets of a queue and its rows, in bounded steps, and checks each job against the invariants:
 * it is in exactly one set, its row names that set, and pending and dead contain score 0 only.
 *
 * A step reads ids in one command and judges them in one script, so a job that moves in between is never reported. The
 * read is not part of the script: a scan of the keyspace touches undeclared keys, and a service may block everything
 * while a script runs. The audit finds everything that is wrong from its first step to its last.
 */
import { isJobId } from '../protocol/ids.ts'
import { STATE_SETS, type StateSet } from '../protocol/states.ts'
import type { QueueRef } from './context.ts'
import type { Command } from './redis.ts'
import { registerQueue } from './registry.ts'
import { groups, integer, list, text } from './replies.ts'
import { run, runScript } from './scripts.ts'

export const AUDIT_SETS = STATE_SETS

/** The faults of a job. */
export const AUDIT_KINDS = [
  /** An id in a set, or a part of a row, without a payload. */
  'ghost',
  /** A row that is in no set. */
  'orphan',
  /** A job in several sets. */
  'doubled',
  /** A row that names another set than the one that contains the job. */
  'state',
  /** A score other than 0 in pending or dead. */
  'score',
] as const

/** Where the next step of an audit begins. */
export type AuditCursor = { readonly walk: StateSet | 'rows'; readonly at: string }

export type AuditFinding = {
  readonly id: string
  readonly kind: (typeof AUDIT_KINDS)[number]
  /** The sets that contained the job. */
  readonly sets: readonly StateSet[]
}

export type AuditStep = {
  /** Ids that were checked. An audit checks each job twice: in its set, and as a row. */
  readonly checked: number
  readonly findings: readonly AuditFinding[]
  /** How many of the findings were repaired. */
  readonly repaired: number
  /** Absent when the audit is finished. */
  readonly cursor: AuditCursor | undefined
}

export type AuditRequest = {
  /** The cursor of the step before. */
  readonly cursor?: AuditCursor | undefined
  /** How many ids, or keys of the database, to read; Redis may return a few more. */
  readonly limit: number
  /** Repairs every fault that has one correct fix. */
  readonly repair?: boolean | undefined
}

const WALKS = [...AUDIT_SETS, 'rows'] as const

/** A cursor as text. */
export const encodeAuditCursor = ({ walk, at }: AuditCursor): string => `${walk}:${at}`

/** The cursor in a text; undefined when the text is malformed. */
export function decodeAuditCursor(text: string): AuditCursor | undefined {
  const [word, at = '', ...rest] = text.split(':')
  const walk = WALKS.find((walk) => walk === word)
  const isSound = rest.length === 0 && /^\d{1,20}$/.test(at) && BigInt(at) < 2n ** 64n
  return walk !== undefined && isSound ? { walk, at } : undefined
}

/** One step of a walk: ids, each once, and the position of the next step. */
async function find(
  { port, keys }: QueueRef,
  { walk, at }: AuditCursor,
  limit: number,
): Promise<{ ids: string[]; next: string }> {
  // No character of a queue name is special in a pattern.
  const command: Command =
    walk === 'rows'
      ? ['SCAN', at, 'MATCH', `${keys.jobPrefix}*`, 'COUNT', limit]
      : ['ZSCAN', keys[walk], at, 'COUNT', limit]
  const [reply] = await run(port, [command])
  const [next, found] = list(reply)
  const ids =
    walk === 'rows'
      ? list(found)
          .map((key) => text(key).slice(keys.jobPrefix.length))
          .filter(isJobId)
      : groups(list(found), 2).map(([id]) => text(id))
  return { ids: [...new Set(ids)], next: text(next) }
}

/** One step of an audit. With `repair`, a repeat after a lost answer reports only the faults that are left. */
export async function audit(
  ref: QueueRef,
  { cursor, limit, repair = false }: AuditRequest,
): Promise<AuditStep> {
  const { walk, at } = cursor ?? { walk: WALKS[0], at: '0' }
  const { ids, next } = await find(ref, { walk, at }, limit)
  const nextWalk = next === '0' ? WALKS[WALKS.indexOf(walk) + 1] : walk
  const step = {
    checked: ids.length,
    cursor: nextWalk === undefined ? undefined : { walk: nextWalk, at: next },
  }
  if (ids.length === 0) return { ...step, findings: [], repaired: 0 }
  // A repaired job may be due at once, so maintenance must visit the queue.
  const before = repair ? [registerQueue(ref.queue)] : []
  const reply = await runScript(ref, 'audit', { walk, repair, each: ids.map((id) => ({ id })) }, before)
  const found = groups(list(reply), 4)
  return {
    ...step,
    findings: found.map(([id, kind, sets]) => ({
      id: text(id),
      kind: text(kind) as AuditFinding['kind'],
      sets: text(sets).split(' ').filter(Boolean) as StateSet[],
    })),
    repaired: found.filter(([, , , repaired]) => integer(repaired) === 1).length,
  }
}
