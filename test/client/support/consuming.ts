/** Consumers that record their events, and handlers that end on command. */
import { afterEach, expect, vi } from 'vitest'
import {
  type ConsumeOptions,
  type Consumer,
  type ConsumerEvents,
  EchoMQ,
  type Handler,
} from '../../../src/client/index.ts'
import { clientOf, type FakeApi } from './fake-api.ts'
import type { FakeClock } from './fake-clock.ts'

export type Seen = {
  readonly name: keyof ConsumerEvents<unknown>
  readonly event: Record<string, unknown>
  readonly at: number
}

const NAMES = ['completed', 'retried', 'dead', 'leaseLost', 'error', 'idle', 'stopped'] as const

export type Consuming = {
  readonly consumer: Consumer<unknown>
  readonly seen: readonly Seen[]
  /** The names of the events, without idle. */
  names(): string[]
}

/**
 * Call at the top of a test file. `consume` starts a consumer and records its events; `own` takes one that the test
 * started. After each test all of them are stopped, and a rejection that nobody handled fails the test.
 */
export function ownConsumers(surroundings: () => { readonly api: FakeApi; readonly clock: FakeClock }): {
  consume(handler: Handler<unknown>, options?: ConsumeOptions): Consuming
  own(consumer: Consumer<unknown>): Consumer<unknown>
} {
  const consumers: Consumer<unknown>[] = []
  const unhandled = vi.fn()
  process.on('unhandledRejection', unhandled)

  afterEach(async () => {
    const stopped = consumers.splice(0).map((consumer) => consumer.stop({ timeoutMs: 0 }))
    await surroundings().clock.advance(1)
    await Promise.all(stopped)
    expect(unhandled).not.toHaveBeenCalled()
  })

  function own(consumer: Consumer<unknown>): Consumer<unknown> {
    consumers.push(consumer)
    return consumer
  }

  return {
    own,
    consume(handler, options = {}) {
      const { api, clock } = surroundings()
      const consumer = own(new EchoMQ(clientOf(api, clock)).queue('q').consume(handler, options))
      const seen: Seen[] = []
      for (const name of NAMES) {
        consumer.on(name, (event) => {
          seen.push({ name, event: { ...event }, at: clock.now() })
        })
      }
      return { consumer, seen, names: () => seen.map(({ name }) => name).filter((name) => name !== 'idle') }
    },
  }
}

export type Work = {
  readonly handler: Handler<unknown>
  /** The ids of the jobs whose handlers have started. */
  readonly started: readonly string[]
  signal(id: string): AbortSignal
  end(id: string): void
  throw(id: string, reason: unknown): void
}

export function createWork(): Work {
  const started: string[] = []
  const ends = new Map<string, { resolve: () => void; reject: (reason: unknown) => void }>()
  const signals = new Map<string, AbortSignal>()
  return {
    handler: ({ id }, { signal }) => {
      started.push(id)
      signals.set(id, signal)
      return new Promise<void>((resolve, reject) => ends.set(id, { resolve, reject }))
    },
    started,
    signal(id) {
      const signal = signals.get(id)
      if (!signal) throw new Error(`${id} was not started`)
      return signal
    },
    end: (id) => ends.get(id)?.resolve(),
    throw: (id, reason) => ends.get(id)?.reject(reason),
  }
}
