/**
 * Checks payloads against a Standard Schema (zod, valibot, arktype, ...), at both ends of a queue.
 *
 * An enqueued payload is checked and sent unchanged. A claimed payload is checked, and the handler gets the value that
 * the schema returned.
 */
import { EchoMQError, type FieldError } from './errors.ts'

/** The part of Standard Schema, version 1, that the client uses. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

type SchemaIssue = {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/**
 * The value that the schema returns for the payload; without a schema, the payload itself. An error that the schema
 * throws is passed on.
 *
 * @throws {EchoMQError} `invalid` when the payload does not match. The text names only the paths, because the
 * schema's messages may quote the payload; the messages are in `errors`.
 */
export async function parsePayload<Output>(
  schema: StandardSchema<unknown, Output> | undefined,
  payload: unknown,
): Promise<Output> {
  if (!schema) return payload as Output
  const result = await schema['~standard'].validate(payload)
  if (!result.issues) return result.value
  const errors = result.issues.map(
    ({ message, path = [] }): FieldError => ({
      path: path.map((step) => String(Object(step).key ?? step)).join('.'),
      message,
    }),
  )
  throw new EchoMQError('invalid', `payload must match its schema: ${errors.map(({ path }) => path)}`, {
    errors,
  })
}
