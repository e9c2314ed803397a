/**
 * How a waiting claim learns that it should claim again. Three implementations: a Durable Object for each queue, one bell in
 * this process, and polling.
 *
 * Wake-ups are hints. A lost one delays a job until the waiting claim looks again by itself; the script alone decides who
 * gets a job.
 */
import type { News } from '../queue/news.ts'

/** Why a waiting claim should stop waiting: it was woken, the time is over, or its connection broke. */
export type Ring = 'woken' | 'time over' | 'lost'

/** What a claim found that goes on waiting, or leaves. */
export type Found = {
  /** Milliseconds until the next job is due or a lease lapses. */
  readonly dueInMs?: number | undefined
  readonly paused?: boolean | undefined
}

/** A waiting claim that was registered. */
export type Registration = {
  /** Call before each claim: a wake-up that arrives from now on asks for another claim. */
  claiming(): void
  /** Waits at most so long. Every call follows a claim that found nothing; `found` is what it found instead. */
  wait(atMostMs: number, found: Found): Promise<Ring>
  /** Leaves. `found` after the last claim; undefined when the caller hung up. */
  end(found?: Found): void
}

/** The port between the queues and the waiting claims. */
export type Wake = {
  /**
   * Registers a waiting claim of a queue; undefined when there is no one to register with, so that the claim has to poll.
   * Never rejects.
   *
   * @param signal Aborted when the caller hangs up.
   */
  register(queue: string, signal: AbortSignal): Promise<Registration | undefined>
  /** Spreads what an operation did to a queue. Returns at once and never throws. */
  ring(queue: string, news: News): void
}

/** Polling: nobody to register with, nobody to wake. */
export const POLLING: Wake = {
  register: async () => undefined,
  ring() {},
}
