/**
 * A route: its method and path, who may call it, what it takes and gives, and the handler. One value of this type is
 * everything there is to know of a route: the app dispatches by it, and the OpenAPI document is written from it.
 */
import type * as z from 'zod'
import type { Settings } from '../env.ts'
import type { ErrorCode } from '../errors.ts'
import type { JobId } from '../protocol/ids.ts'
import type { Scope } from '../protocol/tokens.ts'
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
export type Call<Body = unknown, Query = unknown, OfQueue = Queue | undefined, OfJob = JobId | undefined> = {
  readonly request: Request
  readonly settings: Settings
  /** Behind its fence: the first command passes it, so a request that is refused before asks nothing. */
  readonly database: Database
  readonly grant: Grant
  readonly body: Body
  /** The body as it was read, with the exact text of the payloads; undefined when there was none. */
  readonly json: JsonBody | undefined
  readonly query: Query
  /** The queue of the path. */
  readonly queue: OfQueue
  /** The job of the path. */
  readonly id: OfJob
}

export type ResponseContract = {
  readonly description: string
  /** Of the body; absent when there is none. */
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
  /** Headers that it reads, beside those that every route reads. */
  readonly headers?: Readonly<Record<string, z.ZodType>>
  /** The body in full, where the handler reads its parts one by one so that a bad one stops no other. */
  readonly wholeBody?: z.ZodType
  /** What it answers when all is well. */
  readonly responses: Readonly<Record<number, ResponseContract>>
  /** The errors of its own, beside those that every route has. */
  readonly errors: readonly ErrorCode[]
  readonly handle: (call: Call) => Promise<Answer>
}

/** A part of a call that is there when the path names it. */
type Named<Path extends string, Segment extends string, Part> = Path extends `${string}{${Segment}}${string}`
  ? Part
  : undefined

type Input<
  Path extends string,
  Body extends z.ZodType | undefined,
  Query extends z.ZodType | undefined,
> = Omit<Route, 'path' | 'body' | 'query' | 'handle'> & {
  readonly path: Path
  readonly body?: Body
  readonly query?: Query
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
  // The dispatcher hands a handler exactly what its own path and schemas gave.
  return { ...input, handle: (call) => input.handle(call as Parameters<typeof input.handle>[0]) }
}

export const ok = (body: unknown): Answer => ({ status: 200, body })
