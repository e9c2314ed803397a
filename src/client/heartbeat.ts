/**
 * The leases of all jobs that one consumer holds, running or waiting: renewed together, watched one by one.
 *
 * A third into a lease one settle call renews all; a failed attempt is repeated while the leases last. A job whose
 * lease the server says is lost, or whose lease ran out unrenewed, is let go and reported as lost, once. Leases
 * are counted from before the request that gave them was sent. Nothing here ever rejects or throws.
 */
import { backoffMs } from './backoff.ts'
import { type EchoMQError, isLost } from './errors.ts'
import type { JobRef } from './jobs.ts'
import type { Moves } from './moves.ts'
import type { Transport } from './transport.ts'

/** A job and what is known of its lease. Times are of the monotonic clock. */
export type Hold = {
  readonly job: JobRef & { readonly leaseMs: number }
  /** The lease is surely alive before this. */
  leaseEndsAt: number
  renewAt: number
  /** Its end is being reported: the lease is still renewed, but the answer to the report decides what it was worth. */
  isReported?: boolean
}

export type Heartbeat<H extends Hold> = {
  hold(holds: readonly H[]): void
  /** The end of a hold. It is still reported as lost when its lease ran out before this. */
  letGo(hold: H): void
  /** Lets everything go. */
  close(): void
}

/** Where in a lease, sent at this time and lasting so long, its end and its renewal are. */
export const leaseFrom = (sentAt: number, leaseMs: number): Pick<Hold, 'leaseEndsAt' | 'renewAt'> => ({
  leaseEndsAt: sentAt + leaseMs,
  renewAt: sentAt + leaseMs / 3,
})

/**
 * @param leaseMsNow How long to renew a lease for, in milliseconds.
 * @param lost Is told of each hold that was lost.
 * @param failed Is told of each attempt that failed.
 */
export const createHeartbeat = <H extends Hold>(
  transport: Transport,
  moves: Moves,
  leaseMsNow: () => number,
  lost: (hold: H) => void,
  failed: (error: EchoMQError) => void,
): Heartbeat<H> => {
  const { clock } = transport
  const holds = new Set<H>()
  const closed = new AbortController()
  let cancelTimer = (): void => {}
  let beating = false
  let failures = 0
  let retryAt = 0

  const endOf = ({ isReported, leaseEndsAt }: H): number => (isReported ? Infinity : leaseEndsAt)
  const earliest = (timeOf: (hold: H) => number): number => Math.min(...[...holds].map(timeOf))

  const drop = (hold: H): void => {
    if (holds.delete(hold)) lost(hold)
  }

  const tick = (): void => {
    for (const hold of holds) if (endOf(hold) <= clock.now()) drop(hold)
    // After a failure not before the backoff is over.
    const dueAt = Math.max(
      earliest((hold) => hold.renewAt),
      retryAt,
    )
    if (!beating && dueAt <= clock.now()) void beat()
    const nextAt = Math.min(beating ? Infinity : dueAt, earliest(endOf))
    cancelTimer()
    // Platforms fire a timer up to a millisecond early; then nothing is due and it is armed again.
    if (nextAt < Infinity) cancelTimer = clock.after(nextAt - clock.now(), tick)
  }

  const beat = async (): Promise<void> => {
    beating = true
    const leaseMs = leaseMsNow()
    const due = [...holds].filter((hold) => hold.renewAt < Infinity)
    const sentAt = clock.now()
    let trouble: EchoMQError | undefined
    try {
      const errors = await moves.settle(
        due.map(({ job: { id, token } }) => ({ action: 'extend', id, token, leaseMs })),
        // A quarter of the lease: an attempt that hangs leaves time for others.
        closed.signal,
        Math.min(transport.timeoutMs, leaseMs / 4),
      )
      due.forEach((hold, i) => {
        const error = errors[i]
        if (!error) Object.assign(hold, leaseFrom(sentAt, leaseMs))
        else if (!isLost(error)) trouble = error
        else if (!hold.isReported) drop(hold)
        // The report itself may be why, and it gets an answer of its own.
        else hold.renewAt = Infinity
      })
    } catch (error) {
      trouble = error as EchoMQError
    }
    beating = false
    if (closed.signal.aborted) return
    failures = trouble ? failures + 1 : 0
    if (trouble) {
      const leftMs = Math.min(...due.map((hold) => hold.leaseEndsAt)) - clock.now()
      // Whatever the server asked for: afterwards it would be too late.
      const mostMs = Math.max(leftMs / 2, leaseMs / 50)
      retryAt = clock.now() + Math.min(backoffMs(clock, failures, trouble, leaseMs / 6), mostMs)
      failed(trouble)
    }
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
