/**
 * The app: all routes of the HTTP API as a Hono app that runs wherever Hono runs and can be mounted in another one.
 *
 * Every request passes the same gates in the same order: route, token, method, queue name, scope, id, query, body;
 * only then is Redis asked. Every answer has a request id and is not to be stored; every error is a problem.
 */

import { type Context, Hono } from 'hono'
import { cors } from 'hono/cors'
import { createReference } from '#reference'
import { type Bindings, createDeployments, type Deployment, type DeploymentOptions } from './deployment.ts'
import type { Settings } from './env.ts'
import { auditRoutes } from './http/audit.ts'
import { allows, authenticate, type Grant } from './http/auth.ts'
import { readBody } from './http/body.ts'
import { consumeRoutes } from './http/consume.ts'
import { readiness } from './http/health.ts'
import { observeRoutes } from './http/observe.ts'
import { operateRoutes } from './http/operate.ts'
import { ProblemError, problemResponse } from './http/problem.ts'
import { produceRoutes } from './http/produce.ts'
import { requestIdOf } from './http/request-id.ts'
import { type Answer, JsonText, type Method, type Route } from './http/route.ts'
import { validate } from './http/validate.ts'
import { classifyJobId, isJobId, type JobId } from './protocol/ids.ts'
import { isQueueName } from './protocol/keys.ts'
import type { Database } from './queue/database.ts'
import { WireVersionError } from './queue/fence.ts'
import { UpstreamError } from './queue/redis.ts'

/** All routes that need a token. */
export const ROUTES: readonly Route[] = [
  ...produceRoutes,
  ...consumeRoutes,
  ...observeRoutes,
  ...operateRoutes,
  ...auditRoutes,
]

export type AppOptions = DeploymentOptions & {
  /** The bindings, where the platform does not hand them in with each request (on Node: `process.env`). */
  readonly env?: Bindings
}

type Env = { Bindings: Bindings; Variables: { requestId: string; deployment: Deployment } }

/** OpenAPI's `{name}` as Hono writes it. */
const honoPath = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** Query parameters, each given once. */
function readQuery(search: URLSearchParams): Record<string, string> {
  const query: Record<string, string> = {}
  for (const name of new Set(search.keys())) {
    const values = search.getAll(name)
    if (values.length > 1)
      throw new ProblemError('invalid', 'The query is malformed.', {
        errors: [{ path: name, message: 'must be given once' }],
      })
    Object.defineProperty(query, name, { value: values[0], enumerable: true })
  }
  return query
}

function checkQuery(route: Route, search: URLSearchParams): unknown {
  const query = readQuery(search)
  if (route.query !== undefined) return validate(route.query, query, 'query')
  const [unknown] = Object.keys(query)
  if (unknown === undefined) return {}
  throw new ProblemError('invalid', 'The query is malformed.', {
    errors: [{ path: unknown, message: 'is not a parameter of this route' }],
  })
}

function checkJobId(id: string): JobId {
  if (isJobId(id)) return id
  if (classifyJobId(id) === 'other-kind')
    throw new ProblemError('wrong_kind', 'The id is well-formed, but not of a job.')
  throw new ProblemError('invalid', 'The id in the path is no job id.', {
    errors: [{ path: 'id', message: 'must be JOB and 11 base62 digits' }],
  })
}

function usable({ env, database }: Deployment): { settings: Settings; database: Database } {
  if (env.ok && database !== undefined) return { settings: env.settings, database }
  throw new ProblemError('misconfigured', env.ok ? 'There is no Redis.' : `${env.problems.join('; ')}.`)
}

/** The database behind its fence: whatever a handler asks first, the fence is passed before. */
function fenced({ fence, port, ...database }: Database): Database {
  const send: Database['port']['send'] = async (commands) => {
    await fence.pass()
    return port.send(commands)
  }
  return { ...database, fence, port: { send } }
}

function checkScope(grant: Grant, route: Route, queue: string | undefined): void {
  if (!allows(grant, route.scope))
    throw new ProblemError('forbidden', `The token lacks the scope ${route.scope}.`)
  if (queue !== undefined && !allows(grant, route.scope, queue))
    throw new ProblemError('forbidden', 'The token is not for this queue.')
}

