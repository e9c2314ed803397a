/**
 * Leads a request to the handler of its route, through all checks in the order that the API promises: token, method,
 * queue name, scope, id, query, body. Only a handler sends commands to Redis, and the first one runs the version check.
 */
import type * as z from 'zod'
import type { Settings } from '../env.ts'
import { classifyJobId, isJobId, type JobId } from '../protocol/ids.ts'
import { JsonText } from '../protocol/json-text.ts'
import { isQueueName } from '../protocol/keys.ts'
import type { OpenDatabase } from '../queue/database.ts'
import type { Wake } from '../wake/wake.ts'
import { allows, authenticate, type Grant } from './auth.ts'
import { readBody } from './body.ts'
import { ProblemError } from './problem.ts'
import { refused } from './refusal.ts'
import type { Answer, Method, Route } from './route.ts'
import { noFields, plainName, validate } from './validate.ts'

/** What every request needs. */
export type Backing = { readonly settings: Settings; readonly database: OpenDatabase; readonly wake: Wake }

/** Serves all methods of one path. `parameters` are the decoded segments of the path. */
export function createDispatcher(routes: readonly Route[]) {
  const byMethod = new Map<string, Route>(routes.map((route) => [route.method, route]))
  const methods = routes.map(({ method }) => method)
  return async (
    request: Request,
    parameters: Readonly<Record<string, string | undefined>>,
    backing: Backing,
  ): Promise<Response> => {
    const { settings, wake } = backing
    const grant = await authenticate(request.headers.get('Authorization'), settings.tokens)
    if (grant === undefined) throw new ProblemError('unauthorized', 'A valid bearer token is required.')
    const route = byMethod.get(request.method === 'HEAD' ? 'GET' : request.method)
    if (route === undefined) throw methodNotAllowed(methods)
    const name = parameters['queue']
    if (name !== undefined) checkQueueName(name)
    checkScope(grant, route, name)
    const id = parameters['id'] === undefined ? undefined : checkJobId(parameters['id'])
    const query = validate(route.query ?? noFields, readQuery(request.url), 'query')
    const body = route.body && (await readValidBody(route.body, request, settings))
    const database = backing.database.fenced
    const queue = name === undefined ? undefined : database.queue(name)
    return respond(await route.handle({ request, settings, database, wake, grant, body, query, queue, id }))
  }
}

/** A missing body means `{}`. */
async function readValidBody(schema: z.ZodType, request: Request, { limits }: Settings): Promise<unknown> {
  const body = await readBody(request, limits.maxBodyBytes)
  return validate(schema, body === undefined ? {} : body, 'body')
}

export function methodNotAllowed(methods: readonly Method[]): ProblemError {
  const allow = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return new ProblemError('method_not_allowed', `This route allows ${allow.join(', ')}.`, { allow })
}

function checkQueueName(name: string): void {
  if (isQueueName(name)) return
  throw new ProblemError(
    'invalid',
    "Invalid queue name: use letters, digits, '.', '_' or '-', at most 128 characters.",
    { errors: [{ path: 'queue', message: 'must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}, and not be emq' }] },
  )
}

function checkScope(grant: Grant, route: Route, queue: string | undefined): void {
  if (!allows(grant, route.scope))
    throw new ProblemError('forbidden', `The token lacks the scope ${route.scope}.`)
  if (queue !== undefined && !allows(grant, route.scope, queue))
    throw new ProblemError('forbidden', 'The token does not allow this queue.')
}

function checkJobId(id: string): JobId {
  if (isJobId(id)) return id
  if (classifyJobId(id) === 'other-kind') throw refused({ refused: 'wrong_kind' })
  throw new ProblemError('invalid', 'Invalid job id: it must be JOB and 11 base62 digits.', {
    errors: [{ path: 'id', message: 'must be JOB and 11 base62 digits' }],
  })
}

/** The query parameters. None may be given twice. */
function readQuery(url: string): Record<string, string> {
  const query: Record<string, string> = {}
  if (!url.includes('?')) return query
  for (const [name, value] of new URL(url).searchParams) {
    if (Object.hasOwn(query, name))
      throw new ProblemError('invalid', 'The query is malformed.', {
        errors: [{ path: plainName(name), message: 'must be given once' }],
      })
    // An assignment to `__proto__` would set the prototype.
    Object.defineProperty(query, name, { value, enumerable: true })
  }
  return query
}

function respond({ status, body, contentType = 'application/json' }: Answer): Response {
  if (body === undefined) return new Response(null, { status })
  const isText = contentType !== 'application/json'
  const text = body instanceof JsonText ? body.text : isText ? String(body) : JSON.stringify(body)
  return new Response(text, { status, headers: { 'Content-Type': contentType } })
}
