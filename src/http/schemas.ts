/**
 * Schemas that several routes share. The same schemas validate requests and generate the OpenAPI document. Numbers are
 * JSON integers in range, nothing is coerced, and instants become epoch ms.
 */
import * as z from 'zod'
import { ERRORS, type ErrorCode } from '../errors.ts'
import { classifyJobId, isJobId } from '../protocol/ids.ts'
import { isClaimId, isIdempotencyKey } from '../protocol/keys.ts'
import {
  MAX_DELAY_MS,
  MAX_ERROR_CHARS,
  MAX_INSTANT_MS,
  MAX_LEASE_MS,
  MAX_MAX_ATTEMPTS,
  MIN_LEASE_MS,
} from '../protocol/limits.ts'
import { JOB_STATES } from '../protocol/states.ts'
import { ProblemError } from './problem.ts'

/** An integer from `min` to `max`, both included. */
export const integer = (min: number, max: number) => z.int().min(min).max(max)

const epochMs = integer(0, MAX_INSTANT_MS)

/** RFC 3339 with a zone, in upper or lower case, or integer epoch ms, from 1970 to 9999. Becomes epoch ms. */
export const instant = z
  .union(
    [
      z
        .string()
        .toUpperCase()
        .pipe(z.iso.datetime({ offset: true }).transform(Date.parse))
        .pipe(epochMs),
      epochMs,
    ],
    { error: 'must be RFC 3339 with a zone, or integer epoch ms, from 1970 to 9999' },
  )
  .meta({
    description: 'An instant from 1970 to 9999, in UTC: RFC 3339 with a zone, or integer epoch ms.',
    override: {
      anyOf: [
        { type: 'string', format: 'date-time' },
        { type: 'integer', minimum: 0, maximum: MAX_INSTANT_MS },
      ],
    },
  })

/** Rejects an instant that is too far ahead for a scheduled job: the only limit that needs a clock. */
export function rejectTooFarAhead(runAt: number | undefined, nowMs: number): void {
  if (runAt !== undefined && runAt - nowMs > MAX_DELAY_MS)
    throw new ProblemError('invalid', 'The time is too far ahead: use one within 366 days.', {
      errors: [{ path: 'runAt', message: 'is more than 366 days ahead' }],
    })
}

/** The id of a job in a body. A well-formed id of another kind passes: it has an error code of its own. */
export const jobId = z
  .string()
  .refine((id) => classifyJobId(id) !== 'ill-formed', 'must be JOB and 11 base62 digits')
  .meta({
    id: 'JobId',
    description:
      'The id of a job: `JOB` and 11 base62 digits. Ids in byte order are in the order of their creation.',
    override: { type: 'string', pattern: '^JOB[0-9A-Za-z]{11}$' },
  })

export const delayMs = integer(0, MAX_DELAY_MS).describe("Milliseconds from the server's now.")
export const leaseMs = integer(MIN_LEASE_MS, MAX_LEASE_MS).describe(
  "Length of the lease in ms, from the server's now.",
)
export const maxAttempts = integer(0, MAX_MAX_ATTEMPTS).describe(
  'Retry budget: how many attempts the job may use. 0: no limit.',
)

/** The fencing token. */
export const token = z
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER)
  .describe('The fencing token that the claim returned.')

/** For the document: exactly one of these fields. */
export const exactlyOne = (...names: string[]) => ({
  oneOf: names.map((name) => ({ required: [name], properties: { [name]: {} } })),
})

/** Cut at the limit, not rejected, and never inside a surrogate pair. */
export const errorText = z
  .string()
  .transform((text) => {
    const cut = text.slice(0, MAX_ERROR_CHARS)
    return cut.isWellFormed() ? cut : cut.slice(0, -1)
  })
  .meta({
    description: `What went wrong, as text. Cut at ${MAX_ERROR_CHARS} characters, not rejected.`,
    override: { type: 'string' },
  })

export const idempotencyKey = z
  .string()
  .refine(isIdempotencyKey, 'must match [A-Za-z0-9._:-]{1,255}')
  .meta({
    description:
      'Within the window, another job with this key is a `duplicate`, whatever happened to the first job.',
    override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,255}$' },
  })

export const claimId = z
  .string()
  .refine(isClaimId, 'must match [A-Za-z0-9._:-]{1,128}')
  .meta({
    description:
      'A name for the claim. If the response was lost, a repeat returns the jobs of this claim that are still live, with the same tokens. If no job is left, the repeat is a new claim. An empty claim is not remembered.',
    override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  })

