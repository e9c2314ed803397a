/** The commands of this repository: their options, their help, and their exit codes. */

import { Command, CommanderError, Option } from 'commander'
import { devCommand, SECRETS_HELP } from '../stack/dev-command.ts'
import { parseUrl } from '../stack/options.ts'
import type { Endpoint } from './conformance-run.ts'

type DeployOptions = { readonly dryRun?: boolean; readonly env: string }

const OK = 0
const FAILED = 1
const NOT_UNDERSTOOD = 2

/**
 * Runs the command that the arguments name and prints its error, if any, to stderr. Returns the exit code: 0, 1 when
 * the command failed, 2 when the arguments are invalid.
 */
export async function runProgram(args: readonly string[]): Promise<number> {
  const program = new Command('echomq-edge')
    .description('A job queue for edge functions over HTTPS: its local stack and tools.')
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('(--help lists the options)')
  program.addCommand(devCommand().copyInheritedSettings(program))

  // Each command is imported when it runs: the help of one must not need the dependencies of the others.
  program
    .command('demo')
    .description(
      'Starts the stack on free ports, plays a story through the HTTP API and prints what happens.',
    )
    .action(async () => (await import('./demo.ts')).runDemo())
  program
    .command('conformance')
    .description(
      'Plays the gates L1 to L6 and further scenarios against an Upstash REST endpoint, by default an embedded one. ' +
        'Exits with 1 when any fails.',
    )
    .option('--url <url>', 'URL of the endpoint', parseUrl('https:', 'http:'))
    .addOption(new Option('--token <token>', 'token of the endpoint').env('EMQ_CONFORMANCE_TOKEN'))
    .addOption(
      new Option('--redis-url <url>', 'use this Redis over plain RESP instead')
        .argParser(parseUrl('redis:', 'rediss:'))
        .env('EMQ_CONFORMANCE_REDIS_URL'),
    )
    .addHelpText('after', SECRETS_HELP)
    .action(async (options: Endpoint, command: Command) => {
      const { url, token, redisUrl } = options
      if ((url === undefined) !== (token === undefined)) command.error('error: --url and --token go together')
      if (url && redisUrl) command.error('error: --url and --redis-url exclude each other')
      const passed = await (await import('./conformance-run.ts')).playConformance(options)
      process.exitCode = passed ? OK : FAILED
    })
  program
    .command('openapi')
    .description('Prints the OpenAPI document of the API.')
    .option('--check', 'lint the document instead; exit with 1 when it breaks a rule')
    .action(async ({ check }: { check?: boolean }) =>
      (await import('./openapi.ts')).printOrCheck(check ?? false),
    )
  program
    .command('deploy')
    .description('Deploys the Worker to Cloudflare. Further arguments go to `wrangler deploy`.')
    .option('--dry-run', 'build the Worker and print its size without deploying; fail when it is too large')
    .option('-e, --env <name>', 'use the section [env.<name>] of wrangler.toml', '')
    .argument('[arguments...]', 'for wrangler')
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (more: string[], { dryRun, env }: DeployOptions, command: Command) => {
      if (dryRun && more.length > 0) command.error('error: --dry-run takes no further arguments')
      const { deploy, weigh } = await import('./deploy.ts')
      await (dryRun ? weigh(env) : deploy(env, more))
    })

  try {
    await program.parseAsync(args, { from: 'user' })
    return OK
  } catch (error) {
    // commander has printed its own errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? OK : NOT_UNDERSTOOD
    process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
    return FAILED
  }
}
