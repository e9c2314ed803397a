/** `echomq-edge pause` and `resume`: whether jobs of a queue may be claimed. */
import { Command } from 'commander'
import { type ConnectionOptions, queueOf, urlOption } from '../connection.ts'
import { print, printJson } from '../output.ts'

type Options = ConnectionOptions & { readonly json?: true }

export function pauseCommand(): Command {
  return command(
    'pause',
    'stop claims',
    'Stops claims until `resume`. Jobs are still taken in, and what runs goes on.',
  )
}

export function resumeCommand(): Command {
  return command('resume', 'let claims go on', 'Lets claims go on.')
}

function command(verb: 'pause' | 'resume', summary: string, description: string): Command {
  return new Command(verb)
    .summary(summary)
    .description(description)
    .argument('<queue>')
    .addOption(urlOption())
    .option('--json', 'print the result as JSON')
    .addHelpText('after', `\nExample:\n  $ echomq-edge ${verb} emails`)
    .action(async (name: string, options: Options) => {
      await queueOf(name, options)[verb]()
      if (options.json) printJson({ queue: name, paused: verb === 'pause' })
      else print(`${name} ${verb}d`)
    })
}
