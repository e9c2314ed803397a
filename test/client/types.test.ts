/** The types of payloads, options and events, checked by the compiler; nothing here sends a request. */
import { expectTypeOf, test } from 'vitest'
import * as z from 'zod'
import { EchoMQ, type Enqueued, type Job, type Queue } from '../../src/client/index.ts'

type Email = { to: string }

const emq = new EchoMQ({ url: 'https://queue.example.com', token: 't' })

test('a queue of a named type has typed payloads', () => {
  const emails = emq.queue<Email>('emails')
  expectTypeOf(emails).toEqualTypeOf<Queue<Email, Email>>()
  expectTypeOf(emails.enqueue).parameter(0).toEqualTypeOf<Email>()
  expectTypeOf(emails.enqueue).returns.toEqualTypeOf<Promise<Enqueued>>()
  expectTypeOf(emails.claim).returns.toEqualTypeOf<Promise<Job<Email>[]>>()
  expectTypeOf(emails.complete).returns.toEqualTypeOf<Promise<'completed' | 'gone'>>()
  expectTypeOf(emails.consume).parameter(0).parameter(0).toEqualTypeOf<Job<Email>>()
  expectTypeOf(emails.drain).parameter(0).parameter(1).toEqualTypeOf<{ readonly signal: AbortSignal }>()
  expectTypeOf(emails.enqueueMany)
    .parameter(0)
    .items.toExtend<{ readonly payload: Email; readonly delayMs?: number | undefined }>()
})

test('a queue without a type has unknown payloads', () => {
  const jobs = emq.queue('jobs')
  expectTypeOf(jobs.enqueue).parameter(0).toBeUnknown()
  expectTypeOf(jobs.claim).returns.resolves.items.toHaveProperty('payload').toBeUnknown()
})

test('a schema gives the payload types of both ends', () => {
  const schema = z.object({ at: z.coerce.date<string>(), tries: z.number().default(1) })
  const visits = emq.queue('visits', { schema })
  expectTypeOf(visits.enqueue).parameter(0).toEqualTypeOf<{ at: string; tries?: number | undefined }>()
  expectTypeOf(visits.claim)
    .returns.resolves.items.toHaveProperty('payload')
    .toEqualTypeOf<{ at: Date; tries: number }>()
})

test("a schema must have the queue's named type", () => {
  emq.queue<Email>('emails', { schema: z.object({ to: z.string() }) })
  // @ts-expect-error a number is not an address
  emq.queue<Email>('emails', { schema: z.object({ to: z.number() }) })
})

test('listeners get typed events', () => {
  type Consumer = ReturnType<Queue<Email>['consume']>
  const on = null as unknown as Consumer['on']
  const listen = (): void => {
    on('completed', ({ job, status }) => {
      expectTypeOf(job).toEqualTypeOf<Job<Email>>()
      expectTypeOf(status).toEqualTypeOf<'completed' | 'gone'>()
    })
    on('retried', ({ error, delayMs }) => {
      expectTypeOf(error).toBeUnknown()
      expectTypeOf(delayMs).toEqualTypeOf<number | undefined>()
    })
    // @ts-expect-error there is no such event
    on('finished', () => {})
  }
  expectTypeOf(listen).toBeFunction()
})

test('an undefined option equals a missing one', () => {
  const options = { delayMs: undefined, idempotencyKey: undefined, signal: undefined }
  expectTypeOf(options).toExtend<NonNullable<Parameters<Queue['enqueue']>[1]>>()
  // @ts-expect-error a delay is a number
  expectTypeOf({ delayMs: '5' }).toExtend<NonNullable<Parameters<Queue['enqueue']>[1]>>()
})
