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
  /** Lets everything go, and watches nothing from now on. */
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
  let failures = 0
  /** No beat before: the end of the backoff after one that failed, never while one is on its way. */
  let restUntil = 0

  const endOf = ({ isReported, leaseEndsAt }: H): number => (isReported ? Infinity : leaseEndsAt)
  const earliest = (timeOf: (hold: H) => number): number => Math.min(...[...holds].map(timeOf))

  const drop = (hold: H): void => {
    if (holds.delete(hold)) lost(hold)
  }

  const tick = (): void => {
    if (closed.signal.aborted) return
    for (const hold of holds) if (endOf(hold) <= clock.now()) drop(hold)
    const dueAt = (): number =>
      Math.max(
        restUntil,
        earliest((hold) => hold.renewAt),
      )
    if (dueAt() <= clock.now()) void beat()
    const nextAt = Math.min(dueAt(), earliest(endOf))
    cancelTimer()
    // Platforms fire a timer up to a millisecond early; then nothing is due and it is armed again.
    if (nextAt < Infinity) cancelTimer = clock.after(nextAt - clock.now(), tick)
  }

  const beat = async (): Promise<void> => {
    restUntil = Infinity
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
    restUntil = 0
    if (trouble) {
      // Whatever the server asked for: some attempts must fit into what is left of the leases.
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
