/** The command line: its commands, its help, and how it ends. */
import { Command, CommanderError } from 'commander'
import { EchoMQError } from '../client/index.ts'
import { claimCommand } from './commands/claim.ts'
import { completeCommand } from './commands/complete.ts'
import { localStackCommand } from './commands/dev.ts'
import { enqueueCommand } from './commands/enqueue.ts'
import { extendCommand } from './commands/extend.ts'
import { failCommand } from './commands/fail.ts'
import { jobsCommand } from './commands/jobs.ts'
import { pauseCommand, resumeCommand } from './commands/pause.ts'
import { queuesCommand } from './commands/queues.ts'
import { redriveCommand } from './commands/redrive.ts'
import { releaseCommand } from './commands/release.ts'
import { removeCommand } from './commands/remove.ts'
import { retryCommand } from './commands/retry.ts'
import { statsCommand } from './commands/stats.ts'
import { tokenCommand } from './commands/token.ts'
import { watchCommand } from './commands/watch.ts'
import { refuseTokenOption } from './connection.ts'
import { causeOf, messageOf } from './error-text.ts'
import { EXIT, EXIT_CODES_TEXT, type ExitCode, exitCodeOf } from './exit-codes.ts'
import { PACKAGE } from './package-json.ts'
import { UsageError } from './usage-error.ts'

const HELP = `
Environment:
  EMQ_URL    where the deployment is, such as https://queue.example.com
  EMQ_TOKEN  an API token; it is read from here only, and never printed

${EXIT_CODES_TEXT}

Examples:
  $ export EMQ_URL=http://127.0.0.1:8787 EMQ_TOKEN=dev-operator
  $ echomq-edge enqueue emails '{"to":"ada@example.com"}'
  $ echomq-edge claim emails --lease 1m
  $ echomq-edge complete emails JOB0KHTOWnGLuC 1
  $ echomq-edge watch emails

Durations have a unit: 500ms, 30s, 5m, 2h, 7d. Instants have a zone: 2026-11-29T15:00:00Z.
Every command has --json, and a --help with examples of its own.`

const COMMANDS = [
  enqueueCommand,
  claimCommand,
  completeCommand,
  retryCommand,
  failCommand,
  releaseCommand,
  extendCommand,
  queuesCommand,
  statsCommand,
  jobsCommand,
  redriveCommand,
  removeCommand,
  pauseCommand,
  resumeCommand,
  watchCommand,
  localStackCommand,
  () => tokenCommand().summary('make an API token'),
]

/** Runs what the arguments say. Answers the exit code, unless the command has set its own. */
export async function runCommandLine(args: readonly string[]): Promise<ExitCode> {
  const program = new Command('echomq-edge')
    .description('A job queue for edge functions over HTTPS.')
    .version(PACKAGE.version)
    .addHelpText('after', HELP)
    .exitOverride()
  for (const create of COMMANDS)
    program.addCommand(create().exitOverride().showHelpAfterError('(--help shows what there is)'))

  try {
    refuseTokenOption(args)
    await program.parseAsync(args, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    // commander has said it already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    process.stderr.write(args.includes('--json') ? `${errorJson(error)}\n` : errorText(error))
    return codeOf(error)
  }
}

function codeOf(error: unknown): ExitCode {
  if (error instanceof UsageError) return EXIT.usage
  return error instanceof EchoMQError ? exitCodeOf(error.code) : EXIT.failed
}

function errorText(error: unknown): string {
  const { errors = [], requestId } = error instanceof EchoMQError ? error : {}
  // The first one is in the message.
  const fields = errors.slice(1).map(({ path, message }) => `  ${path} ${message}\n`)
  const request = requestId === undefined ? '' : `  request ${requestId}\n`
  const cause = causeOf(error)
  const why = cause === undefined ? '' : `  ${cause}\n`
  return `error: ${messageOf(error)}\n${why}${fields.join('')}${request}`
}

function errorJson(error: unknown): string {
  if (!(error instanceof EchoMQError)) return JSON.stringify({ error: { message: messageOf(error) } })
  const { code, message, status, reason, state, errors, retryable, requestId } = error
  const cause = causeOf(error)
  return JSON.stringify({
    error: { code, message, cause, status, reason, state, errors, retryable, requestId },
  })
}