/** How payloads are returned: as JSON where they are JSON, or all of them as text. */
export const as = z.enum(['json', 'text']).meta({
  description:
    'How payloads are returned. `json`: as `payload` if they are JSON, else as `text`. `text`: all UTF-8 as `text`, `123` and `null` included. Bytes that are not UTF-8 are returned as `base64` in both cases.',
  default: 'json',
})

/** A query parameter of decimal digits in range. `otherwise` is the default of the handler, for the document. */
export const digits = (min: number, max: number, otherwise: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be decimal digits')
    .transform(Number)
    .pipe(integer(min, max))
    .meta({
      override: { type: 'integer', pattern: undefined, minimum: min, maximum: max, default: otherwise },
    })

/** A query parameter that is an instant: decimal epoch ms, or RFC 3339. */
export const instantParameter = z
  .string()
  .transform((text) => (/^\d{1,16}$/.test(text) ? Number(text) : text))
  .pipe(instant)
  .meta({ override: { type: 'string' } })

/** An id as part of a cursor. An id that another client made up is escaped, behind a mark. */
export const idToCursor = (id: string): string => (isJobId(id) ? id : `~${encodeURIComponent(id)}`)

/** A cursor of an earlier response. */
export const cursorOf = <Cursor>(decode: (text: string) => Cursor | undefined) =>
  z
    .string()
    .transform((text, context) => {
      const cursor = decode(text)
      if (cursor !== undefined) return cursor
      context.addIssue({ code: 'custom', message: 'is not a cursor of this operation' })
      return z.NEVER
    })
    .meta({
      description: 'Where to continue: the `cursor` of the previous response.',
      override: { type: 'string' },
    })
    .optional()

/** The cursor in a response. */
export const nextCursor = z.string().optional().describe('Where to continue. Present if there is more.')

/** The id in a cursor; undefined if the text is not a cursor, or the id was not UTF-8. */
export function idFromCursor(text: string): string | undefined {
  if (isJobId(text)) return text
  try {
    const id = decodeURIComponent(text.slice(1))
    return text.startsWith('~') && !id.includes('\ufffd') ? id : undefined
  } catch {
    return undefined
  }
}

/** The payload of a job in a response: one of the three. */
export const payloadMembers = {
  payload: z.unknown().optional().describe('The payload, if it is JSON.'),
  text: z.string().optional().describe('The payload as text.'),
  base64: z.string().optional().describe('The payload, if it is not UTF-8: another client wrote it.'),
}

const ERROR_CODES = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]

/** The fields of an error, both as a response and as the result of one element of a batch. */
const errorMembers = {
  code: z.enum(ERROR_CODES).describe('Decide by this.'),
  detail: z.string().describe('One sentence for people.'),
  errors: z
    .array(z.object({ path: z.string(), message: z.string() }))
    .optional()
    .describe(
      'With `invalid`: the fields, such as `backoff.baseMs`, and what each must be. In a batch, the paths begin inside the element.',
    ),
  reason: z
    .enum(['superseded', 'released', 'lapsed'])
    .optional()
    .describe('With `stale`: why the token is rejected.'),
  state: z.enum(JOB_STATES).optional().describe('With `wrong_state`: the state that the job is in.'),
}

/** The error of one element of a batch. */
export const itemErrorSchema = z
  .object(errorMembers)
  .meta({ id: 'ItemError', description: 'Why one element was rejected. It stopped no other element.' })

/** The body of an error. */
export const problemSchema = z
  .object({
    type: z.string().describe('Where this deployment explains the error.'),
    title: z.string().describe('The kind of error. The same at every occurrence.'),
    status: z.int(),
    requestId: z.string().describe('As in `X-Request-Id`, and in the log.'),
    ...errorMembers,
  })
  .meta({ id: 'Problem', description: 'An error as in RFC 9457.' })

/** Epoch ms as the API writes instants. */
export const iso = (ms: number): string => new Date(ms).toISOString()

/** The same for stored values, which other clients write too: undefined if RFC 3339 cannot express the instant. */
export const optionalIso = (ms: number | undefined): string | undefined => {
  const date = new Date(ms ?? Number.NaN)
  if (Number.isNaN(date.getTime())) return undefined
  const text = date.toISOString()
  // Years beyond four digits have a sign.
  return /^\d/.test(text) ? text : undefined
}
