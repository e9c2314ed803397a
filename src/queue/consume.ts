/**
 * Consuming: claims under a lease with a fencing token, and what a holder can do with the job afterwards.
 *
 * A claim takes one of two ways. Without a limit it is one run of the contract's script, and once a second a look at
 * the queue goes first (is it paused, is anything due); what that look found is remembered here, per queue, for as
 * long as the isolate lives. With a limit it is the batch script, which looks for itself in the same run.
 */
import { keyspace } from '../protocol/keys.ts'
import { DEFAULT_LEASE_MS } from '../protocol/limits.ts'
import type { Refusal, StaleReason } from '../protocol/refusals.ts'
import { createCore } from './core.ts'
import { type RedisPort, type Reply, UpstreamError } from './redis.ts'
import { bytes, groups, integer, list, optionalInteger, optionalText, text } from './replies.ts'
import { call, run, type ScriptCall } from './scripts.ts'

/** A job in the hands of a consumer. */
export type ClaimedJob = {
  readonly id: string
  readonly payload: Uint8Array
  /** The fencing token: only the newest one moves the job. */
  readonly token: number
  /** How much of the lease is left, in ms. */
  readonly leaseMs: number
}

export type Claimed = {
  readonly jobs: readonly ClaimedJob[]
  readonly paused: boolean
  /** The claim stopped early: the queue may not be empty, although there is no job. */
  readonly more?: boolean
  /** Milliseconds until the next job is due or a lease lapses, when the script has looked. */
  readonly nextMs?: number | undefined
}

export type ClaimOptions = {
  readonly leaseMs?: number | undefined
  readonly limit?: number | undefined
  /** Names the claim, so that a repeat gives the same jobs and tokens. */
  readonly claimId?: string | undefined
}

type Settling = { readonly id: string; readonly token: number }

/** What becomes of a job that was claimed. Delays and leases are in ms. */
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
  | { readonly id: string; readonly status: 'completed' | 'dead' | 'pending' }
  | { readonly id: string; readonly status: 'scheduled'; readonly delayMs: number }
  | { readonly id: string; readonly status: 'extended'; readonly leaseMs: number }

/** How long what a look at the queue found is believed, in ms: a pause stops claims within this time. */
const LOOK_EVERY_MS = 1_000
const SWEEP_LIMIT = 100
/** Ghosts in a row that one claim removes before it answers that there is nothing. */
const MAX_GHOSTS = 100

/** What an isolate remembers of a queue between claims. */
export type Look = { at: number; paused: boolean; capped: boolean; leaseMs: number }

