/** Validation against a schema: what does not fit is a problem that names each field. */
import * as z from 'zod'
import { type FieldError, ProblemError } from './problem.ts'

/** Field errors of one answer: whoever sends a hundred thousand unknown fields need not read of each. */
const MAX_ERRORS = 20

/** An object, or a query, without any field. */
export const noFields = z.strictObject({})

/** A name that the caller made up is repeated to it only when it is a plain one. */
export const plainName = (name: string): string => (/^\w{1,64}$/.test(name) ? name : '')

/** The issues of a validation as field errors. Messages say what was expected, never what was sent. */
export function fieldErrors(error: z.ZodError): FieldError[] {
  const errors = error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.slice(0, MAX_ERRORS).map((key) => ({
          path: [...issue.path, plainName(key)].filter((part) => part !== '').join('.'),
          message: 'is not a field of this request',
        }))
      : [{ path: issue.path.join('.'), message: issue.message }],
  )
  return errors.slice(0, MAX_ERRORS)
}

/** Validates a value, or throws `invalid` with its fields named. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new ProblemError('invalid', `The ${what} is malformed.`, { errors: fieldErrors(result.error) })
}
