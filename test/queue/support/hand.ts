/**
 * A hand on the scripts of one queue: each move as one call of its script with the keys and arguments of the contract,
 * and the reply as it came, with its bytes as text. No layer of the product stands in between.
 */
import { keyspace } from '../../../src/protocol/keys.ts'
import type { RedisPort } from '../../../src/queue/redis.ts'
import { call, run, type ScriptName } from '../../../src/queue/scripts.ts'
import { type Readable, readable } from './world.ts'

type Text = string | number

export type NewJob = {
  readonly id: string
  readonly payload?: string
  readonly delayMs?: Text
  readonly runAt?: Text
  readonly startBy?: Text
  readonly maxAttempts?: Text
  readonly idempotency?: { readonly key: string; readonly ttlMs: number }
  /** Whether the caller chose the id; default true. */
  readonly explicit?: boolean
}

export type Item = {
  readonly action: 'complete' | 'retry' | 'fail' | 'release' | 'extend'
  readonly id: string
  readonly token: Text
  readonly ms?: Text
  readonly maxAttempts?: Text
  readonly error?: string
  readonly jitter?: Text
}

export type Hand = ReturnType<typeof handOn>

export function handOn(port: RedisPort, queue: string) {
  const keys = keyspace(queue)
  const { active, pending, schedule, dead, completed, failed, ghosts, meta, startBy, jobPrefix } = keys
  const sweepKeys = [active, pending, schedule, dead, failed, ghosts, meta, startBy]

  async function exec(name: ScriptName, scriptKeys: readonly string[], args: readonly Text[]) {
    const [reply] = await run(port, [call(name, scriptKeys, args)])
    return readable(reply)
  }

  return {
    port,
    queue,
    keys,
    enqueue: (id: string, payload = 'payload') => exec('enqueue', [keys.job(id), pending], [id, payload]),
    claim: (leaseMs: Text = 100_000) => exec('claim', [pending, active], [jobPrefix, leaseMs]),
    complete: (id: string, token: Text) =>
      exec(
        'complete',
        [active, keys.job(id), pending, schedule, dead, completed, ghosts, startBy],
        [id, token],
      ),
    retry: (id: string, token: Text, delayMs: Text, maxAttempts: Text, error = 'boom', jitter?: Text) =>
      exec(
        'retry',
        [active, schedule, dead, keys.job(id), failed, meta],
        [id, token, delayMs, maxAttempts, error, ...(jitter === undefined ? [] : [jitter])],
      ),
    promote: (limit: Text = 100, report = false) =>
      exec(
        'promote',
        report ? [schedule, pending, ghosts, active, dead] : [schedule, pending],
        report ? [jobPrefix, limit, 'report'] : [jobPrefix, limit],
      ),
    reap: (limit: Text = 100, jitter?: Text) =>
      exec(
        'reap',
        [active, pending, schedule, dead, failed, ghosts, meta],
        jitter === undefined ? [jobPrefix, limit] : [jobPrefix, limit, jitter],
      ),

    enqueueMany: (jobs: readonly NewJob[]) =>
      exec(
        'enqueue_many',
        [
          ...[pending, schedule, active, dead, meta, startBy],
          ...jobs.map(({ id }) => keys.job(id)),
          ...jobs.flatMap(({ idempotency }) => (idempotency ? [keys.idempotency(idempotency.key)] : [])),
        ],
        jobs.flatMap(({ id, payload = 'payload', delayMs = '', runAt = '', ...job }) => [
          ...[id, payload, delayMs, runAt, job.startBy ?? '', job.maxAttempts ?? ''],
          job.idempotency?.ttlMs ?? '',
          job.explicit === false ? '' : '1',
        ]),
      ),
    claimMany: (limit: Text = 1, leaseMs: Text = 100_000, claimId?: string, jitter: Text = 0.5) =>
      exec('claim_many', claimId === undefined ? sweepKeys : [...sweepKeys, keys.claim(claimId)], [
        jobPrefix,
        leaseMs,
        limit,
        jitter,
      ]),
    settle: (items: readonly Item[]) =>
      exec(
        'settle',
        [
          ...[active, pending, schedule, dead, completed, failed, ghosts, meta, startBy],
          ...items.map(({ id }) => keys.job(id)),
        ],
        items.flatMap(({ action, id, token, ms = '', maxAttempts = '', error = '', jitter = 0.5 }) => [
          ...[action, id, token, ms, maxAttempts, error, jitter],
        ]),
      ),
    sweep: (limit: Text = 100, jitter: Text = 0.5) => exec('sweep', sweepKeys, [jobPrefix, limit, jitter]),
    redrive: (id: string) => exec('redrive', [dead, pending, keys.job(id), startBy], [id]),
    redriveMany: (
      options: {
        limit?: number
        from?: string
        to?: string
        scan?: number
        text?: string
        dryRun?: boolean
      } = {},
    ) => {
      const { limit = 100, from = '-', to = '+', scan = 1000, text = '', dryRun = false } = options
      return exec(
        'redrive_many',
        [dead, pending, startBy],
        [jobPrefix, limit, from, to, scan, text, dryRun ? 1 : 0],
      )
    },
    reschedule: (id: string, when: { delayMs: Text } | { runAt: Text }) =>
      exec(
        'reschedule',
        [schedule, pending, keys.job(id)],
        'delayMs' in when ? [id, when.delayMs, ''] : [id, '', when.runAt],
      ),
    remove: (id: string) => exec('remove', [active, pending, schedule, dead, keys.job(id), startBy], [id]),
    drain: (set: 'pending' | 'schedule' | 'dead', limit: Text = 100) =>
      exec('purge', [keys[set], startBy, pending, active, schedule, dead], [jobPrefix, limit]),
    list: (set: 'pending' | 'active' | 'schedule' | 'dead') =>
      exec(
        'list',
        [keys[set]],
        set === 'pending' || set === 'dead'
          ? [jobPrefix, 'BYLEX', '-', '+', '', 0, 100, 1, 1]
          : [jobPrefix, 'BYSCORE', '-inf', '+inf', '', 0, 100, 1, 1],
      ),

    /** Any command, for what no move does. */
    async send(...command: Text[]): Promise<Readable> {
      const [reply] = await port.send([command])
      return readable(reply)
    },
  }
}
