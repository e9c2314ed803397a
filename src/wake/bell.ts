/**
 * The bell of one queue: which claims wait, and which of them a wake-up reaches.
 *
 * It holds the rules and no connection: a host keeps the waiting claims, sends to them and arms the timers. The Durable
 * Object and the process-wide bell are such hosts. The bell never decides who gets a job: a woken claim claims, and the
 * script decides.
 */
import type { News } from '../queue/news.ts'

/** What a waiting claim reports after it claimed without success. */
export type Report = {
  /** The last wake-up that reached it before it claimed; 0 for none. */
  readonly wakeUp: number
  readonly dueInMs?: number | undefined
  readonly paused?: boolean | undefined
}

/** One waiting claim, as its host keeps it. */
export type Entry = {
  /** The order of arrival. */
  readonly order: number
  /**
   * `idle`: waits. `woken`: was woken and has not reported yet. `silent`: did not report within a second, so that its wake-up
   * went to the next one. `paused`: found the queue paused.
   */
  readonly state: 'idle' | 'woken' | 'silent' | 'paused'
  /** How many wake-ups were sent to it. */
  readonly wakeUps: number
}

export type BellHost<Waiting> = {
  /** All waiting claims, in any order. */
  all(): readonly Waiting[]
  read(waiting: Waiting): Entry
  write(waiting: Waiting, entry: Entry): void
  /** Sends a wake-up with its number. */
  wake(waiting: Waiting, wakeUp: number): void
  /** Calls `bell.due()` so many milliseconds from now, unless an earlier call is planned. */
  planDue(dueInMs: number): void
  /** Runs something later. */
  after(ms: number, run: () => void): void
}

/** How long a woken claim may stay silent before its wake-up is passed on, in milliseconds. */
export const PASS_ON_MS = 1_000

export type Bell<Waiting> = ReturnType<typeof createBell<Waiting>>

export function createBell<Waiting>(host: BellHost<Waiting>) {
  /** Wakes waiting claims, the oldest first, at most `count`. */
  function wake(count: number): void {
    const idle = host
      .all()
      .map((waiting) => ({ waiting, entry: host.read(waiting) }))
      .filter(({ entry }) => entry.state === 'idle')
      .sort((a, b) => a.entry.order - b.entry.order)
      .slice(0, count)
    for (const { waiting, entry } of idle) {
      const wakeUps = entry.wakeUps + 1
      host.write(waiting, { ...entry, state: 'woken', wakeUps })
      host.wake(waiting, wakeUps)
    }
    if (idle.length > 0)
      host.after(PASS_ON_MS, () => {
        const present = host.all()
        const late = idle.filter(
          ({ waiting, entry }) => present.includes(waiting) && isOwed(host.read(waiting), entry.wakeUps + 1),
        )
        for (const { waiting } of late) host.write(waiting, { ...host.read(waiting), state: 'silent' })
        wake(late.length)
      })
  }

  const isOwed = ({ state, wakeUps }: Entry, wakeUp: number): boolean =>
    state === 'woken' && wakeUps === wakeUp

  return {
    /** Spreads what an operation did. `jobs` jobs wake at most so many claims. */
    ring({ jobs = 0, dueInMs, paused }: News): void {
      const all = host.all()
      if (all.length === 0) return
      if (paused !== undefined)
        for (const waiting of all)
          host.write(waiting, { ...host.read(waiting), state: paused ? 'paused' : 'idle' })
      wake(jobs)
      if (dueInMs !== undefined) host.planDue(dueInMs)
    },

    /** A waiting claim claimed and found nothing: it waits on. */
    report(waiting: Waiting, { wakeUp, dueInMs, paused = false }: Report): void {
      const entry = host.read(waiting)
      // A wake-up that was sent while it claimed is still owed a claim.
      if (paused) host.write(waiting, { ...entry, state: 'paused' })
      else if (wakeUp === entry.wakeUps) host.write(waiting, { ...entry, state: 'idle' })
      if (dueInMs !== undefined && !paused) host.planDue(dueInMs)
    },

    /**
     * A waiting claim left. A wake-up that it did not use is passed on.
     *
     * @param entry What the host last kept of it; the host lists it no more.
     * @param wakeUp The last wake-up after which it claimed; undefined when its connection broke.
     */
    leave(entry: Entry, wakeUp: number | undefined, dueInMs?: number): void {
      if (isOwed(entry, entry.wakeUps) && wakeUp !== entry.wakeUps) wake(1)
      if (dueInMs !== undefined && host.all().length > 0) host.planDue(dueInMs)
    },

    /** The planned time has come: one claim looks, and its sweep finds what is due. */
    due(): void {
      wake(1)
    },
  }
}
