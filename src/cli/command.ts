/** The shape of every command that talks to a deployment: its help, and the options that all of them have. */
import { Argument, Command, Option } from 'commander'
import { type ConnectionOptions, urlOption } from './connection.ts'
import { parseToken } from './values.ts'

/** The options that every command has. */
export type CommonOptions = ConnectionOptions & { readonly json?: true }

type Parse = (text: string) => unknown

type Shape<Arguments extends unknown[]> = {
  /** The name and the arguments, as in `extend <queue> <id> <token>`. */
  readonly usage: string
  readonly summary: string
  readonly description: string
  /** What an argument is; those of `ARGUMENTS` need no entry. */
  readonly arguments?: Readonly<Record<string, string>>
  readonly options?: readonly Option[]
  /** What `--json` prints. */
  readonly json: string
  /** Paragraphs of the help between the options and the examples. */
  readonly notes?: string
  /** Command lines without `echomq-edge`. */
  readonly examples: readonly string[]
  readonly run: (...args: Arguments) => Promise<void>
}

/** The arguments that several commands share. */
const ARGUMENTS: Readonly<Record<string, readonly [description: string, parse?: Parse]>> = {
  '<queue>': [''],
  '<id>': ['id of the job'],
  '<token>': ['fencing token returned by claim', parseToken],
}

/** Returns a function that creates the command: commander keeps state in it, so each run needs a new one. */
export function defineCommand<Arguments extends unknown[]>(shape: Shape<Arguments>): () => Command {
  const { usage, summary, description, options = [], notes, examples, run } = shape
  const [name, ...names] = usage.split(' ')
  const lines = examples.map((example) => `  $ echomq-edge ${example}`)
  const title = lines.length === 1 ? 'Example:' : 'Examples:'
  return () => {
    const command = new Command(name).summary(summary).description(description)
    for (const argument of names) {
      const [text = shape.arguments?.[argument], parse] = ARGUMENTS[argument] ?? []
      const declared = new Argument(argument, text)
      command.addArgument(parse ? declared.argParser(parse) : declared)
    }
    for (const declared of options) command.addOption(declared)
    return command
      .addOption(urlOption())
      .option('--json', shape.json)
      .addHelpText('after', ['', ...(notes ? [notes, ''] : []), title, ...lines].join('\n'))
      .action(run as (...args: unknown[]) => Promise<void>)
  }
}

export function option(flags: string, description: string, parse?: Parse): Option {
  const declared = new Option(flags, description)
  return parse ? declared.argParser(parse) : declared
}
