/** A queue whose whole lives are measured: ours or a peer's. */

export type Peer = {
  readonly name: string
  /** How many lives a round has. */
  readonly jobs: number
  /** Puts so many jobs into the queue. */
  produce(jobs: number): Promise<void>
  /** Prepares consumers that do not work yet. */
  prepareConsumers(jobs: number): Promise<Consumers>
  close(): Promise<void>
}

export type Consumers = {
  /** Works until all jobs are done. */
  work(): Promise<void>
  stop(): Promise<void>
}

/** Counts to a number, and resolves when it is reached. */
export function countdown(jobs: number): { readonly done: Promise<void>; count(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = jobs
  return {
    done: promise,
    count() {
      left -= 1
      if (left === 0) resolve()
    },
  }
}

/** Calls `send` with 0 .. jobs - 1 in batches, from so many producers at the same time. */
export async function inBatches(
  jobs: number,
  batch: number,
  producers: number,
  send: (numbers: readonly number[]) => Promise<unknown>,
): Promise<void> {
  let next = 0
  async function producer(): Promise<void> {
    while (next < jobs) {
      const from = next
      next = Math.min(next + batch, jobs)
      await send(Array.from({ length: next - from }, (_, nth) => from + nth))
    }
  }
  await Promise.all(Array.from({ length: producers }, producer))
}
