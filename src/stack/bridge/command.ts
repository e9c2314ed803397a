/**
 * Parses the three forms of commands in the REST protocol: a JSON array, an array of such arrays, or the path followed
 * by the body and the query. Does not decide which commands may run.
 */

import type { RespCommand } from '../resp.ts'

/** The request is not a command. The text is the error of the response. */
export class MalformedCommand extends Error {
  override readonly name = 'MalformedCommand'
}

/** `["SET", "key", 1]` */
export function parseCommand(body: Buffer): RespCommand {
  const value = parseJson(body)
  if (!Array.isArray(value)) throw new MalformedCommand('ERR failed to parse command')
  if (value.length === 0) throw new MalformedCommand('ERR empty command')
  return toCommand(value, 'ERR failed to parse command')
}

/** `[["SET", "key", 1], ["GET", "key"]]` */
export function parseCommands(body: Buffer): readonly RespCommand[] {
  const value = parseJson(body)
  if (!Array.isArray(value)) throw new MalformedCommand('ERR failed to parse pipeline request')
  if (value.length === 0) throw new MalformedCommand('ERR empty pipeline request')
  return value.map((one) => {
    if (!Array.isArray(one)) throw new MalformedCommand('ERR failed to parse pipeline request')
    if (one.length === 0) throw new MalformedCommand('ERR empty pipeline command')
    return toCommand(one, 'ERR failed to parse pipeline request')
  })
}

/** `/set/key` with the body `value` and the query `EX=100` is `SET key value EX 100`. */
export function parsePath(url: URL, body: Buffer): RespCommand {
  const [name, ...args] = url.pathname.slice(1).split('/').map(percentDecode)
  if (body.length > 0) args.push(body)
  for (const pair of url.search.slice(1).split('&').filter(Boolean)) {
    const [key = '', ...rest] = pair.split('=')
    if (key === '_token') continue
    args.push(queryDecode(key))
    if (rest.length > 0) args.push(queryDecode(rest.join('=')))
  }
  return { name: name?.toString() ?? '', args }
}

/** A URL is ASCII, but its percent codes can express any byte. */
function percentDecode(text: string): Buffer {
  const decoded = text.replace(/%[0-9a-f]{2}/gi, (code) =>
    String.fromCharCode(Number.parseInt(code.slice(1), 16)),
  )
  return Buffer.from(decoded, 'latin1')
}

function queryDecode(text: string): Buffer {
  return percentDecode(text.replaceAll('+', ' '))
}

/** Numbers keep their digits, even where a JavaScript number would round them. */
function parseJson(body: Buffer): unknown {
  const keepDigits = (_key: string, value: unknown, context: { source?: string }): unknown =>
    typeof value === 'number' ? (context.source ?? value) : value
  try {
    return JSON.parse(body.toString(), keepDigits as (key: string, value: unknown) => unknown)
  } catch {
    return undefined
  }
}

function toCommand(values: readonly unknown[], complaint: string): RespCommand {
  const [name = '', ...args] = values.map((value) => {
    if (typeof value === 'string') return value
    if (typeof value === 'boolean') return String(value)
    throw new MalformedCommand(complaint)
  })
  return { name, args }
}
