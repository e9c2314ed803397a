/**
 * Runs commands for the REST protocol: one by one (`each`) or as one transaction (`atomically`).
 *
 * A command that the protocol rejects never reaches Redis. Nothing is sent twice. All requests share one connection:
 * the commands of a call are sent next to each other, and none can block or change the connection.
 */

import { type Resp, type RespCommand, RespError, type RespReply } from '../resp.ts'
import { type Access, type CommandTable, isRead, refusal } from './policy.ts'
import { replyBytes } from './reply.ts'

/** The reply to one command, and the status of a request that has only this command. */
export type Outcome = { readonly reply: RespReply; readonly status: 200 | 400 | 413 }

/** `version`: the number of the last write that the outcomes can reflect. */
export type Executed = { readonly outcomes: readonly Outcome[]; readonly version: number }

/** A copy of the data that may lag behind. `version`: the last write that it has. */
export type Replica = { readonly resp: Resp; readonly version: number }

export type ExecutorOptions = {
  readonly primary: Resp
  readonly table: CommandTable
  /** The largest command, and the largest reply to one, in bytes. */
  readonly maxRequestBytes: number
  /** Serves the reads of callers that know of no later write. */
  readonly replica?: () => Replica | undefined
}

export type Executor = {
  /** `knownVersion`: the last write that the caller knows of. Reads are never older. */
  each(commands: readonly RespCommand[], access: Access, knownVersion: number): Promise<Executed>
  /** Runs all commands or none, without other commands in between. A discarded transaction has one outcome. */
  atomically(commands: readonly RespCommand[], access: Access): Promise<Executed | Outcome>
  /** The number of the last write that was sent. */
  version(): number
}

export function createExecutor({ primary, table, maxRequestBytes, replica }: ExecutorOptions): Executor {
  let version = 0

  function refused(command: RespCommand, access: Access): Outcome | undefined {
    const bytes = commandBytes(command)
    if (bytes > maxRequestBytes) return failure(tooLarge(maxRequestBytes, bytes), 413)
    const text = refusal(command, access, table)
    return text === undefined ? undefined : failure(text)
  }

  function outcomeOf(reply: RespReply): Outcome {
    if (reply instanceof RespError) return { reply, status: 400 }
    const bytes = replyBytes(reply)
    // The command has run, so the service returns this error with 200.
    if (bytes > maxRequestBytes) return failure(tooLarge(maxRequestBytes, bytes), 200)
    return { reply, status: 200 }
  }

  /** Returns where to run the commands, and the version that they will see. */
  function destination(commands: readonly RespCommand[], knownVersion: number): Replica {
    if (commands.every((command) => isRead(command, table))) {
      const copy = replica?.()
      if (copy !== undefined && copy.version >= knownVersion) return copy
    } else {
      version += 1
    }
    return { resp: primary, version }
  }

  return {
    version: () => version,

    async each(commands, access, knownVersion) {
      const refusals = commands.map((command) => refused(command, access))
      const allowed = commands.filter((_, index) => refusals[index] === undefined)
      const { resp, version: seen } = destination(allowed, knownVersion)
      const replies = (await resp.run(allowed)).values()
      const outcomes = refusals.map((refusal) => refusal ?? outcomeOf(replies.next().value ?? null))
      return { outcomes, version: seen }
    },

    async atomically(commands, access) {
      for (const command of commands) {
        const refusal = refused(command, access)
        if (refusal !== undefined) return refusal
      }
      const { resp, version: seen } = destination(commands, Number.POSITIVE_INFINITY)
      const replies = await resp.run([{ name: 'MULTI', args: [] }, ...commands, { name: 'EXEC', args: [] }])
      // The error of a command that was not queued comes before the EXECABORT of EXEC and is more precise.
      const error = replies.find((reply) => reply instanceof RespError)
      if (error !== undefined) return outcomeOf(error)
      const results = replies.at(-1)
      if (!Array.isArray(results)) throw new TypeError('EXEC returned no array.')
      return { outcomes: results.map(outcomeOf), version: seen }
    },
  }
}

function tooLarge(limit: number, actual: number): string {
  return `ERR max request size exceeded. Limit: ${limit} bytes, Actual: ${actual} bytes. See https://upstash.com/docs/redis/troubleshooting/max_request_size_exceeded for details`
}

function failure(text: string, status: Outcome['status'] = 400): Outcome {
  return { reply: new RespError(text), status }
}

function commandBytes({ name, args }: RespCommand): number {
  return args.reduce((sum, arg) => sum + Buffer.byteLength(arg), Buffer.byteLength(name))
}
