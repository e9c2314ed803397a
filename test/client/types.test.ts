/** What the types say of payloads, options and events. Checked by the compiler; nothing here sends anything. */
import { expectTypeOf, test } from 'vitest'
import * as z from 'zod'
import { EchoMQ, type Enqueued, type Job, type Queue } from '../../src/client/index.ts'

type Email = { to: string }

const emq = new EchoMQ({ url: 'https://queue.example.com', token: 't' })

test('a queue of a named type', () => {
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

test('a queue of no type takes and gives unknown', () => {
  const jobs = emq.queue('jobs')
  expectTypeOf(jobs.enqueue).parameter(0).toBeUnknown()
  expectTypeOf(jobs.claim).returns.resolves.items.toHaveProperty('payload').toBeUnknown()
})

test('a schema gives the types of both ends', () => {
  const schema = z.object({ at: z.coerce.date<string>(), tries: z.number().default(1) })
  const visits = emq.queue('visits', { schema })
  expectTypeOf(visits.enqueue).parameter(0).toEqualTypeOf<{ at: string; tries?: number | undefined }>()
  expectTypeOf(visits.claim)
    .returns.resolves.items.toHaveProperty('payload')
    .toEqualTypeOf<{ at: Date; tries: number }>()
})

test('a schema beside a named type must be of that type', () => {
  emq.queue<Email>('emails', { schema: z.object({ to: z.string() }) })
  // @ts-expect-error a number is no address
  emq.queue<Email>('emails', { schema: z.object({ to: z.number() }) })
})

test('events', () => {
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

test('options that are undefined are options that are not given', () => {
  const options = { delayMs: undefined, idempotencyKey: undefined, signal: undefined }
  expectTypeOf(options).toExtend<NonNullable<Parameters<Queue['enqueue']>[1]>>()
  // @ts-expect-error a delay is a number
  expectTypeOf({ delayMs: '5' }).toExtend<NonNullable<Parameters<Queue['enqueue']>[1]>>()
})
