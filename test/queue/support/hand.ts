/**
 * The scripts of one queue as methods. Each method is one call of a script and returns the raw reply, with its bytes as
 * text. No other layer of the product is involved.
 */
import { keyspace } from '../../../src/protocol/keys.ts'
import { type ArgumentsOf, call } from '../../../src/protocol/script-call.ts'
import { SCRIPTS, type ScriptName } from '../../../src/protocol/scripts.generated.ts'
import type { StateSet } from '../../../src/protocol/states.ts'
import type { RedisPort } from '../../../src/queue/redis.ts'
import { run, runScript } from '../../../src/queue/scripts.ts'
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
  const exec = async <Name extends ScriptName>(name: Name, given: Omit<ArgumentsOf<Name>, 'q'>) =>
    readable(await runScript({ port, queue, keys }, name, given))

  async function send(...command: Text[]): Promise<Readable> {
    const [reply] = await port.send([command])
    return readable(reply)
  }

  return {
    port,
    queue,
    keys,
    enqueue: (id: string, payload = 'payload') => exec('enqueue', { id, payload }),
    claim: (leaseMs: Text = 100_000) => exec('claim', { leaseMs }),
    complete: (id: string, token: Text) => exec('complete', { id, token }),
    retry: (id: string, token: Text, delayMs: Text, maxAttempts: Text, error = 'boom', jitter?: Text) =>
      exec('retry', { id, token, delayMs, maxAttempts, error, jitter }),
    /** Without a report it is the contract's form, which passes none of the optional keys. */
    async promote(limit: Text = 100, report = false): Promise<Readable> {
      if (report) return exec('promote', { limit, report: 'report' })
      const full = call('promote', { q: queue, limit })
      const [reply] = await run(port, [{ ...full, keys: full.keys.slice(0, SCRIPTS.promote.keys.length) }])
      return readable(reply)
    },
    reap: (limit: Text = 100, jitter?: Text) => exec('reap', { limit, jitter }),

    enqueueMany: (jobs: readonly NewJob[]) =>
      exec('enqueue_many', {
        batchKey: '',
        batchTtlMs: undefined,
        each: jobs.map(({ payload = 'payload', idempotency, explicit = true, ...job }) => ({
          ...{ delayMs: undefined, runAt: undefined, startBy: undefined, maxAttempts: undefined },
          ...job,
          payload,
          explicit: explicit ? 1 : '',
          key: idempotency?.key,
          idempotencyTtlMs: idempotency?.ttlMs,
        })),
      }),
    claimMany: (limit: Text = 1, leaseMs: Text = 100_000, claimId?: string, jitter: Text = 0.5) =>
      exec('claim_many', { limit, leaseMs, claimId, jitter }),
    settle: (items: readonly Item[]) =>
      exec('settle', {
        each: items.map((item) => ({
          ...{ ms: undefined, maxAttempts: undefined, error: undefined, jitter: 0.5 },
          ...item,
        })),
      }),
    sweep: (limit: Text = 100, jitter: Text = 0.5) => exec('sweep', { limit, jitter }),
    redrive: (id: string) => exec('redrive', { id }),
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
      const { limit = 100, from = '-', to = '+', scan = 1000, text, dryRun = false } = options
      return exec('redrive_many', { limit, from, to, scan, errorContains: text, dryRun })
    },
    reschedule: (id: string, when: { delayMs: Text } | { runAt: Text }) =>
      exec('reschedule', { id, delayMs: undefined, runAt: undefined, ...when }),
    remove: (id: string) => exec('remove', { id }),
    purge: (set: Exclude<StateSet, 'active'>, limit: Text = 100) => exec('purge', { set, limit }),
    list: (set: StateSet) => {
      const isLex = set === 'pending' || set === 'dead'
      return exec('list', {
        ...{ set, order: '', offset: 0, limit: 100, withError: 1, withPayload: 1 },
        by: isLex ? 'BYLEX' : 'BYSCORE',
        first: isLex ? '-' : '-inf',
        last: isLex ? '+' : '+inf',
      })
    },

    /** Writes fields of the settings. */
    set: (...fields: Text[]) => send('HSET', keys.meta, ...fields),
    /** Any command, for what no move does. */
    send,
  }
}
