/** Reads configuration by schemas: a value, or a sentence that says why it cannot be used and never repeats it. */
import * as z from 'zod'

export type Reading<T> = { readonly value: T } | { readonly problem: string }

export const MISSING = { problem: 'is missing' }

/** A blank variable counts as unset. */
export function isBlank(value: unknown): boolean {
  return value === undefined || value === null || value === ''
}

/** A schema of text that keeps a rule. */
export function text(isRight: (text: string) => boolean, rule: string) {
  return z.custom<string>((value) => typeof value === 'string' && isRight(value), rule)
}

/** Validates a value by a schema whose every message is ours. */
export function read<T>(schema: z.ZodType<T>, value: unknown): Reading<T> {
  const result = schema.safeParse(value)
  if (result.success) return { value: result.data }
  const [issue] = result.error.issues
  const [index] = issue?.path ?? []
  const message = issue?.message ?? 'cannot be used'
  return { problem: typeof index === 'number' ? `entry ${index + 1} ${message}` : message }
}
