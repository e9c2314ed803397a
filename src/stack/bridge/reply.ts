/**
 * Renders the replies of Redis as the JSON of the REST protocol.
 *
 * Integers keep their digits. Strings are text, with U+FFFD where they are not UTF-8. With `Upstash-Encoding: base64`
 * they are base64 at every depth, except for a plain OK.
 */

import { RespError, RespInteger, type RespReply } from '../resp.ts'

export type Encoding = 'text' | 'base64'

/** Returns `{"result":...}` or `{"error":"..."}`. */
export function renderOutcome(reply: RespReply, encoding: Encoding): string {
  if (reply instanceof RespError) return renderError(reply.text)
  const isOk = Buffer.isBuffer(reply) && reply.toString('latin1') === 'OK'
  return `{"result":${isOk ? '"OK"' : renderValue(reply, encoding)}}`
}

export function renderError(text: string): string {
  return `{"error":${JSON.stringify(text)}}`
}

function renderValue(reply: RespReply, encoding: Encoding): string {
  if (reply === null) return 'null'
  if (reply instanceof RespInteger) return reply.digits
  // Only a script can return an error inside an array. JSON has no form for it, so its text is returned.
  if (reply instanceof RespError) return renderValue(Buffer.from(reply.text), encoding)
  if (Buffer.isBuffer(reply)) return JSON.stringify(reply.toString(encoding === 'base64' ? 'base64' : 'utf8'))
  return `[${reply.map((one) => renderValue(one, encoding)).join(',')}]`
}

/** Returns the total length of the strings in a reply, in bytes. */
export function replyBytes(reply: RespReply): number {
  if (Buffer.isBuffer(reply)) return reply.length
  if (reply === null || reply instanceof RespInteger || reply instanceof RespError) return 0
  return reply.reduce((sum, one) => sum + replyBytes(one), 0)
}
