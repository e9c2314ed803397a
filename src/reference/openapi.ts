/**
 * The OpenAPI document, generated from the routes and from the schemas that validate requests. Only what no schema
 * knows is written here: the rules that all routes share, and the meaning of each error.
 */
import * as z from 'zod'
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponseObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import { ERRORS, type ErrorCode } from '../errors.ts'
import { readinessSchema } from '../http/health.ts'
import type { Route } from '../http/route.ts'
import { problemSchema } from '../http/schemas.ts'
import type { Scope } from '../protocol/tokens.ts'
import { EXAMPLE_ID, EXAMPLE_QUEUE, EXAMPLES, type Example, PROBLEM_EXAMPLES } from './examples.ts'

export type OpenApiDocument = ReturnType<typeof createDocument>

/** Paths, fields, statuses and codes are under the semantic version of the package. */
const VERSION = '0.1.0'

const INTRODUCTION = `A job queue for edge and serverless functions over plain HTTPS: leases, fencing tokens, dead letters.

**The life of a job.** \`enqueue\` creates a *pending* job. \`claim\` returns it with a lease and a fencing token: now it is
*active*. Its consumer sends that token with every move: \`complete\` deletes the job, \`retry\` makes it *scheduled* until its
backoff is over, \`fail\` makes it *dead* until an operator redrives or removes it. A consumer that does not report in time
loses the job when the lease runs out. So delivery is at least once, and only the newest token can move the job.

**Requests** need \`Authorization: Bearer <token>\`. A body is \`application/json\` and at most 5 MiB. If all of its fields are
optional, it can be omitted. Numbers are JSON integers in range. Unknown fields and parameters are rejected, so that a typo
cannot silently lose a delay. GET and HEAD change nothing.

**Responses** are JSON, except for the metrics and this reference. Instants are RFC 3339, UTC, with milliseconds.

**Errors** are problems as in RFC 9457. Decide by \`code\`; \`detail\` is for people. Checks have this order: route, token,
method, queue name, scope, id, query, body. Only then does the API send commands to Redis. After a \`503\`, a change may
have been made although its response was lost; each operation says whether it is safe to repeat.`

const TAGS = {
  produce: { name: 'Producing', description: 'Enqueue jobs.' },
  consume: { name: 'Consuming', description: 'Claim jobs and settle them.' },
  observe: {
    name: 'Observing',
    description: 'Read without changing anything. Payloads and error texts need the scope `observe:payload`.',
  },
  operate: { name: 'Operating', description: 'Run queues. The scope includes all other scopes.' },
  open: {
    name: 'Open',
    description: 'Routes that need no token. Their responses contain no secrets and no names.',
  },
} as const

const tagOf = (scope: Scope): string => TAGS[scope === 'observe:payload' ? 'observe' : scope].name

/** The meaning of each error for the caller, and the way out. */
const MEANINGS: Readonly<Record<ErrorCode, string>> = {
  invalid: 'The request is malformed. `errors` names the fields and says what each must be.',
  unauthorized: 'Send a valid token: `Authorization: Bearer <token>`.',
  forbidden: 'The token lacks the scope or the queue, or may not see payloads.',
  not_found: 'The route, job or queue does not exist.',
  method_not_allowed: 'The route does not allow this method. `Allow` lists the allowed methods.',
  stale:
    'The token is not the live token, and nothing changed. The `reason` is `superseded` (the job was claimed again), `released` (the holder gave the job back before, or the job was redriven) or `lapsed` (the lease ran out and the job was taken back). Stop working on the job.',
  wrong_state: 'The job is not in the state that this move needs. `state` names its state.',
  locked: 'A consumer owns the job under a live lease. Try again when the lease has ended.',
  gone: 'The job does not exist: it was completed, was removed, or never existed. After a repeated `complete`, this means that the job is done.',
  internal: 'A fault of the API itself. The log of the deployment has the request id.',
  too_large: 'The body or a payload is over the limit.',
  unsupported_media_type: 'The body is not `application/json`.',
  wrong_kind: 'The id names another kind of entity: a job id starts with `JOB`.',
  overloaded:
    "The queue contains as many pending jobs as it may (`maxPending`), or a limit of Redis's plan is reached. Try again after `Retry-After`.",
  upstream:
    'Redis did not reply, or replied with an error. The change may have been made. If the operation is safe to repeat, repeat it after `Retry-After`.',
  misconfigured: 'The URL or token of Redis, or the API tokens of the deployment, are missing or unusable.',
  wire_version: 'The database uses a wire version that this deployment does not accept. Nothing changed.',
}

/** The errors of all routes that need a token. */
const ALWAYS: readonly ErrorCode[] = [
  'invalid',
  'unauthorized',
  'forbidden',
  'method_not_allowed',
  'overloaded',
  'internal',
  'upstream',
  'misconfigured',
  'wire_version',
]
const WITH_BODY: readonly ErrorCode[] = ['too_large', 'unsupported_media_type']
const OPEN: readonly ErrorCode[] = ['method_not_allowed', 'internal']

