/**
 * A route: its method and path, who may call it, what it takes and gives, and the handler. One value of this type is
 * everything there is to know of a route: the app dispatches by it, and the OpenAPI document is written from it.
 */
import type * as z from 'zod'
import type { Scope, UsableSettings } from '../env.ts'
import type { ErrorCode } from '../errors.ts'
import type { JobId } from '../protocol/ids.ts'
import type { Database, Queue } from '../queue/database.ts'
import type { Grant } from './auth.ts'
import type { JsonBody } from './body.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** An answer whose body is JSON text already, so that stored payloads pass through as they are. */
export class JsonText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type Answer = {
  readonly status: number
  /** A value, JSON text, or nothing. */
  readonly body?: unknown
  /** Sends the body as text of this type instead of JSON. */
  readonly contentType?: string
}

/** What a handler gets: everything validated. */
export type Call<Body, Query> = {
  readonly request: Request
  readonly settings: UsableSettings
  readonly database: Database
  readonly grant: Grant
  readonly body: Body
  /** The body as it was read, with the exact text of the payloads; undefined when there was none. */
  readonly json: JsonBody | undefined
  readonly query: Query
  /** The queue of the path. Only where the path names one. */
  readonly queue: Queue
  /** The job of the path. Only where the path names one. */
  readonly id: JobId
}

export type Example = { readonly summary: string; readonly request?: unknown; readonly response?: unknown }

export type Route = {
  readonly method: Method
  /** As OpenAPI writes it: `/v1/queues/{queue}/jobs/{id}`. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly scope: Scope
  readonly body?: z.ZodType | undefined
  readonly query?: z.ZodType | undefined
  /** What it answers when all is well. */
  readonly responses: Readonly<Record<number, { readonly description: string; readonly schema?: z.ZodType }>>
  /** The errors of its own, beside those that every route has. */
  readonly errors: readonly ErrorCode[]
  readonly examples?: readonly Example[]
  readonly handle: (call: Call<unknown, unknown>) => Promise<Answer>
}

type Input<Body extends z.ZodType | undefined, Query extends z.ZodType | undefined> = Omit<
  Route,
  'body' | 'query' | 'handle'
> & {
  readonly body?: Body
  readonly query?: Query
  readonly handle: (
    call: Call<
      Body extends z.ZodType ? z.output<Body> : undefined,
      Query extends z.ZodType ? z.output<Query> : Record<string, never>
    >,
  ) => Promise<Answer>
}

/** Declares a route; the handler's types follow from its schemas. */
export function route<Body extends z.ZodType | undefined, Query extends z.ZodType | undefined>(
  input: Input<Body, Query>,
): Route {
  // The dispatcher hands the handler exactly what its own schemas gave.
  return input as Route
}

export const ok = (body: unknown): Answer => ({ status: 200, body })
