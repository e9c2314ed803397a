/** Validates against schemas. A value that does not fit is a problem that names each field. */
import * as z from 'zod'
import { FlawedElement } from '../protocol/json-text.ts'
import { flawProblem } from './body.ts'
import { type FieldError, type Problem, ProblemError } from './problem.ts'

/** Field errors in one response: a caller that sends a hundred thousand unknown fields need not read all of them. */
const MAX_ERRORS = 20

/** An object, or a query, without any field. */
export const noFields = z.strictObject({})

/** A name that the caller chose is only repeated if it is a plain one. */
export const plainName = (name: string): string => (/^\w{1,64}$/.test(name) ? name : '')

type Issue = z.core.$ZodIssue

/** How badly a form fits: its unknown fields, and its fields of a wrong type. */
const misfit = (issues: readonly Issue[]): number =>
  issues
    .map((issue) =>
      issue.code === 'unrecognized_keys' ? issue.keys.length : Number(issue.code === 'invalid_type'),
    )
    .reduce((sum, count) => sum + count, 0)

/** The issues of a body. If it can have several forms: the issues of the form that fits best. */
function issuesOf(issues: readonly Issue[]): readonly Issue[] {
  const [first] = issues
  if (first?.code !== 'invalid_union' || first.path.length > 0 || first.errors.length === 0) return issues
  return first.errors.reduce((best, form) => (misfit(form) < misfit(best) ? form : best))
}

/** The issues of a validation as field errors. Messages say what was expected, never what was sent. */
function fieldErrors({ issues }: { readonly issues: readonly Issue[] }): FieldError[] {
  const errors = issuesOf(issues).flatMap((issue) =>
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

/** One element of a batch: its value, or why it is rejected and what was sent. */
export type Element<T> = { readonly value: T } | { readonly problem: Problem; readonly sent: unknown }

/** The schema of a batch's element. A bad element becomes a problem of its own: it stops no other element. */
export const element = <Schema extends z.ZodType>(schema: Schema, what: string) =>
  schema
    .transform((value): Element<z.output<Schema>> => ({ value }))
    // No schema accepts a `FlawedElement`.
    .catch(({ error, input: sent }) => ({
      sent,
      problem:
        sent instanceof FlawedElement
          ? flawProblem(sent.flaw).problem
          : { code: 'invalid', detail: `The ${what} is malformed.`, errors: fieldErrors(error) },
    }))
