/**
 * Running scripts: EVALSHA with the pinned SHA-1, in one round trip with any other commands.
 *
 * When Redis does not know a script, it returns NOSCRIPT and runs nothing of that call, but it runs the calls behind it.
 * `run` then loads the source, compares the SHA-1 that Redis returns with the pinned one, and runs the rejected calls
 * from the source. A call that depends on the calls before it says in `isIncomplete` when it must run again too.
 */
import { parseRefusal, type Result } from '../protocol/refusals.ts'
import { type ArgumentsOf, call, type ScriptCall } from '../protocol/script-call.ts'
import { SCRIPTS, type ScriptName } from '../protocol/scripts.generated.ts'
import type { QueueRef } from './context.ts'
import { type Command, RedisError, type RedisPort, type Reply, UpstreamError } from './redis.ts'
import { text } from './replies.ts'

/** A call that was not sent yet. */
export type PendingCall = ScriptCall & {
  /** Whether this reply makes it necessary to run again after a call before it, whose script was missing, has run. */
  readonly isIncomplete?: (reply: Reply | undefined) => boolean
}

const isCall = (command: Command | PendingCall): command is PendingCall => 'script' in command

const evalCommand = (verb: 'EVALSHA' | 'EVAL', script: string, { keys, args }: ScriptCall): Command => [
  verb,
  script,
  keys.length,
  ...keys,
  ...args,
]

/**
 * Runs scripts and commands in one round trip and returns their replies in order.
 *
 * @throws {UpstreamError} when there is no usable answer, or when Redis loaded another script than the pinned one.
 */
export async function run(port: RedisPort, commands: readonly (Command | PendingCall)[]): Promise<Reply[]> {
  const replies = [
    ...(await port.send(
      commands.map((command) =>
        isCall(command) ? evalCommand('EVALSHA', SCRIPTS[command.script].sha1, command) : command,
      ),
    )),
  ]
  const missing = new Set<ScriptName>()
  const again = commands.flatMap((command, index) => {
    if (!isCall(command)) return []
    const reply = replies[index]
    const isMissing = reply instanceof RedisError && reply.text.startsWith('NOSCRIPT')
    const runsAgain = isMissing || (missing.size > 0 && command.isIncomplete?.(reply) === true)
    if (isMissing) missing.add(command.script)
    return runsAgain ? [{ index, command }] : []
  })
  if (missing.size === 0) return replies
  const scripts = [...missing].map((name) => SCRIPTS[name])
  const loaded = await port.send(scripts.map(({ source }) => ['SCRIPT', 'LOAD', source]))
  if (scripts.some(({ sha1 }, nth) => text(loaded[nth]) !== sha1))
    throw new UpstreamError('Redis loaded another script than the pinned one')
  // From the source: another flush in between cannot lose a call.
  const repeated = await port.send(
    again.map(({ command }) => evalCommand('EVAL', SCRIPTS[command.script].source, command)),
  )
  for (const [nth, { index }] of again.entries()) replies[index] = repeated[nth] ?? null
  return replies
}

type OfQueue<Name extends ScriptName> = Omit<ArgumentsOf<Name>, 'q'>

/** Runs one script of a queue, behind commands that go in the same round trip, and returns the script's reply. */
export async function runScript<Name extends ScriptName>(
  { port, queue }: QueueRef,
  script: Name,
  given: OfQueue<Name>,
  before: readonly Command[] = [],
): Promise<Reply> {
  const made = call(script, { ...given, q: queue } as unknown as ArgumentsOf<Name>)
  return (await run(port, [...before, made])).at(-1) ?? null
}

/** Runs a script that moves one job; a refusal is a value. */
export async function runMove<Name extends ScriptName>(
  ...move: Parameters<typeof runScript<Name>>
): Promise<Result<Reply>> {
  const reply = await runScript(...move)
  const refusal = reply instanceof RedisError ? parseRefusal(reply.text) : undefined
  return refusal === undefined ? { ok: true, value: reply } : { ok: false, refusal }
}
