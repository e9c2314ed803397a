/**
 * Payloads against a Standard Schema (zod, valibot, arktype, ...), at both ends of a queue.
 *
 * What is enqueued is checked and sent as it is; what is claimed is checked and handed out as the schema made it.
 */
import { EchoMQError, type FieldError } from './errors.ts'

/** The part of Standard Schema, version 1, that is used here. */
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
 * The payload as the schema makes it; without a schema, the payload. A schema that throws is passed through.
 *
 * @throws {EchoMQError} `invalid` when it does not fit. The text names the places only, because what schemas say
 * about them may quote the payload; that is in `errors`.
 */
export const parsePayload = async <Output>(
  schema: StandardSchema<unknown, Output> | undefined,
  payload: unknown,
): Promise<Output> => {
  if (!schema) return payload as Output
  const result = await schema['~standard'].validate(payload)
  if (!result.issues) return result.value
  const errors = result.issues.map(
    ({ message, path = [] }): FieldError => ({
      path: path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.'),
      message,
    }),
  )
  throw new EchoMQError('invalid', `payload must fit its schema: ${errors.map(({ path }) => path)}`, {
    errors,
  })
}
