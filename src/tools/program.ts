/** The project's commands and what they have in common: help, refusals, exit codes. */

import { Command, CommanderError } from 'commander'
import { devCommand } from '../stack/dev-command.ts'
import { conformanceCommand } from './commands/conformance.ts'
import { demoCommand } from './commands/demo.ts'
import { deployCommand } from './commands/deploy.ts'
import { Failure } from './commands/failure.ts'
import { openapiCommand } from './commands/openapi.ts'

const OK = 0
const FAILED = 1
const NOT_UNDERSTOOD = 2

/**
 * Runs the command that the arguments name, and says how it went as an exit code: 0, 1 when the command failed, 2
 * when it was not understood, or what the command itself has for its failure. What went wrong is on stderr by then.
 */
export async function runProgram(args: readonly string[]): Promise<number> {
  const program = new Command('echomq-edge')
    .description('A job queue for edge functions over HTTPS: its local stack and tools.')
    .enablePositionalOptions()
    .exitOverride()
  for (const command of [
    devCommand(),
    demoCommand(),
    conformanceCommand(),
    openapiCommand(),
    deployCommand(),
  ]) {
    program.addCommand(command.exitOverride().showHelpAfterError('(--help shows what there is)'))
  }

  try {
    await program.parseAsync(args, { from: 'user' })
    return OK
  } catch (error) {
    // commander has said it already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? OK : NOT_UNDERSTOOD
    process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
    return error instanceof Failure ? error.exitCode : FAILED
  }
}
