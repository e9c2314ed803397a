/**
 * A consumer: a loop that can be started and stopped, and the listeners to what happens in it.
 *
 * There is one loop at a time, however often it is started. A listener that throws or rejects does not reach the
 * loop; it is told as an `error`. An `error` that nobody listens to is written to the console: a consumer never
 * fails in silence.
 */
import type { ConsumerEvents, Emit, Loop, StartLoop } from './loop.ts'

type Name = keyof ConsumerEvents<unknown>
type Listener<Event> = (event: Event) => unknown

/**
 * Works a queue until it is stopped. `queue.consume` makes and starts one.
 *
 * @example
 * const consumer = emails.consume(async (job) => send(job.payload), { concurrency: 10 })
 * consumer.on('error', ({ error }) => console.error(error))
 * process.on('SIGTERM', () => consumer.stop({ timeoutMs: 10_000 }))
 */
export class Consumer<Payload = unknown> {
  readonly #startLoop: StartLoop<Payload>
  readonly #listeners = new Set<readonly [Name, Listener<never>]>()
  #loop: Loop | undefined
  #startsAgain: boolean | undefined

  /** Made by `queue.consume`. */
  constructor(startLoop: StartLoop<Payload>) {
    this.#startLoop = startLoop
    this.start()
  }

  /** Whether it takes new jobs: not from the moment it is stopped, or stopped itself because it was refused for good. */
  get running(): boolean {
    return this.#loop?.stopping.aborted === false
  }

  /**
   * Calls a function at each event of a name. Answers how to take it away again.
   *
   * @example
   * const off = consumer.on('dead', ({ job, error }) => alert(job.id, error))
   */
  on<N extends Name>(name: N, listener: Listener<ConsumerEvents<Payload>[N]>): () => void {
    const entry = [name, listener] as const
    this.#listeners.add(entry)
    return () => this.#listeners.delete(entry)
  }

  /**
   * Starts it; while it is stopping, as soon as it has stopped. Without effect while it runs.
   *
   * @example
   * await consumer.stop()
   * consumer.start()
   */
  start(): void {
    this.#startsAgain = this.#loop?.stopping.aborted
    if (this.#loop) return
    this.#loop = this.#startLoop(this.#emit)
    void this.#loop.ended.then(() => {
      this.#loop = undefined
      this.#emit('stopped', {})
      if (this.#startsAgain) this.start()
    })
  }

  /**
   * Takes no more jobs and gives back those that wait. What runs may end until shortly before the time is over;
   * then its `signal` is aborted and its job is given back. Never takes longer, never rejects.
   *
   * @param options.timeoutMs Milliseconds, default 10,000. The last fifth, at most a second, is for giving back.
   *
   * @example
   * await consumer.stop({ timeoutMs: 10_000 })
   */
  async stop({ timeoutMs = 10_000 }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#startsAgain = false
    this.#loop?.stop(timeoutMs)
    await this.#loop?.ended
  }

  readonly #emit: Emit<Payload> = (name, event) => {
    const complain = (error: unknown): void => {
      if (name === 'error') console.error(error)
      else this.#emit('error', { error })
    }
    const heard = [...this.#listeners].filter(([other]) => other === name)
    if (heard.length === 0 && name === 'error') complain((event as ConsumerEvents<Payload>['error']).error)
    // An async function around each: so a listener that throws and one that rejects are the same.
    for (const [, listener] of heard) (async () => listener(event as never))().catch(complain)
  }
}
