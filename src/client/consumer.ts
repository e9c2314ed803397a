/**
 * A consumer: a loop that can be started and stopped, and the listeners to its events.
 *
 * It runs at most one loop, however often it is started. A listener that throws or rejects does not disturb the loop;
 * its error becomes an `error` event. An `error` event without a listener is written to the console, so a consumer
 * never fails in silence.
 */
import type { ConsumerEvents, Emit, Loop, StartLoop } from './loop.ts'

type Name = keyof ConsumerEvents<unknown>
type Listener<Event> = (event: Event) => unknown

/**
 * Works a queue until it is stopped. `queue.consume` creates and starts one.
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

  /** Called by `queue.consume`. */
  constructor(startLoop: StartLoop<Payload>) {
    this.#startLoop = startLoop
    this.start()
  }

  /** Whether it claims new jobs. It is false once the consumer was stopped, or stopped itself after a permanent error. */
  get running(): boolean {
    return this.#loop?.stopping.aborted === false
  }

  /**
   * Calls a function at each event with this name. Returns a function that removes the listener.
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
   * Starts the consumer. A consumer that is stopping starts as soon as it has stopped. A running one is unchanged.
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
   * Claims no more jobs and releases the buffered ones. Handlers may run until shortly before the time is over; then
   * their `signal` is aborted and their jobs are released. Never takes longer, never rejects.
   *
   * @param options.timeoutMs Milliseconds, default 10,000. The last fifth, at most a second, is for the release.
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
    // Wrapped in an async function: a listener that throws then equals one that rejects.
    for (const [, listener] of heard) (async () => listener(event as never))().catch(complain)
  }
}
