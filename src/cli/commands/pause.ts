/** `echomq-edge pause` and `resume`: whether jobs of a queue may be claimed. */
import { type CommonOptions, defineCommand } from '../command.ts'
import { isKnown, queueOf } from '../connection.ts'
import { print, printError, printJson } from '../output.ts'

export const pauseCommand = define(
  'pause',
  'stop claims',
  'Stops claims until `resume`. Jobs can still be enqueued, and running jobs are not affected.',
)

export const resumeCommand = define('resume', 'allow claims again', 'Allows claims again.')

function define(verb: 'pause' | 'resume', summary: string, description: string) {
  return defineCommand({
    usage: `${verb} <queue>`,
    summary,
    description,
    json: 'print the result as JSON',
    notes:
      'A queue may be paused before its first job. If the queue was never used, a note on stderr says so, in case the\nname is mistyped; with --json, "known" is false.',
    examples: [`${verb} emails`],
    async run(name: string, options: CommonOptions) {
      const queue = queueOf(name, options)
      const known = await isKnown(queue)
      const { paused } = await queue[verb]()
      if (options.json) printJson({ queue: name, paused, known })
      else print(`${name} ${verb}d`)
      if (!known) printError(`note: ${name} was never used. Is the name correct?`)
    },
  })
}
