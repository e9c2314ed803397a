/**
 * All routes of the HTTP API as a Hono app. It runs wherever Hono runs, and can be mounted in another Hono app.
 *
 * Every response has a request id and `Cache-Control: no-store`. Only allowed origins get CORS headers. Every error is
 * a problem.
 */
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { createReference } from '#reference'
import { type Bindings, createDeployments, type Deployment, type DeploymentOptions } from './deployment.ts'
import { auditRoutes } from './http/audit.ts'
import { consumeRoutes } from './http/consume.ts'
import { type Backing, createDispatcher, methodNotAllowed } from './http/dispatch.ts'
import { createReadiness } from './http/health.ts'
import { observeRoutes } from './http/observe.ts'
import { operateRoutes } from './http/operate.ts'
import { ProblemError, problemResponse } from './http/problem.ts'
import { produceRoutes } from './http/produce.ts'
import { requestIdOf } from './http/request-id.ts'
import type { Route } from './http/route.ts'
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
  /** The bindings, if the platform does not pass them with each request (on Node: `process.env`). */
  readonly env?: Bindings
}

type Env = { Bindings: Bindings; Variables: { requestId: string; deployment: Deployment } }

/** The headers of every response, beside its request id. */
const COMMON_HEADERS = [
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
] as const

/** An OpenAPI path (`{name}`) as a Hono path (`:name`). */
const honoPath = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** Keeps the isolate alive for work; only Workers need that, and only they have the context. */
function waitUntil(context: Context<Env>, work: Promise<unknown>): void {
  try {
    context.executionCtx.waitUntil(work)
  } catch {
    // Not in a Worker.
  }
}

function backingOf({ env, database, wake }: Deployment): Backing {
  if (env.ok && database !== undefined) return { settings: env.settings, database, wake }
  console.error(`misconfigured: ${env.ok ? 'there is no Redis' : env.problems.join('; ')}`)
  throw new ProblemError('misconfigured', 'This deployment is not configured: its log has the details.')
}

/** An error as a problem. An internal error is logged whole; the response contains nothing of it. */
function toResponse(error: unknown, requestId: string): Response {
  if (error instanceof ProblemError) return problemResponse(error.problem, requestId)
  if (error instanceof UpstreamError) {
    console.error(`${requestId} ${error.name}: ${error.message}`)
    return error.overloaded
      ? problemResponse(
          { code: 'overloaded', detail: "A limit of Redis's plan is reached: try again later." },
          requestId,
        )
      : problemResponse({ code: 'upstream', detail: `${error.message}.` }, requestId)
  }
  if (error instanceof WireVersionError)
    return problemResponse(
      {
        code: 'wire_version',
        detail: 'The database uses a wire version that this deployment does not accept.',
      },
      requestId,
    )
  console.error(`${requestId} internal error`, error)
  return problemResponse(
    { code: 'internal', detail: 'Internal error: the log of the deployment has the request id.' },
    requestId,
  )
}

/**
 * The HTTP API as a Hono app.
 *
 * @example
 * // On Node, alone or inside another app:
 * const app = new Hono()
 * app.route('/', createApp({ env: process.env }))
 */
export function createApp(options: AppOptions = {}, deploymentOf = createDeployments(options)) {
  const app = new Hono<Env>()

  const crossOrigin = cors({
    origin: (origin) => origin,
    allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    allowHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Request-Id'],
    exposeHeaders: ['X-Request-Id', 'Retry-After'],
    maxAge: 86_400,
  })
  const serve: MiddlewareHandler<Env> = async (context, next) => {
    const origin = context.req.raw.headers.get('Origin')
    if (origin === null) return next()
    const { allowedOrigins } = context.var.deployment.env.settings
    if (allowedOrigins.includes('*') || allowedOrigins.includes(origin)) return crossOrigin(context, next)
    // The preflight request of an origin that is not allowed.
    return context.req.method === 'OPTIONS' ? context.body(null, 204) : next()
  }
  // One middleware, because each costs every request a turn.
  app.use(async (context, next) => {
    context.set('requestId', requestIdOf(context.req.raw.headers))
    context.set('deployment', deploymentOf(options.env ?? context.env ?? {}))
    const response = await serve(context, next)
    if (response instanceof Response) context.res = response
    const { headers } = context.res
    headers.set('X-Request-Id', context.var.requestId)
    for (const [name, value] of COMMON_HEADERS) headers.set(name, value)
  })

  const open = (path: string, handle: (context: Context<Env>) => Promise<Response>): void => {
    app.all(path, (context) => {
      if (context.req.method !== 'GET' && context.req.method !== 'HEAD') throw methodNotAllowed(['GET'])
      return handle(context)
    })
  }
  const reference = createReference(ROUTES)
  open('/openapi.json', async (context) => {
    const document = await reference.document(context.env)
    return context.body(document, 200, { 'Content-Type': 'application/json' })
  })
  open('/docs', (context) => reference.page(context.env))
  open('/docs/:file', (context) => reference.file(context.req.param('file') ?? '', context.env))
  open('/healthz', async (context) => context.json({ status: 'ok' }))
  const readiness = createReadiness(options.now)
  open('/readyz', async (context) => {
    const { env, database } = context.var.deployment
    const checking = readiness(env, database)
    // Other callers may wait for the same report: it must arrive even if this caller hangs up.
    waitUntil(context, checking)
    const report = await checking
    return context.json(report, report.status === 'ready' ? 200 : 503)
  })

  for (const path of new Set(ROUTES.map((route) => route.path))) {
    const dispatch = createDispatcher(ROUTES.filter((route) => route.path === path))
    app.all(honoPath(path), async (context) =>
      dispatch(context.req.raw, context.req.param(), backingOf(context.var.deployment)),
    )
  }

  app.notFound((context) =>
    problemResponse({ code: 'not_found', detail: 'This route does not exist.' }, context.var.requestId),
  )
  app.onError((error, context) => toResponse(error, context.var.requestId))
  return app
}
