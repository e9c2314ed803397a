/**
 * The audit: walks the four sets of a queue and its rows, a bounded step at a time, and holds each job against the
 * invariants: it is in exactly one set, its row names that set, and pending and dead hold score 0 only.
 *
 * A step finds ids with one read and judges them in one script, so nothing that moves in between is taken for a
 * fault. The read is not part of the script: a walk of the keyspace looks at keys that are not declared, and a
 * service may hold everything up while a script runs. Whatever is wrong from the first step to the last is found.
 */
import { isJobId } from '../protocol/ids.ts'
import { keyspace } from '../protocol/keys.ts'
import type { Command, RedisPort } from './redis.ts'
import { registerQueue } from './registry.ts'
import { groups, integer, list, text } from './replies.ts'
import { call, run } from './scripts.ts'

export const AUDIT_SETS = ['pending', 'active', 'schedule', 'dead'] as const

/** What is wrong with a job. */
export const AUDIT_KINDS = [
  /** It is in a set, or has a part of a row, and has no payload. */
  'ghost',
  /** It has a row and is in no set. */
  'orphan',
  /** It is in more sets than one. */
  'doubled',
  /** Its row names another set than the one it is in. */
  'state',
  /** It has a score in pending or dead. */
  'score',
] as const

type AuditSet = (typeof AUDIT_SETS)[number]

/** Where an audit goes on. */
export type AuditCursor = { readonly walk: AuditSet | 'rows'; readonly at: string }

export type AuditFinding = {
  readonly id: string
  readonly kind: (typeof AUDIT_KINDS)[number]
  /** The sets that held the job. */
  readonly sets: readonly AuditSet[]
}

export type AuditStep = {
  /** Ids that were looked at. A sound job is met twice in an audit: in its set, and as a row. */
  readonly checked: number
  readonly findings: readonly AuditFinding[]
  /** How many of the findings were repaired. */
  readonly repaired: number
  /** Absent when the audit is through. */
  readonly cursor: AuditCursor | undefined
}

export type AuditRequest = {
  /** Where the step before ended. */
  readonly cursor?: AuditCursor | undefined
  /** Ids, or keys of the database, to look at; Redis may give a few more. */
  readonly limit: number
  /** Repairs what has one right answer. */
  readonly repair?: boolean | undefined
}

const WALKS = [...AUDIT_SETS, 'rows'] as const

/** A cursor as text. */
export const encodeAuditCursor = ({ walk, at }: AuditCursor): string => `${walk}:${at}`

/** The cursor of a text; undefined when it is none. */
export function decodeAuditCursor(text: string): AuditCursor | undefined {
  const [word, at = '', ...rest] = text.split(':')
  const walk = WALKS.find((walk) => walk === word)
  const isSound = rest.length === 0 && /^\d{1,20}$/.test(at) && BigInt(at) < 2n ** 64n
  return walk !== undefined && isSound ? { walk, at } : undefined
}

export function createAuditor(port: RedisPort, queue: string) {
  const keys = keyspace(queue)

  /** One step of a walk: ids, each once, and where the walk goes on. */
  async function find({ walk, at }: AuditCursor, limit: number): Promise<{ ids: string[]; next: string }> {
    // A queue name holds nothing that means something in a pattern.
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

  return {
    /** One step of an audit. With `repair`, a repeat after a lost answer reports only what is still wrong. */
    async audit({ cursor, limit, repair = false }: AuditRequest): Promise<AuditStep> {
      const from = cursor ?? { walk: WALKS[0], at: '0' }
      const { ids, next } = await find(from, limit)
      const nextWalk = WALKS[WALKS.indexOf(from.walk) + 1]
      const step = {
        checked: ids.length,
        cursor:
          next !== '0'
            ? { walk: from.walk, at: next }
            : nextWalk === undefined
              ? undefined
              : { walk: nextWalk, at: '0' },
      }
      if (ids.length === 0) return { ...step, findings: [], repaired: 0 }

      const judge = call(
        'audit',
        [...AUDIT_SETS.map((set) => keys[set]), keys.ghosts, keys.startBy, ...ids.map((id) => keys.job(id))],
        [from.walk, repair ? 1 : 0, ...ids],
      )
      // What was repaired may be due at once: maintenance is to visit the queue.
      const replies = await run(port, repair ? [registerQueue(queue), judge] : [judge])
      const found = groups(list(replies.at(-1)), 4)
      return {
        ...step,
        findings: found.map(([id, kind, sets]) => ({
          id: text(id),
          kind: text(kind) as AuditFinding['kind'],
          sets: text(sets).split(' ').filter(Boolean) as AuditSet[],
        })),
        repaired: found.filter(([, , , repaired]) => integer(repaired) === 1).length,
      }
    },
  }
}
