/**
 * Reads the body of a request: counts the bytes while they arrive, then parses exact JSON.
 *
 * The limit applies to the bytes received, whatever Content-Length says. A body that stalls is rejected.
 */
import { type Flaw, type JsonShape, readJson } from '../protocol/json-text.ts'
import { MAX_ITEMS_PER_SETTLE, MAX_JOBS_PER_ENQUEUE } from '../protocol/limits.ts'
import { ProblemError } from './problem.ts'

/** Payloads are kept as their source text. In a batch, only the affected element is rejected. */
const BODY: JsonShape = {
  raw: [['payload'], ['jobs', '*', 'payload']],
  lists: { jobs: MAX_JOBS_PER_ENQUEUE, items: MAX_ITEMS_PER_SETTLE },
  outside: { nesting: 16, elements: 1000, keys: 20_000 },
}

/** Rejects every Content-Type but `application/json`. Parameters are allowed: JSON is always UTF-8. */
function checkType({ headers }: Request): void {
  if (headers.get('Content-Type')?.split(';', 1)[0]?.trim().toLowerCase() !== 'application/json')
    throw new ProblemError('unsupported_media_type', 'The body must be application/json.')
}

const concat = (chunks: readonly Uint8Array[], size: number): Uint8Array => {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}

/** How long the next bytes of a body may take, in milliseconds. */
const MAX_STALL_MS = 30_000

/** Waits for bytes of a body. */
async function arrival<T>(bytes: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const stall = new Promise<never>((_, reject) => {
    const late = new ProblemError('invalid', `The body sent nothing for ${MAX_STALL_MS / 1000} seconds.`)
    timer = setTimeout(reject, MAX_STALL_MS, late)
  })
  try {
    return await Promise.race([bytes, stall])
  } catch (error) {
    if (error instanceof ProblemError) throw error
    // The caller hung up, or sent wrong framing.
    throw new ProblemError('invalid', 'The body is incomplete.')
  } finally {
    clearTimeout(timer)
  }
}

async function receive(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.bodyUsed) throw new Error('the body was read before')
  if (request.body === null) return new Uint8Array()
  const reader = request.body.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for (;;) {
      const { done, value: chunk } = await arrival(reader.read())
      if (done) return concat(chunks, size)
      if (chunk.length === 0) continue
      checkType(request)
      size += chunk.length
      if (size > maxBytes)
        throw new ProblemError('too_large', `The body is larger than the limit of ${maxBytes} bytes.`)
      chunks.push(chunk)
    }
  } catch (error) {
    reader.cancel().catch(() => {})
    throw error
  }
}

/** A flaw of a body, or of one element of a batch, as a problem. */
export const flawProblem = ({ message, path }: Flaw): ProblemError =>
  new ProblemError('invalid', message, path === undefined ? {} : { errors: [{ path, message }] })

/**
 * Reads a request's body as JSON; undefined if there is no byte of it, whatever the headers say.
 *
 * @throws {ProblemError} `unsupported_media_type`, `too_large` or `invalid`.
 */
export const readBody = async (request: Request, maxBytes: number): Promise<unknown> => {
  const bytes = await receive(request, maxBytes)
  if (bytes.length === 0) return undefined
  const reading = readJson(bytes, BODY)
  if (reading.ok) return reading.value
  throw flawProblem(reading)
}
