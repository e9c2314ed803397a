/**
 * Schemas that several routes share. They validate, and the OpenAPI document is generated from the very same ones.
 * Numbers are JSON integers in range and nothing is coerced; instants become epoch ms.
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

/** RFC 3339 with a zone, its letters in either case, or integer epoch ms, from 1970 to 9999; becomes epoch ms. */
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

/** Refuses an instant further ahead than a job can be scheduled: of all limits the one that needs a clock. */
export function refuseTooFarAhead(runAt: number | undefined, nowMs: number): void {
  if (runAt !== undefined && runAt - nowMs > MAX_DELAY_MS)
    throw new ProblemError('invalid', 'The time is too far ahead.', {
      errors: [{ path: 'runAt', message: 'is more than 366 days ahead' }],
    })
}

/** The id of a job in a body. One that is well-formed and of another kind passes: it has an error of its own. */
export const jobId = z
  .string()
  .refine((id) => classifyJobId(id) !== 'ill-formed', 'must be JOB and 11 base62 digits')
  .meta({
    id: 'JobId',
    description:
      'The id of a job: `JOB` and 11 base62 digits. Byte order is the order in which ids were made.',
    override: { type: 'string', pattern: '^JOB[0-9A-Za-z]{11}$' },
  })

export const delayMs = integer(0, MAX_DELAY_MS).meta({
  description: "Milliseconds from now, by the server's clock.",
})
export const leaseMs = integer(MIN_LEASE_MS, MAX_LEASE_MS).meta({
  description: "Length of the lease in ms, from the server's now.",
})
export const maxAttempts = integer(0, MAX_MAX_ATTEMPTS).meta({
  description: 'Retry budget: the attempt that makes it full is the last. 0: no limit.',
})

/** The fencing token: the integer that the claim gave. */
export const token = z
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER)
  .meta({ description: 'The fencing token that the claim gave.' })

/** For the document: exactly one of these members. */
export const exactlyOne = (...names: string[]) => ({
  oneOf: names.map((name) => ({ required: [name], properties: { [name]: {} } })),
})

/** Cut at the limit, not refused; by whole characters, so that no half of a surrogate pair stays behind. */
export const errorText = z
  .string()
  .transform((text) => {
    const cut = text.slice(0, MAX_ERROR_CHARS)
    return cut.isWellFormed() ? cut : cut.slice(0, -1)
  })
  .meta({
    description: `What went wrong, as text; cut at ${MAX_ERROR_CHARS} characters, not refused.`,
    override: { type: 'string' },
  })

export const idempotencyKey = z
  .string()
  .refine(isIdempotencyKey, 'must match [A-Za-z0-9._:-]{1,255}')
  .meta({
    description:
      'Within its window a further job with this key is a `duplicate`, whatever became of the first one.',
    override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,255}$' },
  })

export const claimId = z
  .string()
  .refine(isClaimId, 'must match [A-Za-z0-9._:-]{1,128}')
  .meta({
    description:
      'Names the claim, so that it can be repeated when its answer was lost: the repeat gives those of its jobs that are still live, with the same tokens, and is a new claim when none is. An empty claim is not remembered.',
    override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  })

/** How payloads come back: as the JSON they are, or all of them as text. */
export const as = z.enum(['json', 'text']).meta({
  description:
    'How payloads come. `json`: as `payload` when they are JSON, else as `text`. `text`: all that is UTF-8 as `text`, also `123` and `null`. What is not UTF-8 comes as `base64` either way.',
  default: 'json',
})

/** A query parameter of decimal digits in range. The handler says `otherwise` when it is not given. */
export const digits = (min: number, max: number, otherwise: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be decimal digits')
    .transform(Number)
    .pipe(integer(min, max))
    .meta({
      override: { type: 'integer', pattern: undefined, minimum: min, maximum: max, default: otherwise },
    })

/** A query parameter that is an instant: epoch ms in decimal digits, or RFC 3339. */
export const instantParameter = z
  .string()
  .transform((text) => (/^\d{1,16}$/.test(text) ? Number(text) : text))
  .pipe(instant)
  .meta({ override: { type: 'string' } })

/** An id in a cursor. One that another client made up may hold anything: it is marked, and escaped. */
export const idToCursor = (id: string): string => (isJobId(id) ? id : `~${encodeURIComponent(id)}`)

/** The id of a cursor; undefined when the text is none, or the id was not UTF-8 and cannot be told. */
export function idFromCursor(text: string): string | undefined {
  if (isJobId(text)) return text
  try {
    const id = decodeURIComponent(text.slice(1))
    return text.startsWith('~') && !id.includes('\ufffd') ? id : undefined
  } catch {
    return undefined
  }
}

/** The payload of a job in an answer: one of the three. */
export const payloadMembers = {
  payload: z.unknown().optional().meta({ description: 'The payload, where it is JSON.' }),
  text: z.string().optional().meta({ description: 'The payload as text.' }),
  base64: z
    .string()
    .optional()
    .meta({ description: 'The payload, where it is not even text: another client wrote it.' }),
}

const ERROR_CODES = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]

/** What an error tells in any place: as a problem of its own, or as the result of one item of many. */
const errorMembers = {
  code: z.enum(ERROR_CODES).meta({ description: 'Decide by this.' }),
  detail: z.string().meta({ description: 'One sentence for people.' }),
  errors: z
    .array(z.object({ path: z.string(), message: z.string() }))
    .optional()
    .meta({
      description:
        'With `invalid`: the fields, as `backoff.baseMs`, and what each must be. In the error of one item of many the paths begin inside of the item.',
    }),
  reason: z
    .enum(['superseded', 'released', 'lapsed'])
    .optional()
    .meta({ description: 'With `stale`: why the token is not the live one.' }),
  state: z
    .enum(JOB_STATES)
    .optional()
    .meta({ description: 'With `wrong_state`: the state that the job is in.' }),
}

/** The error of one item of many. */
export const itemErrorSchema = z
  .object(errorMembers)
  .meta({ id: 'ItemError', description: 'Why one item was refused. It stopped no other.' })

/** The body of an error. */
export const problemSchema = z
  .object({
    type: z
      .string()
      .meta({ description: 'Where the error is explained, as a reference to this deployment.' }),
    title: z.string().meta({ description: 'The kind of error; the same at every occurrence.' }),
    status: z.int(),
    requestId: z.string().meta({ description: 'As in `X-Request-Id`; the log has it.' }),
    ...errorMembers,
  })
  .meta({ id: 'Problem', description: 'An error, as RFC 9457 has it.' })

/** Milliseconds since the epoch as the API writes instants. */
export const iso = (ms: number): string => new Date(ms).toISOString()

/** The same of what is stored, which is not always ours: what RFC 3339 cannot tell is left out. */
export const optionalIso = (ms: number | undefined): string | undefined => {
  const date = new Date(ms ?? Number.NaN)
  if (Number.isNaN(date.getTime())) return undefined
  const text = date.toISOString()
  // Years beyond four digits have a sign.
  return /^\d/.test(text) ? text : undefined
}
