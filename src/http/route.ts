/**
 * A route: its method and path, its scope, its request and responses, and its handler. The app dispatches by it, and
 * the OpenAPI document is generated from it.
 */
import type * as z from 'zod'
import type { Settings } from '../env.ts'
import type { ErrorCode } from '../errors.ts'
import type { JobId } from '../protocol/ids.ts'
import type { Scope } from '../protocol/tokens.ts'
import type { Database, Queue } from '../queue/database.ts'
import type { Wake } from '../wake/wake.ts'
import type { Grant } from './auth.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

export type Answer = {
  readonly status: number
  /** A value, a `JsonText` that contains stored payloads as they are, or nothing. */
  readonly body?: unknown
  /** Sends the body as text of this type instead of JSON. */
  readonly contentType?: string
}

/** The arguments of a handler, all of them validated. */
export type Call<Body = unknown, Query = unknown, OfQueue = Queue | undefined, OfJob = JobId | undefined> = {
  readonly request: Request
  readonly settings: Settings
  /** The first command runs the version check: a request that is rejected earlier sends nothing to Redis. */
  readonly database: Database
  /** How waiting claims learn of jobs. */
  readonly wake: Wake
  readonly grant: Grant
  readonly body: Body
  readonly query: Query
  /** The queue of the path. */
  readonly queue: OfQueue
  /** The job of the path. */
  readonly id: OfJob
}

export type ResponseContract = {
  readonly description: string
  /** The schema of the body, if there is one. */
  readonly schema?: z.ZodType
  /** Default: `application/json`. */
  readonly contentType?: string
}

export type Route = {
  readonly method: Method
  /** As OpenAPI writes it: `/v1/queues/{queue}/jobs/{id}`. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  /** Markdown. */
  readonly description: string
  readonly scope: Scope
  readonly body?: z.ZodType | undefined
  readonly query?: z.ZodType | undefined
  /** The headers that only this route reads. */
  readonly headers?: Readonly<Record<string, z.ZodType>>
  /** The responses of success. */
  readonly responses: Readonly<Record<number, ResponseContract>>
  /** The errors that not every route has. */
  readonly errors: readonly ErrorCode[]
  readonly handle: (call: Call) => Promise<Answer>
}

/** A part of a call that exists if the path names it. */
type Named<Path extends string, Segment extends string, Part> = Path extends `${string}{${Segment}}${string}`
  ? Part
  : undefined

type Input<
  Path extends string,
  Body extends z.ZodType | undefined,
  Query extends z.ZodType | undefined,
> = Omit<Route, 'path' | 'body' | 'query' | 'errors' | 'handle'> & {
  readonly path: Path
  readonly body?: Body
  readonly query?: Query
  readonly errors?: Route['errors']
  readonly handle: (
    call: Call<
      Body extends z.ZodType ? z.output<Body> : undefined,
      Query extends z.ZodType ? z.output<Query> : Record<string, never>,
      Named<Path, 'queue', Queue>,
      Named<Path, 'id', JobId>
    >,
  ) => Promise<Answer>
}

/** Declares a route; the handler's types follow from its path and its schemas. */
export function route<
  Path extends string,
  Body extends z.ZodType | undefined,
  Query extends z.ZodType | undefined,
>(input: Input<Path, Body, Query>): Route {
  // The dispatcher validates each call by the path and the schemas of its route.
  return { errors: [], ...input, handle: (call) => input.handle(call as Parameters<typeof input.handle>[0]) }
}

/** The responses of a route that has one kind of success. */
export const success = (description: string, schema: z.ZodType): Route['responses'] => ({
  200: { description, schema },
})

export const ok = (body: unknown): Answer => ({ status: 200, body })
