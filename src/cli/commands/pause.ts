/** `echomq-edge pause` and `resume`: whether jobs of a queue may be claimed. */
import { Command } from 'commander'
import { EchoMQError, type Queue } from '../../client/index.ts'
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
    .addHelpText(
      'after',
      `
A queue may be paused before its first job. Of one that was never used a note is written to stderr, in case its name is
mistyped; as JSON, "known" is false.

Example:
  $ echomq-edge ${verb} emails`,
    )
    .action(async (name: string, options: Options) => {
      const queue = queueOf(name, options)
      const known = await isKnown(queue)
      await queue[verb]()
      if (options.json) printJson({ queue: name, paused: verb === 'pause', known })
      else print(`${name} ${verb}d`)
      if (!known) process.stderr.write(`note: ${name} was never used. Is that its name?\n`)
    })
}

/** Whether the queue was ever used. */
async function isKnown(queue: Queue<string>): Promise<boolean> {
  try {
    await queue.stats()
    return true
  } catch (error) {
    if (error instanceof EchoMQError && error.code === 'not_found') return false
    throw error
  }
}
