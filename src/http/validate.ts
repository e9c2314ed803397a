/** Validation against a schema: what does not fit is a problem that names each field. */
import type * as z from 'zod'
import { type FieldError, ProblemError } from './problem.ts'

/** The issues of a validation as field errors. Messages say what was expected, never what was sent. */
export function fieldErrors(error: z.ZodError, prefix: readonly PropertyKey[] = []): FieldError[] {
  return error.issues.flatMap((issue) => {
    const path = [...prefix, ...issue.path]
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => ({
        path: [...path, key].join('.'),
        message: 'is not a field of this request',
      }))
    return [{ path: path.map(String).join('.'), message: issue.message }]
  })
}

/** Validates a value, or throws `invalid` with its fields named. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new ProblemError('invalid', `The ${what} is malformed.`, { errors: fieldErrors(result.error) })
}