export function createConsumer(port: RedisPort, queue: string, look: Look, now: () => number) {
  const keys = keyspace(queue)
  const core = createCore(port, queue)
  const sweepKeys = [
    keys.active,
    keys.pending,
    keys.schedule,
    keys.dead,
    keys.failed,
    keys.ghosts,
    keys.meta,
    keys.startBy,
  ]

  const claimManyCall = (limit: number, { leaseMs, claimId }: ClaimOptions): ScriptCall =>
    call('claim_many', claimId === undefined ? sweepKeys : [...sweepKeys, keys.claim(claimId)], [
      keys.jobPrefix,
      leaseMs ?? '',
      limit,
      Math.random(),
    ])

  const claimMany = async (limit: number, options: ClaimOptions): Promise<Claimed> =>
    readClaim((await run(port, [claimManyCall(limit, options)]))[0])

  function readClaim(reply: Reply | undefined): Claimed {
    const [status, nextMs, ...rest] = list(reply)
    const next = integer(nextMs)
    return {
      paused: text(status) === 'paused',
      more: text(status) === 'ok' && next === 0,
      nextMs: next < 0 ? undefined : next,
      jobs: groups(rest, 4).map(([id, payload, token, leaseMs]) => ({
        id: text(id),
        payload: bytes(payload) ?? new Uint8Array(),
        token: integer(token),
        leaseMs: integer(leaseMs),
      })),
    }
  }

  async function lookAtQueue(): Promise<void> {
    const [swept, settings] = await run(port, [
      call('sweep', sweepKeys, [keys.jobPrefix, SWEEP_LIMIT, Math.random()]),
      ['HMGET', keys.meta, 'paused', 'maxActive', 'leaseMs'],
    ])
    list(swept)
    const [paused, maxActive, leaseMs] = list(settings)
    look.paused = optionalText(paused) !== undefined
    look.capped = (optionalInteger(maxActive) ?? 0) > 0
    look.leaseMs = optionalInteger(leaseMs) ?? DEFAULT_LEASE_MS
    look.at = now()
  }

  const settleCall = (items: readonly Settlement[]): ScriptCall =>
    call(
      'settle',
      [
        keys.active,
        keys.pending,
        keys.schedule,
        keys.dead,
        keys.completed,
        keys.failed,
        keys.ghosts,
        keys.meta,
        keys.startBy,
        ...items.map(({ id }) => keys.job(id)),
      ],
      items.flatMap((item) => [
        item.action,
        item.id,
        item.token,
        millisecondsOf(item),
        item.action === 'retry' ? (item.maxAttempts ?? '') : '',
        'error' in item ? (item.error ?? '') : '',
        Math.random(),
      ]),
    )

  const readSettled = (reply: Reply | undefined, items: readonly Settlement[]): (Settled | Refusal)[] => {
    const pairs = groups(list(reply), 2)
    if (pairs.length !== items.length) throw new UpstreamError('Redis answered for fewer jobs than were sent')
    return items.map(({ id }, nth) => {
      const [word, detail] = pairs[nth] ?? []
      const status = text(word)
      switch (status) {
        case 'completed':
        case 'dead':
        case 'pending':
          return { id, status }
        case 'scheduled':
          return { id, status, delayMs: integer(detail) }
        case 'extended':
          return { id, status, leaseMs: integer(detail) }
        case 'gone':
          return { refused: 'gone' }
        case 'stale':
          return { refused: 'stale', reason: text(detail) as StaleReason }
        default:
          throw new UpstreamError('Redis answered a status that does not exist')
      }
    })
  }

  return {
    /** Claims up to `limit` jobs by the batch script; without a limit one job by the contract's script. */
    async claim(options: ClaimOptions): Promise<Claimed> {
      if (options.limit !== undefined) {
        return claimMany(options.limit, options)
      }
      const looked = now() - look.at
      // A clock that was set back must not make an old look young.
      if (looked < 0 || looked >= LOOK_EVERY_MS) await lookAtQueue()
      if (look.paused) return { jobs: [], paused: true }
      // The contract's script does not know the cap: with one, the batch script claims.
      if (look.capped) return claimMany(1, options)
      const leaseMs = options.leaseMs ?? look.leaseMs
      for (let ghosts = 0; ghosts < MAX_GHOSTS; ghosts++) {
        const job = await core.claim(leaseMs).catch(passOver)
        // The batch script passes over what stands in the place of a row, or fails where it is a set of the queue.
        if (job === 'no row') return claimMany(1, options)
        if (job === undefined) return { jobs: [], paused: false }
        const { id, token, payload } = job
        if (payload !== undefined) return { jobs: [{ id, token, payload, leaseMs }], paused: false }
        await core.complete(id, token)
      }
      return { jobs: [], paused: false, more: true }
    },

    /** Settles many jobs, each by its own action, and claims the next ones in the same round trip when asked to. */
    async settle(
      items: readonly Settlement[],
      claim?: ClaimOptions & { readonly limit: number },
    ): Promise<{ results: (Settled | Refusal)[]; claimed?: Claimed }> {
      const calls = [settleCall(items), ...(claim === undefined ? [] : [claimManyCall(claim.limit, claim)])]
      const [settled, claimed] = await run(port, calls)
      const results = readSettled(settled, items)
      return claim === undefined ? { results } : { results, claimed: readClaim(claimed) }
    },
  }
}

/** The contract's script stops at a key of another type: that is no failure of Redis. */
function passOver(error: unknown): 'no row' {
  if (error instanceof UpstreamError && error.ofAnotherType) return 'no row'
  throw error
}

function millisecondsOf(item: Settlement): number | '' {
  switch (item.action) {
    case 'retry':
      return item.delayMs ?? ''
    case 'release':
      return item.delayMs ?? 0
    case 'extend':
      return item.leaseMs
    default:
      return ''
  }
}
