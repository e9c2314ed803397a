/** Requests and responses: headers and bodies, foreign responses, errors, and the end of each attempt. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { EchoMQ, EchoMQError, type EchoMQOptions } from '../../src/client/index.ts'
import { createFakeClock, type FakeClock } from './support/fake-clock.ts'

let clock: FakeClock
let sent: { url: string; init: RequestInit }[]
let answer: () => Response | Promise<Response>
const unhandled = vi.fn()
process.on('unhandledRejection', unhandled)

beforeEach(() => {
  clock = createFakeClock()
  sent = []
  answer = () => Response.json({ counts: {} })
})

afterEach(async () => {
  await clock.settle()
  expect(unhandled).not.toHaveBeenCalled()
})

function client(options: Partial<EchoMQOptions> = {}) {
  return new EchoMQ({
    url: 'https://queue.example.com',
    token: 'SECRET-TOKEN',
    retry: 0,
    clock,
    fetch: async (url, init) => {
      sent.push({ url, init })
      return answer()
    },
    ...options,
  })
}

function stats(options?: Partial<EchoMQOptions>) {
  return client(options).queue('emails').stats()
}

async function failure(promise: Promise<unknown>): Promise<EchoMQError> {
  const error: unknown = await promise.then(
    () => expect.fail('it succeeded'),
    (reason) => reason,
  )
  return error as EchoMQError
}

describe('a request', () => {
  test('a request carries the token and JSON, and follows no redirect', async () => {
    await stats()
    expect(sent[0]?.url).toBe('https://queue.example.com/v1/queues/emails')
    expect(sent[0]?.init).toMatchObject({ redirect: 'manual' })
    // A fetch without a method is a GET.
    expect([sent[0]?.init.method, sent[0]?.init.body]).toEqual([undefined, undefined])
    expect(new Headers(sent[0]?.init.headers).get('authorization')).toBe('Bearer SECRET-TOKEN')
    answer = () => Response.json({ paused: true })
    await client().queue('emails').pause()
    expect(sent[1]).toMatchObject({
      url: 'https://queue.example.com/v1/queues/emails/pause',
      init: { method: 'POST', body: '{}' },
    })
    expect(new Headers(sent[1]?.init.headers).get('content-type')).toBe('application/json')
  })

  test.each([
    ['https://q.example.com/', 'https://q.example.com/v1/queues/emails'],
    ['https://q.example.com/base//', 'https://q.example.com/base/v1/queues/emails'],
    ['http://127.0.0.1:8787', 'http://127.0.0.1:8787/v1/queues/emails'],
  ])('with the url %s a request goes to %s', async (url, whole) => {
    await stats({ url })
    expect(sent[0]?.url).toBe(whole)
  })

  test.each([
    '',
    'queue.example.com',
    'ftp://q',
    'https://',
    ' https://q',
    'https://q ',
    'https://user:pw@q',
    'https://q?a=1',
    'https://q#a',
  ])('the constructor rejects the url %j', (url) => {
    expect(() => client({ url })).toThrow(
      expect.objectContaining({
        name: 'EchoMQError',
        code: 'misconfigured',
        message: String.raw`url must match /^https?:\/\/[^\s?#@]+$/`,
      }),
    )
  })

  test.each(['', ' ', 'SECRET b', 'SECRET\n', 'SECRETä'])(
    'the constructor rejects the token %j without quoting it',
    (token) => {
      const message = 'token must match /^[!-~]+$/'
      expect(() => client({ token })).toThrow(expect.objectContaining({ code: 'misconfigured', message }))
    },
  )

  test('the constructor names a missing option', () => {
    // @ts-expect-error url and token are required
    expect(() => new EchoMQ({})).toThrow(/^url must match /)
    const token = process.env['NOBODY_SETS_THIS'] as string
    expect(() => client({ token })).toThrow(/^token must match /)
  })

  test.each([0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'the constructor rejects a timeout of %d ms',
    (timeoutMs) => {
      expect(() => client({ timeoutMs })).toThrow('timeoutMs must be an integer from 1 to 2147483647')
    },
  )

  test('a request has the user agent, except in a browser', async () => {
    await stats()
    await stats({ userAgent: 'mailer/1' })
    vi.stubGlobal('document', {})
    await stats({ userAgent: 'mailer/1' })
    vi.unstubAllGlobals()
    expect(sent.map(({ init }) => new Headers(init.headers).get('user-agent'))).toEqual([
      null,
      'mailer/1',
      null,
    ])
  })

  test('fetch is called as a method of the global object', async () => {
    const receivers: unknown[] = []
    vi.stubGlobal('fetch', function (this: unknown) {
      receivers.push(this)
      return Promise.resolve(Response.json({ counts: {} }))
    })
    await new EchoMQ({ url: 'https://q', token: 't' }).queue('emails').stats()
    vi.unstubAllGlobals()
    expect(receivers).toEqual([globalThis])
  })

  test.each(['a}b', '{a}', 'a:b', '*', 'q ', '', 'emq', '..', 'q\n', 'q'.repeat(129), 'ä'])(
    'queue rejects the name %j',
    (name) => {
      const message = 'queue name must match /^(?!emq$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/'
      expect(() => client().queue(name)).toThrow(expect.objectContaining({ code: 'invalid', message }))
    },
  )

  test.each([
    '',
    '..',
    '../x',
    'JOB0Dq5JVGd5n',
    'JOB0Dq5JVGd5nZZ',
    'job0Dq5JVGd5nZ',
    'JOB0Dq5JVGd5n:',
    'JOB0Dq5JVGd5nZ\n',
    'JOB0Dq5JVGd5nZ/x',
  ])('case 14: every verb rejects the id %j before anything is sent', async (id) => {
    const queue = client().queue('emails')
    const job = { id, token: 1 }
    for (const verb of [
      () => queue.complete(job),
      () => queue.retry(job),
      () => queue.job(id),
      () => queue.redrive(id),
    ]) {
      expect(await failure(Promise.resolve().then<unknown>(verb))).toMatchObject({
        code: 'invalid',
        message: 'job id must match /^[A-Z]{3}[0-9A-Za-z]{11}$/',
      })
    }
    expect(sent).toEqual([])
  })
})

describe('a response', () => {
  const problem = (status: number, code: string, more: object = {}) =>
    Response.json(
      { type: '/docs#x', title: 'T', status, detail: 'What happened.', code, requestId: 'req-1', ...more },
      { status },
    )

  test.each([
    [400, 'invalid', false],
    [401, 'unauthorized', false],
    [403, 'forbidden', false],
    [404, 'not_found', false],
    [409, 'stale', false],
    [409, 'wrong_state', false],
    [409, 'locked', false],
    [410, 'gone', false],
    [413, 'too_large', false],
    [415, 'unsupported_media_type', false],
    [422, 'wrong_kind', false],
    [429, 'overloaded', true],
    [500, 'internal', true],
    [503, 'upstream', true],
    [503, 'misconfigured', false],
    [503, 'wire_version', false],
  ])('a problem %i %s is an EchoMQError with retryable %s', async (status, code, retryable) => {
    answer = () => problem(status, code)
    const error = await failure(stats())
    expect(error).toBeInstanceOf(EchoMQError)
    expect(error).toMatchObject({ name: 'EchoMQError', code, status, retryable, requestId: 'req-1' })
    expect(error.message).toBe(`/v1/queues/emails: ${code}: What happened.`)
  })

  test('an error has the fields, the reason and the state of the problem', async () => {
    const errors = [
      { path: 'delayMs', message: 'must be a whole number' },
      { path: 'runAt', message: 'must be an instant' },
    ]
    answer = () => problem(400, 'invalid', { errors })
    expect(await failure(stats())).toMatchObject({
      errors,
      message: '/v1/queues/emails: invalid: delayMs must be a whole number',
    })
    answer = () => problem(409, 'stale', { reason: 'lapsed' })
    expect(await failure(stats())).toMatchObject({
      reason: 'lapsed',
      message: '/v1/queues/emails: stale (lapsed): What happened.',
    })
    answer = () => problem(409, 'wrong_state', { state: 'active' })
    expect((await failure(stats())).state).toBe('active')
  })

  test.each([
    [200, '<html>', 'network', true],
    [200, '{}', 'network', true],
    [200, '[]', 'network', true],
    [200, 'null', 'network', true],
    [200, '', 'network', true],
    [302, '', 'network', true],
    [404, '<html>', 'network', true],
    [409, '{"code":7}', 'network', true],
    [410, 'Gone', 'network', true],
    [401, '', 'unauthorized', false],
    [403, '<html>', 'forbidden', false],
    [429, 'slow down', 'overloaded', true],
    [502, '<html>SECRET</html>', 'upstream', true],
    [500, '{"error":"SECRET"}', 'upstream', true],
  ])("a response %i %j is not the API's and becomes %s", async (status, body, code, retryable) => {
    answer = () => new Response(body, { status })
    const error = await failure(stats())
    expect(error).toMatchObject({ code, status, retryable })
    expect(error.message).not.toContain('SECRET')
  })

  test('a connection that breaks in the middle of a response is a network error', async () => {
    answer = () =>
      new Response(new ReadableStream({ start: (stream) => stream.error(new TypeError('reset')) }))
    expect(await failure(stats())).toMatchObject({ code: 'network', retryable: true })
  })

  test('a network error has the error of fetch as its cause', async () => {
    const cause = new TypeError('fetch failed')
    answer = () => Promise.reject(cause)
    const error = await failure(stats())
    expect(error).toMatchObject({ code: 'network', retryable: true, cause })
    expect(error.message).toBe('https://queue.example.com/v1/queues/emails: no answer')
    expect(error.status).toBeUndefined()
  })

  test('a fetch that throws synchronously is a network error', async () => {
    answer = () => {
      throw new TypeError('bad')
    }
    expect((await failure(stats())).code).toBe('network')
  })
})

describe('the end of an attempt', () => {
  test('an attempt ends by its timeout when fetch ignores its signal', async () => {
    answer = () => new Promise(() => {})
    const done = failure(stats({ timeoutMs: 1_000 }))
    await clock.advance(1_000)
    const message = 'https://queue.example.com/v1/queues/emails: no answer'
    expect(await done).toMatchObject({ code: 'timeout', retryable: true, message })
    expect(sent[0]?.init.signal?.aborted).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('an attempt ends by its timeout in the middle of a body', async () => {
    answer = () => new Response(new ReadableStream({}))
    const done = failure(stats())
    await clock.advance(9_999)
    await clock.advance(1)
    expect((await done).code).toBe('timeout')
  })

  test('the attempt of a claim ends after its wait and the timeout', async () => {
    answer = () => new Promise(() => {})
    const done = failure(client({ timeoutMs: 5_000 }).queue('q').claim({ waitMs: 20_000 }))
    await clock.advance(24_999)
    expect(sent[0]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect((await done).code).toBe('timeout')
  })

  test("an aborted call throws the signal's reason and leaves no timer and no listener", async () => {
    answer = () => new Promise(() => {})
    const abort = new AbortController()
    const removed = vi.spyOn(abort.signal, 'removeEventListener')
    const added = vi.spyOn(abort.signal, 'addEventListener')
    const done = failure(client().queue('q').stats({ signal: abort.signal }))
    await clock.settle()
    abort.abort('enough')
    expect(await done).toBe('enough')
    expect(clock.timers).toBe(0)
    expect(removed.mock.calls.length).toBe(added.mock.calls.length)
  })

  test('a call with an aborted signal sends nothing', async () => {
    const reason = new Error('over')
    expect(
      await failure(
        client()
          .queue('q')
          .stats({ signal: AbortSignal.abort(reason) }),
      ),
    ).toBe(reason)
    expect(sent).toEqual([])
  })

  test('a call leaves no timer and no listener after its response', async () => {
    const { signal } = new AbortController()
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    await client().queue('q').stats({ signal })
    expect(clock.timers).toBe(0)
    expect([added.mock.calls.length, removed.mock.calls.length]).toEqual([1, 1])
  })
})

test.each([
  ['Thu, 01 Jan 2099 00:00:05 GMT', 'Thu, 01 Jan 2099 00:00:00 GMT', 5_000],
  ['Thu, 01 Jan 2026 00:00:07 GMT', undefined, 7_000],
  ['Thu, 01 Jan 2026 00:00:07 GMT', 'nonsense', 7_000],
  ['Thu, 01 Jan 2020 00:00:00 GMT', 'Thu, 01 Jan 2099 00:00:00 GMT', undefined],
  ['2099', undefined, 60_000],
  ['Thu, 01 Jan 2099 00:00:00', undefined, undefined],
  ['soon GMT', undefined, undefined],
  ['0', undefined, undefined],
])("Retry-After %j in a response of %j is read without the machine's clock", async (after, date, ms) => {
  answer = () => new Response(null, { status: 503, headers: { 'retry-after': after, ...(date && { date }) } })
  expect((await failure(stats())).retryAfterMs).toBe(ms)
})

test('printing a client, a queue or an error shows neither token nor payload', async () => {
  const emq = client()
  answer = () => Promise.reject(new TypeError('fetch failed'))
  const error = await failure(emq.queue('q').enqueue({ secret: 'SECRET-PAYLOAD' }))
  const { inspect } = await import('node:util')
  for (const thing of [emq, emq.queue('q'), error]) {
    expect(JSON.stringify(thing) + inspect(thing, { depth: 9, showHidden: true })).not.toContain('SECRET')
  }
})
