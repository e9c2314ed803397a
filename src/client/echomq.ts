/**
 * The client's root: where a deployment is, how to speak to it, and its queues.
 *
 * Needs `fetch` and nothing else. Making one reads no clock, draws nothing random and sends nothing, so it may stand
 * at the top of a module everywhere. The token is kept out of sight: neither printing nor JSON shows it.
 */
import { systemClock } from './clock.ts'
import { createMint, type Mint } from './ids.ts'
import { createQueue, type Queue, type QueueOptions } from './queue.ts'
import { createTransport, type EchoMQOptions, type Transport } from './transport.ts'

// One for the isolate: two of them may draw the same node.
const isolateMint = createMint(systemClock)

/**
 * A deployment of EchoMQ Edge.
 *
 * @throws {EchoMQError} `misconfigured` when `url` or `token` cannot be right.
 *
 * @example
 * const { EMQ_URL = '', EMQ_TOKEN = '' } = process.env
 * const emq = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN })
 * const emails = emq.queue<{ to: string }>('emails')
 * await emails.enqueue({ to: 'a@example.com' })
 */
export class EchoMQ {
  readonly #transport: Transport
  readonly #mint: Mint

  constructor(options: EchoMQOptions) {
    this.#transport = createTransport(options)
    this.#mint = options.clock ? createMint(options.clock) : isolateMint
  }

  /**
   * A queue. It need not exist: the first job makes it.
   *
   * @param name `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`, not `emq`.
   * @throws {EchoMQError} `invalid` for another name.
   *
   * @example
   * const emails = emq.queue('emails', { schema: z.object({ to: z.email() }) })
   */
  queue<Input = unknown, Output = Input>(
    name: string,
    options: QueueOptions<Input, Output> = {},
  ): Queue<Input, Output> {
    return createQueue(this.#transport, this.#mint, name, options)
  }
}
