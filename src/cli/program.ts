/** The command line: its commands, its help, and its exit code. */
import { Command, CommanderError } from 'commander'
import { auditCommand } from './commands/audit.ts'
import { claimCommand } from './commands/claim.ts'
import { localStackCommand } from './commands/dev.ts'
import { enqueueCommand } from './commands/enqueue.ts'
import { jobsCommand } from './commands/jobs.ts'
import { MOVE_COMMANDS } from './commands/moves.ts'
import { pauseCommand, resumeCommand } from './commands/pause.ts'
import { purgeCommand } from './commands/purge.ts'
import { queuesCommand } from './commands/queues.ts'
import { redriveCommand } from './commands/redrive.ts'
import { removeCommand } from './commands/remove.ts'
import { scheduleCommand } from './commands/schedule.ts'
import { settingsCommand } from './commands/settings.ts'
import { statsCommand } from './commands/stats.ts'
import { tokenCommand } from './commands/token.ts'
import { watchCommand } from './commands/watch.ts'
import { refuseTokenOption } from './connection.ts'
import { EXIT, EXIT_CODES_TEXT, type ExitCode, exitCodeOf, failureJson, failureText } from './failure.ts'
import { printError } from './output.ts'
import { PACKAGE } from './package-json.ts'

const HELP = `
Environment:
  EMQ_URL    URL of the deployment, such as https://queue.example.com
  EMQ_TOKEN  an API token; it is read from here only, and never printed

${EXIT_CODES_TEXT}

Examples:
  $ export EMQ_URL=http://127.0.0.1:8787 EMQ_TOKEN=dev-operator
  $ echomq-edge enqueue emails '{"to":"ada@example.com"}'
  $ echomq-edge claim emails --lease 1m
  $ echomq-edge complete emails JOB0KHTOWnGLuC 1
  $ echomq-edge watch emails

Durations have a unit: 500ms, 30s, 5m, 2h, 7d. Instants have a zone: 2026-11-29T15:00:00Z.
Every command has --json, and its own --help with examples.`

const COMMANDS = [
  enqueueCommand,
  claimCommand,
  ...MOVE_COMMANDS,
  queuesCommand,
  statsCommand,
  jobsCommand,
  redriveCommand,
  removeCommand,
  purgeCommand,
  scheduleCommand,
  settingsCommand,
  pauseCommand,
  resumeCommand,
  watchCommand,
  auditCommand,
  localStackCommand,
  tokenCommand,
]

/** Runs the command that the arguments name. Returns the exit code; a command may set `process.exitCode` instead. */
export async function runCommandLine(args: readonly string[]): Promise<ExitCode> {
  const program = new Command('echomq-edge')
    .description('A job queue for edge functions over HTTPS.')
    .version(PACKAGE.version)
    .addHelpText('after', HELP)
    .exitOverride()
  for (const create of COMMANDS)
    program.addCommand(create().exitOverride().showHelpAfterError('(--help lists the options)'))

  try {
    refuseTokenOption(args)
    await program.parseAsync(args, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    // commander has printed its own errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    printError(args.includes('--json') ? failureJson(error) : failureText(error))
    return exitCodeOf(error)
  }
}
