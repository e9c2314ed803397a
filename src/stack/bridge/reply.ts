/**
 * From what Redis answered to the JSON of the REST protocol.
 *
 * Integers keep their digits. Strings are text, with U+FFFD where they are not UTF-8; or, where the caller sent
 * `Upstash-Encoding: base64`, base64 at every depth, but for an answer that is just OK.
 */

import { RespError, RespInteger, type RespReply } from '../resp.ts'

export type Encoding = 'text' | 'base64'

/** The JSON text of one outcome: `{"result":...}` or `{"error":"..."}`. */
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
  // An error inside an array, which only a script can answer, has no form of its own in JSON: its text stands for it.
  if (reply instanceof RespError) return renderValue(Buffer.from(reply.text), encoding)
  if (Buffer.isBuffer(reply)) return JSON.stringify(reply.toString(encoding === 'base64' ? 'base64' : 'utf8'))
  return `[${reply.map((one) => renderValue(one, encoding)).join(',')}]`
}

/** The bytes of the strings in a reply. */
export function replyBytes(reply: RespReply): number {
  if (Buffer.isBuffer(reply)) return reply.length
  if (reply === null || reply instanceof RespInteger || reply instanceof RespError) return 0
  return reply.reduce((sum, one) => sum + replyBytes(one), 0)
}
