/**
 * The project's commands: `node src/dev/main.ts <command>`, which npm's scripts call.
 *
 * Exit codes: 0, 1 when a command failed, 2 when it was not understood.
 */

import { Command } from 'commander'
import { conformanceCommand } from './commands/conformance.ts'
import { demoCommand } from './commands/demo.ts'
import { deployCommand } from './commands/deploy.ts'
import { devCommand } from './commands/dev.ts'
import { tokenCommand } from './commands/token.ts'

const USAGE_ERROR = 2

const commands = [devCommand(), demoCommand(), conformanceCommand(), tokenCommand(), deployCommand()]
const program = new Command('echomq-edge')
  .description('A job queue for edge functions over HTTPS: its local stack and tools.')
  .enablePositionalOptions()

for (const command of commands) {
  program.addCommand(command.showHelpAfterError('(--help shows what there is)'))
  command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE_ERROR))
}
program.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE_ERROR))

try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
