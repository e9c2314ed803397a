/**
 * The API that another Worker gets over a service binding: the client's verbs, with the name of the queue first. Types
 * only, so a caller needs no other part of this project.
 *
 * Everything that crosses a binding is copied: options and payloads are plain values, and no verb takes a signal. A
 * thrown error arrives as an `Error` with the name and the fields of `EchoMQError` but without its class: check
 * `error.code`. Both Workers need a compatibility date of 2026-04-21 or later for that, or the flag
 * `enhanced_error_serialization`; otherwise only the text arrives, and it contains the code.
 */
import type {
  ClaimOptions,
  EnqueueItem,
  EnqueueOptions,
  Job,
  JobsOptions,
  JobView,
  Queue,
  QueueOptions,
} from '../client/index.ts'

/** `text`: payloads are strings and are stored verbatim instead of as JSON. */
export type PayloadFormat = Pick<QueueOptions<unknown, unknown>, 'as'>

export type PageOptions = Omit<JobsOptions, 'signal'> & {
  /** Where to go on: from the previous page. */
  readonly cursor?: string | undefined
}

export type Page<Payload = unknown> = {
  readonly jobs: readonly JobView<Payload>[]
  /** Where the next page begins; absent on the last page. */
  readonly cursor?: string
}

/** An argument without a signal; options with nothing else are never given. */
type WithoutSignal<Argument> = Argument extends string | number | undefined
  ? Argument
  : keyof Argument extends 'signal'
    ? never
    : Omit<Argument, 'signal'>

type WithoutSignals<Arguments extends unknown[]> = { [At in keyof Arguments]: WithoutSignal<Arguments[At]> }

/** The arguments of a verb of the client, without the signal in its options. */
export type ArgumentsOf<Verb extends Exclude<keyof Queue, 'name'>> = WithoutSignals<Parameters<Queue[Verb]>>

/** The verbs whose types do not depend on the payload. */
type PlainVerb =
  | ('complete' | 'retry' | 'fail' | 'release' | 'extend')
  | ('stats' | 'redrive' | 'redriveMany' | 'purge' | 'audit' | 'pause' | 'resume')

type PlainVerbs = {
  [Verb in PlainVerb]: (queue: string, ...args: ArgumentsOf<Verb>) => ReturnType<Queue[Verb]>
}

/**
 * The type of the binding in the calling Worker's `env`. The client's `Queue` documents each verb.
 * (Cloudflare's own `Service<typeof QueueService>` works too, but turns unknown payloads into `never`.)
 *
 * @example
 * type Env = { EMQ: QueueBinding }
 * await env.EMQ.enqueue('emails', { to: 'a@example.com' }, { delayMs: 60_000 })
 */
export interface QueueBinding extends PlainVerbs {
  enqueue<Payload>(
    queue: string,
    payload: Payload,
    options?: EnqueueOptions & PayloadFormat,
  ): ReturnType<Queue<Payload>['enqueue']>
  enqueueMany<Payload>(
    queue: string,
    items: readonly EnqueueItem<Payload>[],
    options?: PayloadFormat,
  ): ReturnType<Queue<Payload>['enqueueMany']>
  claim<Payload = unknown>(
    queue: string,
    options?: Omit<ClaimOptions, 'signal'> & PayloadFormat,
  ): Promise<Job<Payload>[]>
  job<Payload = unknown>(queue: string, id: string): Promise<JobView<Payload> | undefined>
  /** Returns one page of the jobs in one state. */
  jobs<Payload = unknown>(queue: string, options?: PageOptions): Promise<Page<Payload>>
}
