/** Rejects requests of web pages: the bridge is for programs on this machine. */

import type { MiddlewareHandler } from 'hono'
import { FOREIGN_HOST, isLocalHost } from '../local-hosts.ts'
import { renderError } from './reply.ts'

export const localCallersOnly: MiddlewareHandler = async ({ req }, next) => {
  const host = req.header('host')
  if (!isLocalHost(host)) return refuse(FOREIGN_HOST, 421)
  const origin = req.header('origin')
  const isForeign = origin !== undefined && origin !== `http://${host}`
  if (isForeign || req.header('sec-fetch-site') === 'cross-site')
    return refuse('The bridge rejects requests of foreign web pages.', 403)
  return next()
}

function refuse(text: string, status: number): Response {
  return new Response(renderError(`ERR ${text}`), {
    status,
    headers: { 'content-type': 'application/json' },
  })
}
