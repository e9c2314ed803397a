/**
 * Which commands the REST protocol accepts, and from which token.
 *
 * The rules follow the compatibility table of the service, in terms of Redis's command table (`COMMAND`). A command
 * that would block, change the connection or administer the server is rejected with the service's text before it
 * reaches Redis. This also keeps requests apart, because all share one connection.
 */

import type { RespCommand, RespReply } from '../resp.ts'

export type Access = 'full' | 'read-only'

type Traits = { readonly readOnly: boolean; readonly categories: ReadonlySet<string> }

/** The traits of each command, and of each subcommand by a name such as `script|load`. */
export type CommandTable = ReadonlyMap<string, Traits>

/** In these categories REST has only the listed commands. */
const EXCEPTIONS = {
  '@connection': ['ping', 'echo'],
  '@pubsub': ['publish', 'pubsub', 'pubsub|channels', 'pubsub|numsub', 'pubsub|numpat'],
  '@transaction': [] as string[],
  // These block only with the option BLOCK.
  '@blocking': ['xread', 'xreadgroup'],
} satisfies Record<string, readonly string[]>

/** These change the connection too, but are in none of the categories above. */
const CONNECTION_STATE = new Set(['monitor', 'script|debug'])

/** Reads that a read-only token may not run. */
const NOT_FOR_READERS = new Set(['scan', 'keys'])

/** Returns the error for a rejected command; undefined when it may run. A missing command comes before a missing right. */
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

/** Returns whether a replica may serve the command. */
export function isRead(command: RespCommand, table: CommandTable): boolean {
  return table.get(command.name.toLowerCase())?.readOnly ?? false
}

/** Parses the reply to `COMMAND`. */
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

/** XREAD and XREADGROUP accept BLOCK among their options, which end at STREAMS. */
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
