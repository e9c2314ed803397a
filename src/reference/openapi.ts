/**
 * The OpenAPI document, written from the table of routes and the very schemas that validate. What stands here and
 * nowhere else is what no schema can tell: the rules that all routes share, and what each error means.
 */
import * as z from 'zod'
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponseObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import type { Scope } from '../protocol/tokens.ts'
import { ERRORS, type ErrorCode } from '../errors.ts'
import { readinessSchema } from '../http/health.ts'
import type { Route } from '../http/route.ts'
import { problemSchema } from '../http/schemas.ts'
import { EXAMPLE_ID, EXAMPLE_QUEUE, EXAMPLES, type Example, PROBLEM_EXAMPLES } from './examples.ts'

export type OpenApiDocument = ReturnType<typeof createDocument>

/** Paths, fields, statuses and codes are under the semantic version of the package. */
const VERSION = '0.1.0'

const INTRODUCTION = `A job queue for edge and serverless functions over plain HTTPS: leases, fencing tokens, dead letters.

**The life of a job.** \`enqueue\` makes it *pending*. \`claim\` hands it out, under a lease and with a fencing token: now it
is *active*. Its holder reports with that token: \`complete\` retires it, \`retry\` makes it *scheduled* until its backoff is
over, \`fail\` makes it *dead*, until somebody redrives or removes it. A holder that reports nothing loses the job when the
lease runs out. So delivery is at least once, and of all holders only the one with the newest token can move the job.

**Requests** carry \`Authorization: Bearer <token>\`. A body is \`application/json\` and at most 5 MiB; where all of its fields
are optional it may be left out. Numbers are JSON integers in range. Unknown fields and parameters are refused, so that
a typo cannot silently lose a delay. GET changes nothing, and may be HEAD.

**Answers** are JSON but for the metrics and this reference. Instants are RFC 3339, UTC, with milliseconds.

**Errors** are problems as RFC 9457 has them. Decide by \`code\`; \`detail\` is for people. A request is refused by the first
of these that is wrong: route, token, method, name of the queue, scope, id, query, body. Only then is Redis asked. After
a \`503\` a change may have been made although its answer was lost; each operation says whether it is safe to repeat.`

const TAGS = {
  produce: { name: 'Producing', description: 'Putting jobs into a queue.' },
  consume: { name: 'Consuming', description: 'Claiming jobs, and reporting what became of them.' },
  observe: {
    name: 'Observing',
    description: 'Reading, and changing nothing. Payloads and error texts need the scope `observe:payload`.',
  },
  operate: { name: 'Operating', description: 'Keeping queues running. The scope has all others included.' },
  open: { name: 'Open', description: 'What needs no token, and tells no secrets and no names.' },
} as const

const tagOf = (scope: Scope): string => TAGS[scope === 'observe:payload' ? 'observe' : scope].name

/** What each error means to the caller, and what to do about it. */
const MEANINGS: Readonly<Record<ErrorCode, string>> = {
  invalid: 'The request is malformed: `errors` names the fields and says what each must be.',
  unauthorized: 'There is no valid token in `Authorization: Bearer <token>`.',
  forbidden: 'The token lacks the scope, is not for this queue, or may not see what was asked for.',
  not_found: 'There is no such route, job or queue.',
  method_not_allowed: 'The route is there but does not take this method; `Allow` lists those it takes.',
  stale:
    'The token is not the live one, and nothing was changed. The `reason` is `superseded` (another claim holds the job, or has held it since), `released` (its holder gave the job back before, or it was redriven) or `lapsed` (the lease ran out and the job was taken back). Stop working on the job.',
  wrong_state: 'The job is not in the state that this move needs; `state` tells which it is in.',
  locked: 'A live lease holds the job. Try again when it has ended.',
  gone: 'There is no such job any more: it was completed or removed, or never was. To a repeated `complete` it says that the job is done.',
  internal: 'Our own fault. The log of the deployment has the request id.',
  too_large: 'The body, or a payload in it, is over the limit.',
  unsupported_media_type: 'The body is not `application/json`.',
  wrong_kind: 'The id is well-formed, but not of a job.',
  overloaded:
    'The queue holds as many pending jobs as it may (`maxPending`), or the plan of Redis is used up. Try again after `Retry-After`.',
  upstream:
    'Redis did not answer, or answered an error. The change may have been made all the same. Where it is safe, repeat it after `Retry-After`.',
  misconfigured: 'The deployment lacks a usable URL or token of Redis, or usable API tokens.',
  wire_version:
    'The database bears a wire version that this deployment does not accept. Nothing was changed.',
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
    description: 'The name of the queue. It needs no creating: it is there with its first job.',
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
    description: 'A name for this request: the answer repeats it and the log has it. Default: a fresh one.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
} as const

const HEADERS = {
  'X-Request-Id': { required: true, description: 'The name of the request.', schema: { type: 'string' } },
  'Cache-Control': {
    required: true,
    description: 'No answer is to be stored.',
    schema: { const: 'no-store' },
  },
  'WWW-Authenticate': { required: true, description: 'How to authenticate.', schema: { const: 'Bearer' } },
  Allow: { required: true, description: 'The methods that the route takes.', schema: { type: 'string' } },
  'Retry-After': {
    description: 'With `overloaded` and `upstream`: when to try again, in seconds.',
    schema: { type: 'integer', minimum: 1 },
  },
} as const

/** The headers that errors add to those of every answer. */
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

/** What examples show of one part of an exchange, each under its own name in all of them. */
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

/** Errors by their status, as each operation lists them. */
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
  const { operationId, summary, description, scope, path, query, headers = {} } = route
  const examples = EXAMPLES[operationId] ?? {}
  const body = route.wholeBody ?? route.body
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
    summary: 'Whether the deployment lives',
    description: 'Asks nobody else, not even Redis.',
    responses: { 200: { description: 'It does', schema: z.object({ status: z.literal('ok') }) } },
  },
  {
    path: '/readyz',
    operationId: 'readiness',
    summary: 'Whether the deployment can serve',
    description: 'Asks Redis, and looks at everything that a request needs.',
    responses: {
      200: { description: 'It can', schema: readinessSchema },
      503: { description: 'It cannot; the checks tell why', schema: readinessSchema },
    },
  },
  {
    path: '/openapi.json',
    operationId: 'openapi',
    summary: 'This document',
    description: 'Written from the schemas that validate.',
    responses: { 200: { description: 'The document', schema: z.looseObject({ openapi: z.string() }) } },
  },
  {
    path: '/docs',
    operationId: 'docs',
    summary: 'This document as a page',
    description: 'Each error has a place in it, which is the `type` of its problems.',
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

/** Takes away what follows from the type or the format. */
function simplify(schema: { [keyword: string]: unknown }): void {
  if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum']
  if (schema['maximum'] === Number.MAX_SAFE_INTEGER) delete schema['maximum']
  if (schema['format'] === 'date-time') delete schema['pattern']
}

/**
 * Finishes the parameters that the library made of schemas: the description belongs to the parameter, and the examples,
 * which it takes at schemas only, to those of one operation. What all operations share goes last.
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
 * The document of these routes. It takes some milliseconds: keep what it answers.
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
              'A token has scopes and queues; each operation names the scope that it needs. `npm run token` makes one.',
          },
        },
        schemas: { Problem: problemSchema },
        parameters: PARAMETERS,
        headers: HEADERS,
        responses: Object.fromEntries(groups.map((codes) => [groupName(codes), problemResponse(codes)])),
      },
    },
    { override: ({ jsonSchema }) => simplify(jsonSchema) },
  )
  finishParameters(document)
  return document
}
