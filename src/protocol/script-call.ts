/**
 * Calls of scripts. A call names its arguments; the generated registry knows the templates of the keys and the order of
 * the arguments. A missing or a misspelt argument does not compile.
 */
import { fillKey, KEY_TEMPLATES } from './keys.ts'
import { SCRIPTS, type ScriptName } from './scripts.generated.ts'

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

/** A run of a script: what EVALSHA takes behind the SHA-1. */
export type ScriptCall = {
  readonly script: ScriptName
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
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
