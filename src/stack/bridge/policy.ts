/**
 * Which commands the REST protocol takes, and from which token.
 *
 * The rules are those of the service's compatibility table, put in terms of Redis's own command table (`COMMAND`):
 * whatever would block, change the state of the connection or administrate the server is refused with the
 * service's words before it reaches Redis. All requests share one connection, so this is also what keeps one
 * request from disturbing another.
 */

import type { RespCommand, RespReply } from '../resp.ts'

export type Access = 'full' | 'read-only'

type Traits = { readonly readOnly: boolean; readonly categories: ReadonlySet<string> }

/** Redis's command table: what is known of each command, and of each subcommand as `script|load`. */
export type CommandTable = ReadonlyMap<string, Traits>

/** Of these kinds, REST has only the commands that are named. */
const EXCEPTIONS = {
  '@connection': ['ping', 'echo'],
  '@pubsub': ['publish', 'pubsub', 'pubsub|channels', 'pubsub|numsub', 'pubsub|numpat'],
  '@transaction': [] as string[],
  // These block only when they are told to.
  '@blocking': ['xread', 'xreadgroup'],
} satisfies Record<string, readonly string[]>

/** Not marked by a category of the above, but as much a matter of the connection. */
const CONNECTION_STATE = new Set(['monitor', 'script|debug'])

/** Reads that are too powerful for a token that anybody may see. */
const NOT_FOR_READERS = new Set(['scan', 'keys'])

/**
 * Why a command is refused, as the error to answer; undefined when it may run.
 *
 * The first question is whether the command exists here at all, the second what the token may do.
 */
export function refusal(command: RespCommand, access: Access, table: CommandTable): string | undefined {
  const name = command.name.toLowerCase()
  const subcommand = `${name}|${String(command.args[0] ?? '').toLowerCase()}`
  const key = table.has(subcommand) ? subcommand : name
  const traits = table.get(key)
  if (traits === undefined) return unavailable(command)

  if (isConnectionBound(key, traits) || blocks(command)) {
    return `ERR Command "${command.name.toUpperCase()}" is not allowed in REST or it has a special context path`
  }
  if (traits.categories.has('@admin') || name === 'cluster') return unavailable(command)
  if (access === 'read-only' && !mayRead(name, traits)) {
    return `NOPERM this user has no permissions to run the '${name}' command or its subcommand`
  }
  return undefined
}

/** Whether the command changes nothing, so that a replica may answer it. */
export function isRead(command: RespCommand, table: CommandTable): boolean {
  return table.get(command.name.toLowerCase())?.readOnly ?? false
}

/** Reads the reply of `COMMAND`. */
export function parseCommandTable(reply: RespReply): CommandTable {
  const table = new Map<string, Traits>()
  const add = (entry: RespReply): void => {
    if (!Array.isArray(entry)) return
    const [name, , flags, , , , categories, , , subcommands] = entry as readonly RespReply[]
    table.set(String(name), {
      readOnly: words(flags).has('readonly'),
      categories: words(categories),
    })
    if (Array.isArray(subcommands)) subcommands.forEach(add)
  }
  if (Array.isArray(reply)) reply.forEach(add)
  return table
}

function words(reply: RespReply | undefined): ReadonlySet<string> {
  return new Set(Array.isArray(reply) ? reply.map(String) : [])
}

function isConnectionBound(key: string, traits: Traits): boolean {
  if (CONNECTION_STATE.has(key)) return true
  return Object.entries(EXCEPTIONS).some(
    ([category, allowed]) => traits.categories.has(category) && !allowed.includes(key),
  )
}

/** XREAD and XREADGROUP take BLOCK among their options, which end at STREAMS. */
function blocks({ name, args }: RespCommand): boolean {
  if (!EXCEPTIONS['@blocking'].includes(name.toLowerCase())) return false
  const words = args.map((arg) => String(arg).toUpperCase())
  const block = words.indexOf('BLOCK')
  return block >= 0 && block < words.indexOf('STREAMS')
}

function mayRead(name: string, traits: Traits): boolean {
  if (NOT_FOR_READERS.has(name)) return false
  return traits.readOnly || EXCEPTIONS['@connection'].includes(name)
}

function unavailable({ name }: RespCommand): string {
  return `ERR Command is not available: '${name.toUpperCase()}'. See https://upstash.com/docs/redis/overall/rediscompatibility for details`
}
