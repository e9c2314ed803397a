/** `npm run dev` and `echomq-edge dev`: runs the local stack in the foreground until it is asked to end. */

import { Command, Option } from 'commander'
import { say } from './debian.ts'
import { parseFolder, parsePort, parseUrl } from './options.ts'
import { DEFAULT_PORT, DEFAULT_REST_PORT } from './ports.ts'
import { stopWhenAsked } from './shutdown.ts'
import type { Stack, StackOptions } from './stack.ts'
import { contradictionIn } from './stack-options.ts'
import type { BuiltWorker } from './wrangler.ts'

type DevOptions = StackOptions & { readonly json?: boolean }

export const SECRETS_HELP =
  '\nEvery user of this machine can read the arguments of a command. Give passwords and tokens in the environment instead.'

/** The differences of a stack that runs outside a clone of the project. */
export type DevSurroundings = {
  /** Throws when the stack cannot run here. */
  readonly prepare?: () => void
  /** Returns a Worker that is built already. */
  readonly worker?: (() => BuiltWorker) | undefined
}

export function devCommand({ prepare, worker }: DevSurroundings = {}): Command {
  return new Command('dev')
    .description(
      'Starts a working queue on this machine: Redis, a REST bridge in place of Upstash, the Worker in workerd, and ' +
        'its cron. Variables EMQ_* of the environment reach the Worker.',
    )
    .option(
      '--port <port>',
      `of the HTTP API (default: ${DEFAULT_PORT}, or a free one if that is busy)`,
      parsePort,
    )
    .option(
      '--rest-port <port>',
      `of the bridge (default: ${DEFAULT_REST_PORT}, or a free one if that is busy)`,
      parsePort,
    )
    .addOption(
      new Option('--redis-url <url>', 'use this Redis instead of starting one')
        .argParser(parseUrl('redis:', 'rediss:'))
        .env('EMQ_DEV_REDIS_URL'),
    )
    .option(
      '--rest-url <url>',
      'use this Upstash database instead of Redis and bridge',
      parseUrl('https:', 'http:'),
    )
    .addOption(
      new Option('--rest-token <token>', 'of the database, or for the bridge (default: random)').env(
        'EMQ_DEV_REST_TOKEN',
      ),
    )
    .option('--data <folder>', 'keep the data of the embedded Redis in this folder', parseFolder)
    .option('--test-mode', 'enable the test controls of the bridge, see CONTRIBUTING.md')
    .option('--quiet', 'print only the ready line and warnings')
    .option('--json', 'print the ready line as JSON')
    .addHelpText('after', SECRETS_HELP)
    .action(async (options: DevOptions, command: Command) => {
      const contradiction = contradictionIn(options)
      if (contradiction !== undefined) command.error(`error: ${contradiction}`)
      prepare?.()
      await run(options, worker?.())
    })
}

async function run(options: DevOptions, worker: BuiltWorker | undefined): Promise<void> {
  // Before the stack is up nothing needs an orderly stop: its children end with this process.
  let stop = async (): Promise<void> => {}
  stopWhenAsked(() => stop())

  if (!options.quiet) say(`${worker ? 'Starting' : 'Building the Worker and starting'} the stack ...`)
  // Imported here: the help of this command works without the optional dependencies of the stack.
  const { startStack } = await import('./stack.ts')
  const stack = await startStack({ ...options, worker, env: process.env })
  stop = stack.stop

  const { url, restUrl, restToken, redisUrl } = stack
  const tokens = hasDevTokens() ? stack.tokens : {}
  for (const warning of stack.warnings) say(`warning: ${warning}`)
  if (!options.quiet) {
    const moved = movedPorts(stack, options)
    if (moved !== '') say(moved)
    // With --json, stdout has nothing but JSON.
    const stream = options.json ? process.stderr : process.stdout
    stream.write(introduction(stack, options))
  }
  const ready = { ready: true, url, restUrl, restToken, redisUrl, tokens }
  process.stdout.write(options.json ? `${JSON.stringify(ready)}\n` : `ready ${url}\n`)

  const failure = await stack.ended
  if (failure === undefined) return
  await stack.stop()
  throw new Error(failure)
}

/** `EMQ_TOKENS` in the environment replaces the development tokens. */
function hasDevTokens(): boolean {
  return process.env['EMQ_TOKENS'] === undefined
}

/** Names the default ports that are busy, and the ports that are used instead, in one line. */
function movedPorts({ url, restUrl }: Stack, { port, restPort, restUrl: given }: DevOptions): string {
  const places = [
    ...(port === undefined ? [[DEFAULT_PORT, url] as const] : []),
    ...(restPort === undefined && given === undefined ? [[DEFAULT_REST_PORT, restUrl] as const] : []),
  ]
  return places
    .filter(([usual, place]) => !place.endsWith(`:${usual}`))
    .map(([usual, place]) => `Port ${usual} is busy: using ${place} instead.`)
    .join(' ')
}

function introduction({ url, restUrl, restToken, redisUrl, tokens }: Stack, options: DevOptions): string {
  const areValid = hasDevTokens()
  // The password of a given Redis does not belong on the terminal.
  const redis =
    (options.redisUrl?.replace(/^(\w+:\/\/[^:/]*:).*@/, '$1***@') ?? redisUrl) || 'behind the REST URL'
  const curl = (token: string, path: string, body: string): string =>
    `  curl -X POST ${url}/v1/queues/emails/${path} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '${body}'`
  const examples = [
    curl(tokens.producer, 'jobs', '{"payload":{"to":"ada@example.com"}}'),
    curl(tokens.consumer, 'claim', '{"limit":1}'),
    curl(tokens.consumer, 'jobs/<id>/complete', '{"token":<token>}'),
  ]
  return `
  HTTP API   ${url}     (reference: ${url}/docs)
  REST       ${restUrl}   token: ${options.restToken === undefined ? restToken : 'the value of --rest-token'}
  Redis      ${redis}
  Tokens     ${areValid ? Object.values(tokens).join(', ') : 'the tokens of EMQ_TOKENS in the environment, without the development tokens'}
  Cron       runs now and once a minute; in local development only this stack runs it

${areValid ? `${examples.join('\n')}\n\n` : ''}`
}