const PARAMETERS = {
  queue: {
    name: 'queue',
    in: 'path',
    required: true,
    description: 'The name of the queue. A queue exists as soon as it has a job.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$', not: { const: 'emq' } },
    example: EXAMPLE_QUEUE,
  },
  id: {
    name: 'id',
    in: 'path',
    required: true,
    description: 'The id of the job.',
    schema: { $ref: '#/components/schemas/JobId' },
    example: EXAMPLE_ID,
  },
  requestId: {
    name: 'X-Request-Id',
    in: 'header',
    description: 'An id for this request, repeated in the response and in the log. Default: a new id.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
} as const

const HEADERS = {
  'X-Request-Id': { required: true, description: 'The id of the request.', schema: { type: 'string' } },
  'Cache-Control': {
    required: true,
    description: 'Responses must not be stored.',
    schema: { const: 'no-store' },
  },
  'WWW-Authenticate': { required: true, description: 'How to authenticate.', schema: { const: 'Bearer' } },
  Allow: { required: true, description: 'The allowed methods.', schema: { type: 'string' } },
  'Retry-After': {
    description: 'Seconds until the caller should try again.',
    schema: { type: 'integer', minimum: 1 },
  },
} as const

/** The extra headers of errors. */
const HEADER_OF: Partial<Record<ErrorCode, keyof typeof HEADERS>> = {
  unauthorized: 'WWW-Authenticate',
  method_not_allowed: 'Allow',
  overloaded: 'Retry-After',
  upstream: 'Retry-After',
}

const parameter = (name: keyof typeof PARAMETERS) => ({ $ref: `#/components/parameters/${name}` })

const headers = (...names: (keyof typeof HEADERS)[]) =>
  Object.fromEntries(
    ['X-Request-Id', 'Cache-Control', ...names].map((name) => [
      name,
      { $ref: `#/components/headers/${name}` },
    ]),
  )

/** One part of the examples of an operation, by the names of the examples. */
function shown(
  examples: Readonly<Record<string, Example>>,
  part: (example: Example) => unknown,
): { examples?: Record<string, { summary: string; value: unknown }> } {
  const parts = Object.entries(examples).flatMap(([name, example]) => {
    const value = part(example)
    return value === undefined ? [] : [[name, { summary: example.summary, value }] as const]
  })
  return parts.length === 0 ? {} : { examples: Object.fromEntries(parts) }
}

/** The response to the errors that share a status. */
function problemResponse(codes: readonly ErrorCode[]): ZodOpenApiResponseObject {
  const examples = codes.map((code) => {
    const { status, title } = ERRORS[code]
    const requestId = '9f1c6a52-0d5e-4b8e-9a55-2f6c1d3b7e40'
    const value = { type: `/docs#error-${code}`, title, status, code, requestId, ...PROBLEM_EXAMPLES[code] }
    return [code, { summary: title, value }] as const
  })
  const [first = 'internal'] = codes
  return {
    description: codes.map((code) => `\`${code}\`: ${MEANINGS[code]}`).join('\n\n'),
    headers: headers(...new Set(codes.flatMap((code) => HEADER_OF[code] ?? []))),
    content: {
      'application/problem+json': {
        schema: {
          allOf: [
            { $ref: '#/components/schemas/Problem' },
            {
              type: 'object',
              properties: {
                status: { const: ERRORS[first].status },
                code: { type: 'string', enum: [...codes] },
              },
            },
          ],
        },
        examples: Object.fromEntries(examples),
      },
    },
  }
}

const groupName = (codes: readonly ErrorCode[]): string => codes.join('-')

/** Errors by their status. */
function grouped(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const groups = new Map<number, ErrorCode[]>()
  for (const code of new Set(codes)) {
    const { status } = ERRORS[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return groups
}

const problems = (codes: readonly ErrorCode[]): ZodOpenApiResponsesObject =>
  Object.fromEntries(
    Array.from(grouped(codes), ([status, group]) => [
      status,
      { $ref: `#/components/responses/${groupName(group)}` },
    ]),
  )

function successes(
  responses: Route['responses'],
  examples: Readonly<Record<string, Example>>,
): ZodOpenApiResponsesObject {
  const statuses = Object.entries(responses)
  return Object.fromEntries(
    statuses.map(([status, { description, schema, contentType = 'application/json' }]) => {
      const here = shown(examples, (example) =>
        statuses.length === 1 || String(example.status) === status ? example.response : undefined,
      )
      return [
        status,
        {
          description: `${description}.`,
          headers: headers(),
          ...(schema === undefined ? {} : { content: { [contentType]: { schema, ...here } } }),
        },
      ]
    }),
  )
}

const errorsOf = ({ body, errors }: Route): ErrorCode[] => [
  ...ALWAYS,
  ...(body === undefined ? [] : WITH_BODY),
  ...errors,
]

function operationOf(route: Route): ZodOpenApiOperationObject {
  const { operationId, summary, description, scope, path, query, body, headers = {} } = route
  const examples = EXAMPLES[operationId] ?? {}
  return {
    operationId,
    tags: [tagOf(scope)],
    summary,
    description: `${description}\n\nScope: \`${scope}\`.`,
    security: [{ token: [scope] }],
    parameters: [
      ...(path.includes('{queue}') ? [parameter('queue')] : []),
      ...(path.includes('{id}') ? [parameter('id')] : []),
      parameter('requestId'),
    ],
    requestParams: {
      header: z.object(headers).partial(),
      ...(query === undefined ? {} : { query: query as z.ZodObject }),
    },
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: !body.safeParse({}).success,
            content: { 'application/json': { schema: body, ...shown(examples, ({ request }) => request) } },
          },
        }),
    responses: { ...successes(route.responses, examples), ...problems(errorsOf(route)) },
  }
}

