/**
 * The body of a request: received bytes, counted while they come, then exact JSON.
 *
 * What is received decides, not what a header promises: the limit holds against a wrong Content-Length or none at
 * all, no more than the limit is ever held, and reading stops there. What is refused never reaches Redis.
 */
import { type Finding, type JsonReading, readJson } from '../protocol/json-text.ts'
import { ProblemError } from './problem.ts'

/** A body that was read. */
export type JsonBody = Extract<JsonReading, { ok: true }>

/** Whether a Content-Type is `application/json`, with whatever parameters: JSON is UTF-8 and they change nothing. */
const isJsonType = (contentType: string | null): boolean =>
  contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'

const concat = (chunks: readonly Uint8Array[], size: number): Uint8Array => {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}

const receive = async (request: Request, maxBytes: number): Promise<Uint8Array> => {
  if (request.bodyUsed) throw new Error('the body was read before it came here')
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    // Leaving the loop by a throw cancels the stream: the rest is not waited for.
    for await (const chunk of request.body ?? []) {
      if (chunk.length === 0) continue
      if (!isJsonType(request.headers.get('Content-Type'))) {
        throw new ProblemError('unsupported_media_type', 'The body must be application/json.')
      }
      size += chunk.length
      if (size > maxBytes) throw new ProblemError('too_large', `The body is larger than ${maxBytes} bytes.`)
      chunks.push(chunk)
    }
  } catch (error) {
    if (error instanceof ProblemError) throw error
    // A caller that hung up, or framing that does not add up: no fault of ours.
    throw new ProblemError('invalid', 'The body broke off.')
  }
  return concat(chunks, size)
}

/** What was found in a body, as a problem: of the whole of it, or of the one element that it was found in. */
export const findingProblem = ({ message, path }: Finding): ProblemError =>
  new ProblemError('invalid', message, path === undefined ? {} : { errors: [{ path, message }] })

/**
 * Reads a request's body as JSON; undefined when there is none, not one byte, whatever the headers say.
 *
 * @throws {ProblemError} `unsupported_media_type`, `too_large` or `invalid`.
 */
export const readBody = async (request: Request, maxBytes: number): Promise<JsonBody | undefined> => {
  const bytes = await receive(request, maxBytes)
  if (bytes.length === 0) return undefined
  const body = readJson(bytes)
  if (body.ok) return body
  throw findingProblem(body)
}
