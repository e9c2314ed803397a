/**
 * The root of the client: the address of a deployment, the token, and its queues.
 *
 * It needs only `fetch`. Creating a client reads no clock, draws no random number and sends nothing, so a client may
 * be created at the top of a module on every platform. The token is private: neither printing nor JSON shows it.
 */
import { createQueue, type Queue, type QueueOptions } from './queue.ts'
import { createTransport, type EchoMQOptions, type Transport } from './transport.ts'

/**
 * A deployment of EchoMQ Edge.
 *
 * @throws {EchoMQError} `misconfigured` when `url` or `token` is malformed.
 *
 * @example
 * const { EMQ_URL = '', EMQ_TOKEN = '' } = process.env
 * const emq = new EchoMQ({ url: EMQ_URL, token: EMQ_TOKEN })
 * const emails = emq.queue<{ to: string }>('emails')
 * await emails.enqueue({ to: 'a@example.com' })
 */
export class EchoMQ {
  readonly #transport: Transport

  constructor(options: EchoMQOptions) {
    this.#transport = createTransport(options)
  }

  /**
   * A queue. It need not exist: the first job creates it.
   *
   * @param name `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`, except `emq`.
   * @throws {EchoMQError} `invalid` for any other name.
   *
   * @example
   * const emails = emq.queue('emails', { schema: z.object({ to: z.email() }) })
   */
  queue<Input = unknown, Output = Input>(
    name: string,
    options: QueueOptions<Input, Output> = {},
  ): Queue<Input, Output> {
    return createQueue(this.#transport, name, options)
  }
}
