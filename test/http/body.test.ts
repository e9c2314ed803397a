import { describe, expect, test, vi } from 'vitest'
import { readBody } from '../../src/http/body.ts'
import { ProblemError } from '../../src/http/problem.ts'
import { JsonText } from '../../src/protocol/json-text.ts'

const URL = 'https://edge.example/v1/queues/q/jobs'
const LIMIT = 64

describe('a body', () => {
  test('readBody returns the value and the exact text of the payload', async () => {
    const body = await readBody(requestWith('{"payload": 1.0, "delayMs": 5}'), LIMIT)
    expect(body).toEqual({ payload: new JsonText('1.0'), delayMs: 5 })
  })

  test('191: readBody rejects a body that sends nothing for thirty seconds', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      for (const headers of [{}, { 'Content-Length': '20' }]) {
        let controller: ReadableStreamDefaultController<Uint8Array> | undefined
        const stream = new ReadableStream<Uint8Array>({
          start(given) {
            controller = given
            given.enqueue(new TextEncoder().encode('{"payload":'))
          },
        })
        const reading = problemOf(requestWith(stream, headers))
        await vi.advanceTimersByTimeAsync(30_000)
        expect(await reading).toMatchObject({
          code: 'invalid',
          detail: 'The body sent nothing for 30 seconds.',
        })
        expect(controller).toBeDefined()
      }
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  test('185: readBody rejects more than 1,000 elements or 20,000 keys outside of payloads unparsed', async () => {
    const list = (elements: number) => `[${Array.from({ length: elements }, () => 1).join()}]`
    const object = (keys: number) => `{${Array.from({ length: keys }, (_, nth) => `"k${nth}":1`).join()}}`
    const detail = async (text: string) => (await problemOf(requestWith(text), 1e7))?.detail
    // The open end shows that the text is not parsed.
    expect(await detail(`{"x":${list(1000)}`)).toMatch(/not JSON/)
    expect(await detail(`{"x":${list(1001)}`)).toMatch(/more than 1000 elements/)
    expect(await detail(`{"x":${object(19_999)}`)).toMatch(/not JSON/)
    expect(await detail(`{"x":${object(20_000)}`)).toMatch(/more than 20000 keys/)
    for (const payload of [list(1001), object(20_001)])
      expect(await readBody(requestWith(`{"payload":${payload}}`), 1e7)).toEqual({
        payload: new JsonText(payload),
      })
  })

  test('202: readBody rejects nesting deeper than 16 levels outside of payloads unparsed', async () => {
    const detail = async (text: string) => (await problemOf(requestWith(text), 1e7))?.detail
    expect(await detail('['.repeat(16))).toMatch(/not JSON/)
    expect(await detail('['.repeat(17))).toMatch(/nested deeper than 16/)
    expect(await detail(`{"x":${'['.repeat(500)}`)).toMatch(/nested deeper than 16/)
  })

  test('readBody joins chunks that split a character', async () => {
    const bytes = new TextEncoder().encode('{"payload":"😀"}')
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
    expect(await readBody(requestWith(stream), LIMIT)).toEqual({ payload: new JsonText('"😀"') })
  })

  test('readBody returns undefined for an empty body, whatever the headers say', async () => {
    for (const type of ['application/json', 'text/plain']) {
      expect(await readBody(requestWith(null, { 'Content-Type': type }), LIMIT)).toBeUndefined()
      expect(await readBody(requestWith('', { 'Content-Type': type }), LIMIT)).toBeUndefined()
      const { stream } = streamed(['', ''])
      expect(await readBody(requestWith(stream, { 'Content-Type': type }), LIMIT)).toBeUndefined()
    }
    expect(await readBody(new Request(URL, { method: 'POST' }), LIMIT)).toBeUndefined()
  })

  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON ;charset="utf-8"',
    'application/json;',
  ])('readBody accepts the type %s', async (type) => {
    expect(await readBody(requestWith('{}', { 'Content-Type': type }), LIMIT)).toEqual({})
  })

  test.each([
    'text/plain',
    'application/jsonp',
    'application/json+x',
    'text/json',
    'application/json, text/plain',
    'json',
    '',
  ])('readBody rejects the type %j', async (type) => {
    const { stream, seen } = streamed(['{}', '{}', '{}'])
    expect(await problemOf(requestWith(stream, { 'Content-Type': type }))).toMatchObject({
      code: 'unsupported_media_type',
    })
    expect(seen).toEqual({ pulled: 1, isCancelled: true })
  })

  test('readBody rejects a body without a type', async () => {
    const request = requestWith(new TextEncoder().encode('{}'))
    request.headers.delete('Content-Type')
    expect(await problemOf(request)).toMatchObject({ code: 'unsupported_media_type' })
  })

  test('readBody accepts a body of the limit and rejects one byte more (fault 37)', async () => {
    const ofBytes = (length: number) => `"${'é'.repeat((length - 2) / 2)}"`
    for (const text of [ofBytes(LIMIT), `${ofBytes(LIMIT - 2)} `])
      expect(await readBody(requestWith(text), LIMIT)).toBe(JSON.parse(text))
    expect(await problemOf(requestWith(`${ofBytes(LIMIT)} `))).toMatchObject({ code: 'too_large' })
  })

  test('readBody counts received bytes and stops reading at the limit', async () => {
    const chunk = ' '.repeat(LIMIT / 2)
    const { stream, seen } = streamed(Array.from({ length: 1000 }, () => chunk))
    expect(await problemOf(requestWith(stream, { 'Content-Length': '2' }))).toMatchObject({
      code: 'too_large',
    })
    expect(seen).toEqual({ pulled: 3, isCancelled: true })
  })

  test('readBody ignores Content-Length', async () => {
    const { stream } = streamed(['{}'])
    expect(await readBody(requestWith(stream, { 'Content-Length': '999999999' }), LIMIT)).toEqual({})
  })

  test.each(['{', 'null x', '{"payload":1}garbage', '\ufeff{}', ' '])(
    'readBody rejects %j, which is not JSON (fault 39)',
    async (text) => {
      const problem = await problemOf(requestWith(text))
      expect(problem).toMatchObject({ code: 'invalid' })
      expect(problem).not.toHaveProperty('errors')
    },
  )

  test('readBody rejects an ambiguous body with its path', async () => {
    const problem = await problemOf(requestWith('{"payload":{"SECRET-1":1,"SECRET-1":2}}'))
    expect(problem).toMatchObject({ code: 'invalid', errors: [{ path: 'payload' }] })
    expect(JSON.stringify(problem)).not.toContain('SECRET-1')
  })

  test('readBody rejects a body that breaks off as invalid', async () => {
    const { stream } = streamed(['{"payload":', new Error('reset SECRET-1')])
    const problem = await problemOf(requestWith(stream))
    expect(problem).toEqual({ code: 'invalid', detail: 'The body is incomplete.' })
  })

  test('readBody throws an internal error for a body that was read before', async () => {
    const request = requestWith('{}')
    await request.text()
    await expect(readBody(request, LIMIT)).rejects.not.toBeInstanceOf(ProblemError)
  })
})

function requestWith(body: BodyInit | null, headers: Record<string, string> = {}): Request {
  return new Request(URL, {
    method: 'POST',
    body,
    headers: { 'Content-Type': 'application/json', ...headers },
    duplex: 'half',
  } as RequestInit)
}

/** A body in chunks. `seen` counts the chunks that were read, and says whether the body was cancelled. */
function streamed(chunks: readonly (string | Error)[]) {
  const seen = { pulled: 0, isCancelled: false }
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[seen.pulled]
        seen.pulled += 1
        if (chunk === undefined) controller.close()
        else if (chunk instanceof Error) controller.error(chunk)
        else controller.enqueue(new TextEncoder().encode(chunk))
      },
      cancel() {
        seen.isCancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, seen }
}

async function problemOf(request: Request, maxBytes = LIMIT) {
  try {
    await readBody(request, maxBytes)
  } catch (error) {
    if (error instanceof ProblemError) return error.problem
    throw error
  }
  return undefined
}
