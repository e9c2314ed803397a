/**
 * Running the bundle: EVALSHA with the pinned SHA-1, in one round trip with whatever else is sent along.
 *
 * When Redis has lost a script (its own error text begins with NOSCRIPT, so nothing of that call has run), its
 * source is loaded, what Redis says it loaded is compared with the pinned SHA-1, and only the calls that were
 * refused are run again, from the source: a flush in between cannot lose them.
 */
import { SCRIPTS } from '../protocol/scripts.generated.ts'
import { type Command, RedisError, type RedisPort, type Reply, UpstreamError } from './redis.ts'
import { text } from './replies.ts'

export type ScriptName = keyof typeof SCRIPTS

/** A run of a script, not sent yet. */
export type ScriptCall = {
  readonly script: ScriptName
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

export const call = (
  script: ScriptName,
  keys: readonly string[],
  args: readonly (string | number)[],
): ScriptCall => ({ script, keys, args })

const isCall = (command: Command | ScriptCall): command is ScriptCall => 'script' in command

const evalsha = ({ script, keys, args }: ScriptCall): Command => [
  'EVALSHA',
  SCRIPTS[script].sha1,
  keys.length,
  ...keys,
  ...args,
]

const evalSource = ({ script, keys, args }: ScriptCall): Command => [
  'EVAL',
  SCRIPTS[script].source,
  keys.length,
  ...keys,
  ...args,
]

/**
 * Runs scripts and commands in one round trip and answers their replies in order.
 *
 * @throws {UpstreamError} when no usable answer came, or when what Redis loaded is not the pinned script.
 */
export async function run(port: RedisPort, commands: readonly (Command | ScriptCall)[]): Promise<Reply[]> {
  const replies = [
    ...(await port.send(commands.map((command) => (isCall(command) ? evalsha(command) : command)))),
  ]
  const lost = commands.flatMap((command, index) => {
    const reply = replies[index]
    return isCall(command) && reply instanceof RedisError && reply.text.startsWith('NOSCRIPT')
      ? [{ index, command }]
      : []
  })
  if (lost.length === 0) return replies
  const scripts = [...new Set(lost.map(({ command }) => command.script))]
  const loaded = await port.send(scripts.map((script) => ['SCRIPT', 'LOAD', SCRIPTS[script].source]))
  scripts.forEach((script, index) => {
    if (text(loaded[index]) !== SCRIPTS[script].sha1)
      throw new UpstreamError('Redis loaded another script than the pinned one', { retryable: false })
  })
  const again = await port.send(lost.map(({ command }) => evalSource(command)))
  lost.forEach(({ index }, nth) => {
    replies[index] = again[nth] ?? null
  })
  return replies
}
