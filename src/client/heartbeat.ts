/**
 * Renews the leases of all jobs that one consumer holds, running or buffered, and watches each lease.
 *
 * After a third of a lease, one settle request renews all; a failed attempt is repeated while the leases last. When the
 * server rejects a token, or a lease lapses before it is renewed, the job is dropped and reported as lost, once. Leases
 * are counted from before their request was sent. Nothing here rejects or throws.
 */
import { backoffMs } from './clock.ts'
import { type EchoMQError, isLost } from './errors.ts'
import type { JobRef } from './jobs.ts'
import type { Moves } from './moves.ts'
import type { Transport } from './transport.ts'

/** A job and the client's view of its lease. Times are of the monotonic clock. */
export type Hold = {
  readonly job: JobRef & { readonly leaseMs: number }
  /** The lease is certainly alive before this time. */
  leaseEndsAt: number
  renewAt: number
  /** The end of the job is being reported. The lease is still renewed, but only the report decides who owns the job. */
  isReported?: boolean
}

export type Heartbeat<H extends Hold> = {
  hold(holds: readonly H[]): void
  /** Ends a hold. If its lease lapsed before, it is still reported as lost. */
  letGo(hold: H): void
  /** Ends all holds and all watching. */
  close(): void
}

/** The end and the renewal time of a lease that was requested at `sentAt`. */
export function leaseFrom(sentAt: number, leaseMs: number): Pick<Hold, 'leaseEndsAt' | 'renewAt'> {
  return { leaseEndsAt: sentAt + leaseMs, renewAt: sentAt + leaseMs / 3 }
}

/**
 * @param leaseMsNow How long a renewed lease is, in milliseconds.
 * @param lost Called for each hold that was lost.
 * @param failed Called for each attempt that failed.
 */
export function createHeartbeat<H extends Hold>(
  transport: Transport,
  moves: Moves,
  leaseMsNow: () => number,
  lost: (hold: H) => void,
  failed: (error: EchoMQError) => void,
): Heartbeat<H> {
  const { clock } = transport
  const holds = new Set<H>()
  const closed = new AbortController()
  let cancelTimer = (): void => {}
  let failures = 0
  /** The earliest time of the next beat: the end of the backoff; infinite while a beat is on its way. */
  let restUntil = 0

  const endOf = ({ isReported, leaseEndsAt }: H): number => (isReported ? Infinity : leaseEndsAt)
  const earliest = (timeOf: (hold: H) => number): number => Math.min(...[...holds].map(timeOf))
  const dueAt = (): number =>
    Math.max(
      restUntil,
      earliest((hold) => hold.renewAt),
    )

  function drop(hold: H): void {
    if (holds.delete(hold)) lost(hold)
  }

  function tick(): void {
    if (closed.signal.aborted) return
    for (const hold of holds) if (endOf(hold) <= clock.now()) drop(hold)
    if (dueAt() <= clock.now()) void beat()
    const nextAt = Math.min(dueAt(), earliest(endOf))
    cancelTimer()
    // Platforms may fire a timer up to a millisecond early; then nothing is due, and the timer is set again.
    if (nextAt < Infinity) cancelTimer = clock.after(nextAt - clock.now(), tick)
  }

  async function beat(): Promise<void> {
    restUntil = Infinity
    const leaseMs = leaseMsNow()
    const due = [...holds].filter((hold) => hold.renewAt < Infinity)
    const sentAt = clock.now()
    let trouble: EchoMQError | undefined
    try {
      const errors = await moves.settle(
        due.map(({ job: { id, token } }) => ({ action: 'extend', id, token, leaseMs })),
        closed.signal,
        // A quarter of the lease: an attempt that hangs leaves time for others.
        Math.min(transport.timeoutMs, leaseMs / 4),
      )
      due.forEach((hold, i) => {
        const error = errors[i]
        if (!error) Object.assign(hold, leaseFrom(sentAt, leaseMs))
        else if (!isLost(error)) trouble = error
        else if (!hold.isReported) drop(hold)
        // The report itself may have ended the lease, and it gets its own response.
        else hold.renewAt = Infinity
      })
    } catch (error) {
      trouble = error as EchoMQError
    }
    restUntil = 0
    if (trouble) {
      // Capped, whatever `Retry-After` says: some attempts must fit into the rest of the leases.
      const mostMs = leaseMs / 6
      restUntil = clock.now() + Math.min(backoffMs(clock, ++failures, trouble, mostMs), mostMs)
      failed(trouble)
    } else failures = 0
    tick()
  }

  return {
    hold(taken) {
      for (const hold of taken) holds.add(hold)
      tick()
    },
    letGo(hold) {
      tick()
      holds.delete(hold)
    },
    close() {
      closed.abort()
      holds.clear()
      cancelTimer()
    },
  }
}
