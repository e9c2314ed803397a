/**
 * Schemas that several routes share. They validate, and the OpenAPI document is generated from the very same ones.
 * Numbers are JSON integers in range and nothing is coerced; instants become epoch ms.
 */
import * as z from 'zod'
import { classifyJobId } from '../protocol/ids.ts'
import { isClaimId, isIdempotencyKey } from '../protocol/keys.ts'
import {
  MAX_DELAY_MS,
  MAX_ERROR_CHARS,
  MAX_LEASE_MS,
  MAX_MAX_ATTEMPTS,
  MIN_LEASE_MS,
} from '../protocol/limits.ts'
import { ProblemError } from './problem.ts'

/** An integer from `min` to `max`, both included. */
export const integer = (min: number, max: number) => z.int().min(min).max(max)

/** The last instant that a date can tell, in epoch ms. */
const MAX_INSTANT_MS = 8.64e15

/** RFC 3339 with a zone, its letters in either case, or integer epoch ms; becomes epoch ms. */
export const instant = z
  .union(
    [
      z
        .string()
        .toUpperCase()
        .pipe(z.iso.datetime({ offset: true }).transform(Date.parse)),
      integer(0, MAX_INSTANT_MS),
    ],
    { error: 'must be RFC 3339 with a zone, or integer epoch ms' },
  )
  .meta({
    description: 'RFC 3339 with a zone, or integer epoch ms',
    override: {
      anyOf: [
        { type: 'string', format: 'date-time' },
        { type: 'integer', minimum: 0 },
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
  .meta({ override: { type: 'string', pattern: '^JOB[0-9A-Za-z]{11}$' } })

export const delayMs = integer(0, MAX_DELAY_MS).meta({ description: 'Milliseconds from now' })
export const leaseMs = integer(MIN_LEASE_MS, MAX_LEASE_MS).meta({ description: 'Lease in ms' })
export const maxAttempts = integer(0, MAX_MAX_ATTEMPTS).meta({
  description: 'Retry budget; 0 means no limit',
})

/** The fencing token: the integer that the claim gave. */
export const token = z
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER)
  .meta({ description: 'Fencing token of the claim' })

/** Cut at the limit, not refused; by whole characters, so that no half of a surrogate pair stays behind. */
export const errorText = z
  .string()
  .transform((text) => {
    const cut = text.slice(0, MAX_ERROR_CHARS)
    return cut.isWellFormed() ? cut : cut.slice(0, -1)
  })
  .meta({ description: `Error text, kept up to ${MAX_ERROR_CHARS} characters`, override: { type: 'string' } })

export const idempotencyKey = z
  .string()
  .refine(isIdempotencyKey, 'must match [A-Za-z0-9._:-]{1,255}')
  .meta({ override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,255}$' } })

export const claimId = z
  .string()
  .refine(isClaimId, 'must match [A-Za-z0-9._:-]{1,128}')
  .meta({ override: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' } })

/** How payloads come back: as the JSON they are, or all of them as text. */
export const as = z.enum(['json', 'text'])

/** A query parameter of decimal digits in range. */
export const digits = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be decimal digits')
    .transform(Number)
    .pipe(integer(min, max))
    .meta({ override: { type: 'integer', minimum: min, maximum: max } })

/** A query parameter that is an instant: epoch ms in decimal digits, or RFC 3339. */
export const instantParameter = z
  .string()
  .transform((text) => (/^\d{1,16}$/.test(text) ? Number(text) : text))
  .pipe(instant)
  .meta({ override: { type: 'string', description: 'RFC 3339 with a zone, or epoch ms' } })

/** Milliseconds since the epoch as the API writes instants. */
export const iso = (ms: number): string => new Date(ms).toISOString()
