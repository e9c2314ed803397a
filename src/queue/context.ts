/**
 * The context of a queue's verbs. Each verb is one function that takes the context first; `bind` makes methods of them,
 * so that `queue.complete(id, token)` is `complete(context, id, token)` and a method's definition is that function.
 */
import type { Minter } from '../protocol/ids.ts'
import type { Keyspace } from '../protocol/keys.ts'
import type { HeldClaims } from './held-claims.ts'
import type { RedisPort } from './redis.ts'
import type { RememberedSweep } from './remembered-sweep.ts'

/** A queue in a database. */
export type QueueRef = {
  readonly port: RedisPort
  readonly queue: string
  readonly keys: Keyspace
}

/** What an isolate remembers of a queue between requests. */
export type QueueMemory = {
  readonly sweep: RememberedSweep
  readonly held: HeldClaims
  /** Claims in a row that returned no job. */
  emptyClaims: number
  /** Whether the last claim returned jobs. */
  wasBusy: boolean
}

export type QueueContext = QueueRef & {
  readonly minter: Minter
  readonly memory: QueueMemory
  /** The Worker's clock, epoch ms. */
  readonly now: () => number
}

/** Verbs without their first parameter, the context. */
export type Bound<Verbs> = {
  readonly [Verb in keyof Verbs]: Verbs[Verb] extends (context: never, ...rest: infer Rest) => infer Outcome
    ? (...rest: Rest) => Outcome
    : never
}

/**
 * Binds verbs to a context.
 *
 * @param after Called with each outcome, before the caller gets it.
 */
export function bind<
  Context,
  Verbs extends Record<keyof Verbs, (context: Context, ...rest: never[]) => unknown>,
>(
  context: Context,
  verbs: Verbs,
  after: (verb: keyof Verbs, outcome: unknown, given: readonly unknown[]) => void = () => {},
): Bound<Verbs> {
  const methods = Object.entries<(context: Context, ...rest: never[]) => unknown>(verbs)
  return Object.fromEntries(
    methods.map(([name, verb]) => [
      name,
      (...given: never[]) => {
        const outcome = verb(context, ...given)
        if (!(outcome instanceof Promise)) return outcome
        return outcome.then((value) => {
          after(name as keyof Verbs, value, given)
          return value
        })
      },
    ]),
  ) as Bound<Verbs>
}
