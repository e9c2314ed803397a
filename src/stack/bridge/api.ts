/**
 * The REST protocol of Upstash as a Hono app: routes, tokens, encodings, status codes.
 *
 * It follows the documentation of the service and, where that is silent, the observed behaviour. While Redis is away it
 * returns 503 at once. It knows nothing of queues.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import { Hono } from 'hono'
import { RedisUnreachable } from '../resp.ts'
import { MalformedCommand, parseCommand, parseCommands, parsePath } from './command.ts'
import type { Executed, Executor, Outcome } from './execute.ts'
import type { Access } from './policy.ts'
import { type Encoding, renderError, renderOutcome } from './reply.ts'

export type Tokens = { readonly token: string; readonly readOnlyToken?: string | undefined }

const SYNC_TOKEN = 'upstash-sync-token'

const METHODS = ['HEAD', 'GET', 'POST', 'PUT']

const UNAUTHORIZED =
  'WRONGPASS invalid or missing auth token. See https://docs.upstash.com/redis/troubleshooting/http_unauthorized for details.'

export function createApi(executor: Executor, tokens: Tokens): Hono {
  const app = new Hono()

  app.all('*', async ({ req }) => {
    const url = new URL(req.url)
    const access = accessOf(presentedToken(req.header('authorization'), url), tokens)
    if (access === undefined) return json(renderError(UNAUTHORIZED), 401)
    if (!METHODS.includes(req.method)) {
      return json(renderError(`ERR method ${req.method} is not allowed`), 405, { allow: METHODS.join(', ') })
    }

    const body = Buffer.from(await req.arrayBuffer())
    const encoding: Encoding = req.header('upstash-encoding') === 'base64' ? 'base64' : 'text'
    const knownVersion = Number(req.header(SYNC_TOKEN)) || 0

    switch (url.pathname) {
      case '/pipeline':
        return list(await executor.each(parseCommands(body), access, knownVersion), encoding)
      case '/multi-exec': {
        const executed = await executor.atomically(parseCommands(body), access)
        return 'outcomes' in executed ? list(executed, encoding) : single(executed, encoding)
      }
      default: {
        const command = url.pathname === '/' ? parseCommand(body) : parsePath(url, body)
        const { outcomes, version } = await executor.each([command], access, knownVersion)
        const [outcome] = outcomes
        if (outcome === undefined) throw new TypeError('A command had no outcome.')
        return single(outcome, encoding, version)
      }
    }
  })

  app.onError((error) => {
    if (error instanceof MalformedCommand) return json(renderError(error.message), 400)
    if (error instanceof RedisUnreachable) return json(renderError('ERR Redis is not reachable'), 503)
    console.error(error)
    return json(renderError('ERR internal error of the bridge'), 500)
  })

  return app
}

function list({ outcomes, version }: Executed, encoding: Encoding): Response {
  const items = outcomes.map(({ reply }) => renderOutcome(reply, encoding))
  return json(`[${items.join(',')}]`, 200, { [SYNC_TOKEN]: String(version) })
}

function single({ reply, status }: Outcome, encoding: Encoding, version?: number): Response {
  const headers = version === undefined ? {} : { [SYNC_TOKEN]: String(version) }
  return json(renderOutcome(reply, encoding), status, headers)
}

function json(body: string, status: number, headers: Record<string, string> = {}): Response {
  return new Response(body, { status, headers: { 'content-type': 'application/json', ...headers } })
}

/** The header overrides the query, as on the service. */
function presentedToken(authorization: string | undefined, url: URL): string | undefined {
  return authorization === undefined
    ? (url.searchParams.get('_token') ?? undefined)
    : /^bearer +(\S+)$/i.exec(authorization)?.[1]
}

function accessOf(presented: string | undefined, { token, readOnlyToken }: Tokens): Access | undefined {
  if (presented === undefined) return undefined
  if (isSame(presented, token)) return 'full'
  return readOnlyToken !== undefined && isSame(presented, readOnlyToken) ? 'read-only' : undefined
}

function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}
