/**
 * The queue for other Workers of the account: the client's verbs over a service binding.
 *
 * It is the client itself, which calls the app in this isolate instead of using HTTPS, so both validate, repeat and
 * reject in the same way. Callers need no token: a Worker with the binding may call. The app itself makes no exception:
 * it gets one token with all permissions, which is drawn here and never leaves the isolate. The tokens of the deployment
 * are not used, so none need be set.
 */
import { WorkerEntrypoint } from 'cloudflare:workers'
import { createApp } from '../app.ts'
import {
  type ClaimOptions,
  EchoMQ,
  type EchoMQOptions,
  type EnqueueItem,
  type EnqueueOptions,
  type Queue,
} from '../client/index.ts'
import { createTransport, queryOf } from '../client/transport.ts'
import type { Bindings } from '../deployment.ts'
import { newToken, tokenEntry } from '../protocol/tokens.ts'
import { durableWakeOf } from '../wake/durable-object.ts'
import type { ArgumentsOf, Page, PageOptions, PayloadFormat, QueueBinding } from './binding.ts'

/** Its memory of the database is separate from that of the HTTP API. */
const app = createApp({ wake: durableWakeOf })

/** The isolate's own token and the secret that lists it. */
type Access = { readonly token: string; readonly secret: Promise<string> }

let access: Access | undefined

/** Drawn at the first call, because a Worker may draw no random number while it starts. */
function ownAccess(): Access {
  if (access !== undefined) return access
  const token = newToken()
  const entry = tokenEntry(token, { name: 'service-binding', scopes: ['operate'], queues: ['*'] })
  access = { token, secret: entry.then((own) => JSON.stringify([own])) }
  return access
}

/** The options of a client that calls the app. */
function optionsFor(bindings: Bindings): EchoMQOptions {
  const { token, secret } = ownAccess()
  return {
    url: 'https://service-binding',
    token,
    fetch: async (url, init) => app.fetch(new Request(url, init), { ...bindings, EMQ_TOKENS: await secret }),
  }
}

/**
 * The entrypoint to bind: `services = [{ binding = "EMQ", service = "echomq-edge", entrypoint = "QueueService" }]`.
 *
 * @example
 * await env.EMQ.enqueue('emails', { to: 'a@example.com' })
 */
export class QueueService extends WorkerEntrypoint<Bindings> implements QueueBinding {
  // A private name: callers can call every other one.
  #queue<Payload>(name: string, as?: 'text'): Queue<Payload> {
    return new EchoMQ(optionsFor(this.env)).queue(name, { as })
  }

  async enqueue<Payload>(
    name: string,
    payload: Payload,
    { as, ...options }: EnqueueOptions & PayloadFormat = {},
  ) {
    return this.#queue<Payload>(name, as).enqueue(payload, options)
  }

  async enqueueMany<Payload>(
    name: string,
    items: readonly EnqueueItem<Payload>[],
    { as }: PayloadFormat = {},
  ) {
    return this.#queue<Payload>(name, as).enqueueMany(items)
  }

  async claim<Payload>(name: string, { as, ...options }: Omit<ClaimOptions, 'signal'> & PayloadFormat = {}) {
    return this.#queue<Payload>(name, as).claim(options)
  }

  async complete(name: string, ...args: ArgumentsOf<'complete'>) {
    return this.#queue(name).complete(...args)
  }

  async retry(name: string, ...args: ArgumentsOf<'retry'>) {
    return this.#queue(name).retry(...args)
  }

  async fail(name: string, ...args: ArgumentsOf<'fail'>) {
    return this.#queue(name).fail(...args)
  }

  async release(name: string, ...args: ArgumentsOf<'release'>) {
    return this.#queue(name).release(...args)
  }

  async extend(name: string, ...args: ArgumentsOf<'extend'>) {
    return this.#queue(name).extend(...args)
  }

  async stats(name: string) {
    return this.#queue(name).stats()
  }

  async job<Payload>(name: string, id: string) {
    return this.#queue<Payload>(name).job(id)
  }

  async jobs<Payload>(name: string, options: PageOptions = {}) {
    // The client's `jobs` iterates over all pages, and an iterator cannot cross a binding.
    const queue = this.#queue(name)
    const { repeat, send } = createTransport(optionsFor(this.env))
    return repeat(() => send<Page<Payload>>(`/v1/queues/${queue.name}/jobs${queryOf(options)}`, 'jobs'))
  }

  async redrive(name: string, ...args: ArgumentsOf<'redrive'>) {
    return this.#queue(name).redrive(...args)
  }

  async redriveMany(name: string, ...args: ArgumentsOf<'redriveMany'>) {
    return this.#queue(name).redriveMany(...args)
  }

  async purge(name: string, ...args: ArgumentsOf<'purge'>) {
    return this.#queue(name).purge(...args)
  }

  async audit(name: string, ...args: ArgumentsOf<'audit'>) {
    return this.#queue(name).audit(...args)
  }

  async pause(name: string) {
    return this.#queue(name).pause()
  }

  async resume(name: string) {
    return this.#queue(name).resume()
  }
}
