import { describe, expect, it } from 'vitest'
import { readBody } from '../../src/http/body.ts'
import { ProblemError } from '../../src/http/problem.ts'
import { JsonText } from '../../src/protocol/json-text.ts'

const URL = 'https://edge.example/v1/queues/q/jobs'
const LIMIT = 64

const requestWith = (body: BodyInit | null, headers: Record<string, string> = {}) =>
  new Request(URL, {
    method: 'POST',
    body,
    headers: { 'Content-Type': 'application/json', ...headers },
    duplex: 'half',
  } as RequestInit)

/** A body that comes in chunks, and tells how many were asked for and whether it was cancelled. */
const streamed = (chunks: readonly (string | Error)[]) => {
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

const problemOf = async (request: Request, maxBytes = LIMIT) => {
  try {
    await readBody(request, maxBytes)
  } catch (error) {
    if (error instanceof ProblemError) return error.problem
    throw error
  }
  return undefined
}

describe('a body', () => {
  it('is read with its value and the exact text of its payload', async () => {
    const body = await readBody(requestWith('{"payload": 1.0, "delayMs": 5}'), LIMIT)
    expect(body).toEqual({ payload: new JsonText('1.0'), delayMs: 5 })
  })

  it('may come in pieces, also in the middle of a character', async () => {
    const bytes = new TextEncoder().encode('{"payload":"😀"}')
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
    expect(await readBody(requestWith(stream), LIMIT)).toEqual({ payload: new JsonText('"😀"') })
  })

  it('is none when no byte comes, whatever the headers say', async () => {
    for (const type of ['application/json', 'text/plain']) {
      expect(await readBody(requestWith(null, { 'Content-Type': type }), LIMIT)).toBeUndefined()
      expect(await readBody(requestWith('', { 'Content-Type': type }), LIMIT)).toBeUndefined()
      const { stream } = streamed(['', ''])
      expect(await readBody(requestWith(stream, { 'Content-Type': type }), LIMIT)).toBeUndefined()
    }
    expect(await readBody(new Request(URL, { method: 'POST' }), LIMIT)).toBeUndefined()
  })

  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON ;charset="utf-8"',
    'application/json;',
  ])('may be %s', async (type) => {
    expect(await readBody(requestWith('{}', { 'Content-Type': type }), LIMIT)).toEqual({})
  })

  it.each([
    'text/plain',
    'application/jsonp',
    'application/json+x',
    'text/json',
    'application/json, text/plain',
    'json',
    '',
  ])('may not be %j', async (type) => {
    const { stream, seen } = streamed(['{}', '{}', '{}'])
    expect(await problemOf(requestWith(stream, { 'Content-Type': type }))).toMatchObject({
      code: 'unsupported_media_type',
    })
    expect(seen).toEqual({ pulled: 1, isCancelled: true })
  })

  it('needs a type', async () => {
    const request = requestWith(new TextEncoder().encode('{}'))
    request.headers.delete('Content-Type')
    expect(await problemOf(request)).toMatchObject({ code: 'unsupported_media_type' })
  })

  it('is taken to the limit and refused one byte beyond it (fault 37)', async () => {
    const ofBytes = (length: number) => `"${'é'.repeat((length - 2) / 2)}"`
    for (const text of [ofBytes(LIMIT), `${ofBytes(LIMIT - 2)} `])
      expect(await readBody(requestWith(text), LIMIT)).toBe(JSON.parse(text))
    expect(await problemOf(requestWith(`${ofBytes(LIMIT)} `))).toMatchObject({ code: 'too_large' })
  })

  it('is counted as it comes, and no more of it is asked for than is needed', async () => {
    const chunk = ' '.repeat(LIMIT / 2)
    const { stream, seen } = streamed(Array.from({ length: 1000 }, () => chunk))
    expect(await problemOf(requestWith(stream, { 'Content-Length': '2' }))).toMatchObject({
      code: 'too_large',
    })
    expect(seen).toEqual({ pulled: 3, isCancelled: true })
  })

  it('is not refused for what a header says about its length', async () => {
    const { stream } = streamed(['{}'])
    expect(await readBody(requestWith(stream, { 'Content-Length': '999999999' }), LIMIT)).toEqual({})
  })

  it.each(['{', 'null x', '{"payload":1}garbage', '\ufeff{}', ' '])(
    'that is no JSON is invalid: %j (fault 39)',
    async (text) => {
      const problem = await problemOf(requestWith(text))
      expect(problem).toMatchObject({ code: 'invalid' })
      expect(problem).not.toHaveProperty('errors')
    },
  )

  it('that is ambiguous is invalid, with the place', async () => {
    const problem = await problemOf(requestWith('{"payload":{"SECRET-1":1,"SECRET-1":2}}'))
    expect(problem).toMatchObject({ code: 'invalid', errors: [{ path: 'payload' }] })
    expect(JSON.stringify(problem)).not.toContain('SECRET-1')
  })

  it('that breaks off is the caller’s fault', async () => {
    const { stream } = streamed(['{"payload":', new Error('reset SECRET-1')])
    const problem = await problemOf(requestWith(stream))
    expect(problem).toEqual({ code: 'invalid', detail: 'The body is incomplete.' })
  })

  it('that somebody else has read is our fault', async () => {
    const request = requestWith('{}')
    await request.text()
    await expect(readBody(request, LIMIT)).rejects.not.toBeInstanceOf(ProblemError)
  })
})
