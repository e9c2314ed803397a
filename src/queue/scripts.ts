/**
 * Calls of scripts. A call names its arguments; the generated registry knows the templates of the keys and the order of
 * the arguments. EVALSHA runs the pinned script, in one round trip with any other commands.
 *
 * When Redis does not know a script, it returns NOSCRIPT and runs nothing of that call, but it runs the calls behind it.
 * `run` then loads the source, compares the SHA-1 that Redis returns with the pinned one, and runs the rejected calls
 * from the source. A call that depends on the calls before it says in `isIncomplete` when it must run again too.
 */
import { fillKey, KEY_TEMPLATES } from '../protocol/keys.ts'
import { parseRefusal, type Result } from '../protocol/refusals.ts'
import { SCRIPTS, type ScriptName } from '../protocol/scripts.generated.ts'
import type { QueueRef } from './context.ts'
import { type Command, RedisError, type RedisPort, type Reply, UpstreamError } from './redis.ts'
import { text } from './replies.ts'

/** An argument: `undefined` is sent as an empty text, a boolean as 1 or 0. */
type Value = string | number | boolean | undefined

type Registry = typeof SCRIPTS
type Part<Name extends ScriptName, Field extends string> = Registry[Name] extends {
  readonly [F in Field]: infer List extends readonly string[]
}
  ? List[number]
  : never
/** The words that a key template needs: `id` in `emq:{q}:job:<id>`. */
type Blank<Template> = Template extends `${string}<${infer Word}>${string}` ? Word : never
type QueueWord<Template> = Template extends `${string}{q}${string}` ? 'q' : never
type Required<Word> = Word extends `${string}?` | 'jobPrefix' ? never : Word
type Optional<Word> = Word extends `${infer Name}?` ? Name : never

type FixedWord<Name extends ScriptName> =
  | QueueWord<Part<Name, 'keys'>>
  | Blank<Part<Name, 'keys'>>
  | Required<Part<Name, 'args'>>
type OptionalWord<Name extends ScriptName> = Optional<Part<Name, 'args'>> | Blank<Part<Name, 'optionalKeys'>>
type EachWord<Name extends ScriptName> = Part<Name, 'argsEach'>

type Element<Name extends ScriptName> = { readonly [Word in EachWord<Name> & string]: Value } & {
  readonly [Word in Exclude<Blank<Part<Name, 'keysEach'>>, EachWord<Name>>]?: Value
}

/** The arguments of a script by name; the prefix of the rows follows from the queue `q`. */
export type ArgumentsOf<Name extends ScriptName> = {
  readonly [Word in FixedWord<Name> & string]: Value
} & {
  readonly [Word in OptionalWord<Name>]?: Value
} & ([EachWord<Name>] extends [never] ? unknown : { readonly each: readonly Element<Name>[] })

/** A run of a script that was not sent yet. */
export type ScriptCall = {
  readonly script: ScriptName
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  /** Whether this reply makes it necessary to run again after a call before it, whose script was missing, has run. */
  readonly isIncomplete?: (reply: Reply | undefined) => boolean
}

type Given = Readonly<Record<string, unknown>> & { readonly each?: readonly Given[] }
type Contract = { readonly keys: readonly string[]; readonly args: readonly string[] } & {
  readonly [Field in 'optionalKeys' | 'keysEach' | 'argsEach']?: readonly string[]
}

const argument = (value: unknown): string | number => {
  if (typeof value === 'boolean') return Number(value)
  return typeof value === 'number' ? value : String(value ?? '')
}

const keysOf = (templates: readonly string[], given: Given): string[] =>
  templates.flatMap((template) => fillKey(template, given) ?? [])

/**
 * A call of a script.
 *
 * @example
 * call('redrive', { q: 'emails', id: 'JOB0KHTOWnGLuC' })
 */
export function call<Name extends ScriptName>(script: Name, given: ArgumentsOf<Name>): ScriptCall
export function call(script: ScriptName, given: Given): ScriptCall {
  const contract: Contract = SCRIPTS[script]
  const { each = [], q } = given
  const keys = keysOf(contract.keys, given)
  if (keys.length < contract.keys.length) throw new TypeError(`A key of ${script} lacks a value`)
  const args: (string | number)[] = []
  for (const word of contract.args) {
    const name = word.replace('?', '')
    if (name !== word && given[name] === undefined) break
    args.push(argument(name === 'jobPrefix' ? fillKey(KEY_TEMPLATES.job, { q, id: '' }) : given[name]))
  }
  const elements = each.map((element) => ({ ...element, q }))
  return {
    script,
    keys: [
      ...keys,
      ...keysOf(contract.optionalKeys ?? [], given),
      ...(contract.keysEach ?? []).flatMap((template) =>
        elements.flatMap((element) => keysOf([template], element)),
      ),
    ],
    args: [
      ...args,
      ...each.flatMap((element) => (contract.argsEach ?? []).map((word) => argument(element[word]))),
    ],
  }
}

const isCall = (command: Command | ScriptCall): command is ScriptCall => 'script' in command

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
export async function run(port: RedisPort, commands: readonly (Command | ScriptCall)[]): Promise<Reply[]> {
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