type OpenRoute = Pick<Route, 'path' | 'operationId' | 'summary' | 'description' | 'responses'>

const openRoutes = (): OpenRoute[] => [
  {
    path: '/healthz',
    operationId: 'health',
    summary: 'Check that the deployment runs',
    description: 'Sends nothing to Redis.',
    responses: { 200: { description: 'The deployment runs', schema: z.object({ status: z.literal('ok') }) } },
  },
  {
    path: '/readyz',
    operationId: 'readiness',
    summary: 'Check that the deployment can serve requests',
    description: 'Checks everything that a request needs, Redis included.',
    responses: {
      200: { description: 'The deployment can serve requests', schema: readinessSchema },
      503: {
        description: 'The deployment cannot serve requests; the checks say why',
        schema: readinessSchema,
      },
    },
  },
  {
    path: '/openapi.json',
    operationId: 'openapi',
    summary: 'This document',
    description: 'Generated from the schemas that validate requests.',
    responses: { 200: { description: 'The document', schema: z.looseObject({ openapi: z.string() }) } },
  },
  {
    path: '/docs',
    operationId: 'docs',
    summary: 'This document as a page',
    description: 'Each error has a section. Its address is the `type` of the problem.',
    responses: { 200: { description: 'The page', schema: z.string(), contentType: 'text/html' } },
  },
]

function openOperationOf(route: OpenRoute): ZodOpenApiOperationObject {
  const { operationId, summary, description, responses } = route
  return {
    operationId,
    tags: [TAGS.open.name],
    summary,
    description,
    security: [],
    parameters: [parameter('requestId')],
    responses: { ...successes(responses, EXAMPLES[operationId] ?? {}), ...problems(OPEN) },
  }
}

/** Deletes keywords that follow from the type or the format. */
function simplify(schema: { [keyword: string]: unknown }): void {
  if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum']
  if (schema['maximum'] === Number.MAX_SAFE_INTEGER) delete schema['maximum']
  if (schema['format'] === 'date-time') delete schema['pattern']
}

/**
 * Corrects the parameters that the library generates: moves each description from the schema to the parameter, adds the
 * examples of the operation, and puts the shared parameters in order.
 */
function finishParameters({ paths = {} }: OpenApiDocument): void {
  const operations = Object.values(paths).flatMap((path) => Object.values(path))
  for (const operation of operations) {
    const own = []
    for (const parameter of operation.parameters) {
      if ('$ref' in parameter) continue
      const { name, in: place, schema, ...rest } = parameter
      const { description, ...type } = schema
      const part = place === 'query' ? 'query' : 'headers'
      const examples = shown(EXAMPLES[operation.operationId] ?? {}, (example) => example[part]?.[name])
      own.push({ name, in: place, ...rest, description, schema: type, ...examples })
    }
    const shared = operation.parameters.filter((parameter: object) => '$ref' in parameter)
    operation.parameters = [...shared.slice(0, -1), ...own, ...shared.slice(-1)]
  }
}

/**
 * The document of these routes. Generation takes some milliseconds: keep the result.
 *
 * @example
 * const document = openApiDocument(ROUTES)
 * console.log(Object.keys(document.paths))
 */
export function openApiDocument(routes: readonly Route[]): OpenApiDocument {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const route of routes)
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route) }
  const open = openRoutes()
  for (const route of open) paths[route.path] = { get: openOperationOf(route) }

  const groups = [...routes.map(errorsOf), OPEN].flatMap((codes) => [...grouped(codes).values()])
  const document = createDocument(
    {
      openapi: '3.1.1',
      info: {
        title: 'EchoMQ Edge',
        version: VERSION,
        description: INTRODUCTION,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/', description: 'This deployment' }],
      tags: Object.values(TAGS),
      paths,
      components: {
        securitySchemes: {
          token: {
            type: 'http',
            scheme: 'bearer',
            description:
              'A token has scopes and queues. Each operation names the scope that it needs. `npm run token` creates a token.',
          },
        },
        schemas: { Problem: problemSchema },
        parameters: PARAMETERS,
        headers: HEADERS,
        responses: Object.fromEntries(groups.map((codes) => [groupName(codes), problemResponse(codes)])),
      },
    },
    // A payload is a class instance, and any JSON value on the wire.
    { override: ({ jsonSchema }) => simplify(jsonSchema), allowEmptySchema: { custom: true } },
  )
  finishParameters(document)
  return document
}