/** Serves one path: every method of it, in the order of refusals that the API promises. */
function dispatcher(routes: readonly Route[]): (context: Context<Env>) => Promise<Response> {
  const byMethod = new Map<string, Route>(routes.map((route) => [route.method, route]))
  return async (context) => {
    const { settings, database } = usable(context.var.deployment)
    const request = context.req.raw
    const grant = await authenticate(request.headers.get('Authorization'), settings.tokens)
    if (grant === undefined) throw new ProblemError('unauthorized', 'A valid bearer token is required.')
    const route = byMethod.get(request.method === 'HEAD' ? 'GET' : request.method)
    if (route === undefined) throw methodNotAllowed([...byMethod.keys()] as Method[])
    const parameters: Record<string, string | undefined> = context.req.param()
    const name = parameters['queue']
    if (name !== undefined && !isQueueName(name))
      throw new ProblemError('invalid', 'The queue in the path is no queue name.', {
        errors: [{ path: 'queue', message: 'must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}, and not be emq' }],
      })
    checkScope(grant, route, name)
    const id = parameters['id'] === undefined ? undefined : checkJobId(parameters['id'])
    const query = checkQuery(route, new URL(request.url).searchParams)
    const json = route.body === undefined ? undefined : await readBody(request, settings.limits.maxBodyBytes)
    const body =
      route.body === undefined
        ? undefined
        : validate(route.body, json === undefined ? {} : json.value, 'body')
    const behindFence = fenced(database)
    const queue = name === undefined ? undefined : behindFence.queue(name)
    return respond(
      await route.handle({ request, settings, database: behindFence, grant, body, json, query, queue, id }),
    )
  }
}

function methodNotAllowed(methods: readonly Method[]): ProblemError {
  const allow = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return new ProblemError('method_not_allowed', `This route takes ${allow.join(', ')}.`, { allow })
}

function respond({ status, body, contentType = 'application/json' }: Answer): Response {
  if (body === undefined) return new Response(null, { status })
  const isText = contentType !== 'application/json'
  const text = body instanceof JsonText ? body.text : isText ? String(body) : JSON.stringify(body)
  return new Response(text, { status, headers: { 'Content-Type': contentType } })
}

/** An error as a problem. What is our own fault is logged whole, without what the caller sent. */
function toResponse(error: unknown, requestId: string): Response {
  if (error instanceof ProblemError) return problemResponse(error.problem, requestId)
  if (error instanceof UpstreamError) {
    console.error(`${requestId} ${error.name}: ${error.message}`)
    return error.overloaded
      ? problemResponse({ code: 'overloaded', detail: "A limit of Redis's plan is reached." }, requestId)
      : problemResponse({ code: 'upstream', detail: `${error.message}.` }, requestId)
  }
  if (error instanceof WireVersionError)
    return problemResponse(
      { code: 'wire_version', detail: 'The database bears a wire version that is not accepted.' },
      requestId,
    )
  console.error(`${requestId} internal error`, error)
  return problemResponse({ code: 'internal', detail: 'The log has the request id.' }, requestId)
}

/**
 * The HTTP API as a Hono app.
 *
 * @example
 * // On Node, by itself or inside another app:
 * const app = new Hono()
 * app.route('/', createApp({ env: process.env }))
 */
export function createApp(options: AppOptions = {}, deploymentOf = createDeployments(options)) {
  const app = new Hono<Env>()

  app.use(async (context, next) => {
    context.set('requestId', requestIdOf(context.req.raw.headers))
    context.set('deployment', deploymentOf(options.env ?? context.env ?? {}))
    await next()
    context.res.headers.set('X-Request-Id', context.var.requestId)
    context.res.headers.set('Cache-Control', 'no-store')
  })

  const crossOrigin = cors({
    origin: (origin) => origin,
    allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    allowHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Request-Id'],
    exposeHeaders: ['X-Request-Id', 'Retry-After'],
    maxAge: 86_400,
  })
  app.use(async (context, next) => {
    const origin = context.req.header('Origin')
    if (origin === undefined) return next()
    const { allowedOrigins } = context.var.deployment.env.settings
    if (allowedOrigins.includes('*') || allowedOrigins.includes(origin)) return crossOrigin(context, next)
    // A browser asks before it sends the request: its page learns that it may not.
    return context.req.method === 'OPTIONS' ? context.body(null, 204) : next()
  })

  const open = (path: string, handle: (context: Context<Env>) => Promise<Response>): void => {
    app.all(path, (context) => {
      if (context.req.method !== 'GET' && context.req.method !== 'HEAD') throw methodNotAllowed(['GET'])
      return handle(context)
    })
  }
  const reference = createReference(ROUTES)
  open('/openapi.json', async (context) => {
    const { document } = await reference(context.env)
    return context.body(document, 200, { 'Content-Type': 'application/json' })
  })
  open('/docs', async (context) => {
    const { page } = await reference(context.env)
    return context.body(page.html, 200, page.headers)
  })
  open('/healthz', async (context) => context.json({ status: 'ok' }))
  open('/readyz', async (context) => {
    const { env, database } = context.var.deployment
    const report = await readiness(env, database)
    return context.json(report, report.status === 'ready' ? 200 : 503)
  })

  for (const path of new Set(ROUTES.map((route) => route.path)))
    app.all(honoPath(path), dispatcher(ROUTES.filter((route) => route.path === path)))

  app.notFound((context) =>
    problemResponse({ code: 'not_found', detail: 'There is no such route.' }, context.var.requestId),
  )
  app.onError((error, context) => toResponse(error, context.var.requestId))
  return app
}
