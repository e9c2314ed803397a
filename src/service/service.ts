/**
 * The queue for other Workers of the account: the client's verbs over a service binding.
 *
 * It is the client itself, speaking to the app in this isolate instead of over HTTPS, so what is validated, repeated
 * and refused is the very same. Its callers need no token: whoever has the binding may call. The app makes no
 * exception for that. It is given one token, for everything, that is drawn here and never leaves the isolate; the
 * tokens of the deployment play no part, so none need be set.
 */
import { WorkerEntrypoint } from 'cloudflare:workers'
import { createApp } from '../app.ts'
import {
  type ClaimOptions,
  EchoMQ,
  type EchoMQOptions,
  type EnqueueItem,
  type EnqueueOptions,
  type JobRef,
  type Queue,
  type RedriveOptions,
} from '../client/index.ts'
import { createTransport } from '../client/transport.ts'
import type { Bindings } from '../deployment.ts'
import { newToken, tokenEntry } from '../http/auth.ts'
import { durableWakeOf } from '../wake/durable-object.ts'
import type { MoveOptions, Page, PageOptions, PayloadFormat, QueueBinding } from './binding.ts'

/** Its memory of the database is apart from that of the HTTP API. */
const app = createApp({ wake: durableWakeOf })

type OwnToken = { readonly token: string; readonly secret: string }

let own: OwnToken | undefined

/** Drawn at the first call: a Worker may do nothing random while it starts. */
async function ownToken(): Promise<OwnToken> {
  if (own !== undefined) return own
  const token = newToken()
  const entry = await tokenEntry(token, { name: 'service-binding', scopes: ['operate'], queues: ['*'] })
  // Another call may have been here in the meantime.
  own ??= { token, secret: JSON.stringify([entry]) }
  return own
}

/** For the client: how to reach the app, as its one caller. */
async function wayToApp(bindings: Bindings): Promise<EchoMQOptions> {
  const { token, secret } = await ownToken()
  const env = { ...bindings, EMQ_TOKENS: secret }
  return {
    url: 'https://service-binding',
    token,
    fetch: async (url, init) => app.fetch(new Request(url, init), env),
  }
}

/**
 * The entrypoint to bind: `services = [{ binding = "EMQ", service = "echomq-edge", entrypoint = "QueueService" }]`.
 *
 * @example
 * await env.EMQ.enqueue('emails', { to: 'a@example.com' })
 */
export class QueueService extends WorkerEntrypoint<Bindings> implements QueueBinding {
  // Whatever has no private name can be called by others.
  async #queue<Payload>(name: string, as?: 'text'): Promise<Queue<Payload>> {
    return new EchoMQ(await wayToApp(this.env)).queue(name, { as })
  }

  async enqueue<Payload>(
    name: string,
    payload: Payload,
    { as, ...options }: EnqueueOptions & PayloadFormat = {},
  ) {
    const queue = await this.#queue<Payload>(name, as)
    return queue.enqueue(payload, options)
  }

  async enqueueMany<Payload>(
    name: string,
    items: readonly EnqueueItem<Payload>[],
    { as }: PayloadFormat = {},
  ) {
    const queue = await this.#queue<Payload>(name, as)
    return queue.enqueueMany(items)
  }

  async claim<Payload>(name: string, { as, ...options }: Omit<ClaimOptions, 'signal'> & PayloadFormat = {}) {
    const queue = await this.#queue<Payload>(name, as)
    return queue.claim(options)
  }

  async complete(name: string, job: JobRef) {
    const queue = await this.#queue(name)
    return queue.complete(job)
  }

  async retry(name: string, job: JobRef, options: MoveOptions<'retry'> = {}) {
    const queue = await this.#queue(name)
    return queue.retry(job, options)
  }

  async fail(name: string, job: JobRef, options: MoveOptions<'fail'> = {}) {
    const queue = await this.#queue(name)
    return queue.fail(job, options)
  }

  async release(name: string, job: JobRef, options: MoveOptions<'release'> = {}) {
    const queue = await this.#queue(name)
    return queue.release(job, options)
  }

  async extend(name: string, job: JobRef, leaseMs: number) {
    const queue = await this.#queue(name)
    return queue.extend(job, leaseMs)
  }

  async stats(name: string) {
    const queue = await this.#queue(name)
    return queue.stats()
  }

  async job<Payload>(name: string, id: string) {
    const queue = await this.#queue<Payload>(name)
    return queue.job(id)
  }

  async jobs<Payload>(name: string, options: PageOptions = {}) {
    // The client walks through all pages by itself; what crosses a binding is better one page at a time.
    const queue = await this.#queue(name)
    const query = new URLSearchParams(JSON.parse(JSON.stringify(options)))
    const { repeat, send } = createTransport(await wayToApp(this.env))
    return repeat(() => send<Page<Payload>>(`/v1/queues/${queue.name}/jobs?${query}`, 'jobs'))
  }

  async redrive(name: string, id: string) {
    const queue = await this.#queue(name)
    return queue.redrive(id)
  }

  async redriveMany(name: string, options: Omit<RedriveOptions, 'signal'> = {}) {
    const queue = await this.#queue(name)
    return queue.redriveMany(options)
  }

  async pause(name: string) {
    const queue = await this.#queue(name)
    return queue.pause()
  }

  async resume(name: string) {
    const queue = await this.#queue(name)
    return queue.resume()
  }
}
