/** `npm run dev`, and `echomq-edge dev`: the local stack in the foreground, until it is asked to end. */

import { Command } from 'commander'
import { contradictionIn } from './contradictions.ts'
import { say } from './debian.ts'
import { parseFolder, parsePort, parseUrl } from './options.ts'
import { DEFAULT_PORT, DEFAULT_REST_PORT } from './ports.ts'
import { stopWhenAsked } from './shutdown.ts'
import type { Stack } from './stack.ts'
import type { BuiltWorker } from './wrangler.ts'

type DevOptions = {
  readonly port?: number
  readonly restPort?: number
  readonly redisUrl?: string
  readonly restUrl?: string
  readonly restToken?: string
  readonly data?: string
  readonly quiet?: boolean
  readonly json?: boolean
  readonly testMode?: boolean
}

/** What is different where the stack is not in a clone of the project. */
export type DevSurroundings = {
  /** Throws when the stack cannot run here. */
  readonly prepare?: () => void
  /** A Worker that is built already. */
  readonly worker?: (() => BuiltWorker) | undefined
}

export function devCommand({ prepare, worker }: DevSurroundings = {}): Command {
  return new Command('dev')
    .description(
      'Starts a working queue on this machine: Redis, the REST bridge that stands for Upstash, the Worker in workerd, ' +
        'and its cron. Variables EMQ_* of the environment reach the Worker.',
    )
    .option(
      '--port <port>',
      `of the HTTP API (default: ${DEFAULT_PORT}, or a free one when that is busy)`,
      parsePort,
    )
    .option(
      '--rest-port <port>',
      `of the bridge (default: ${DEFAULT_REST_PORT}, or a free one when that is busy)`,
      parsePort,
    )
    .option('--redis-url <url>', 'use this Redis instead of starting one', parseUrl('redis:', 'rediss:'))
    .option(
      '--rest-url <url>',
      'use this Upstash database instead of Redis and bridge',
      parseUrl('https:', 'http:'),
    )
    .option('--rest-token <token>', 'of the database, or for the bridge')
    .option('--data <folder>', 'keep the data of the embedded Redis in this folder', parseFolder)
    .option('--test-mode', "switch on the bridge's test controls, see CONTRIBUTING.md")
    .option('--quiet', 'print nothing but the line that says it is ready, and warnings')
    .option('--json', 'print that line as JSON')
    .action(async (options: DevOptions, command: Command) => {
      const contradiction = contradictionIn(options)
      if (contradiction !== undefined) command.error(`error: ${contradiction}`)
      prepare?.()
      await run(options, worker?.())
    })
}

async function run(options: DevOptions, worker: BuiltWorker | undefined): Promise<void> {
  // Until the stack is up there is nothing to stop in order: what has been started ends with this process.
  let stop = async (): Promise<void> => {}
  stopWhenAsked(() => stop())

  const building = worker === undefined ? 'Building the Worker and starting' : 'Starting'
  if (!options.quiet) say(`${building} the stack ...`)
  // Imported here: what the stack stands on need not be installed for the help of this command.
  const { startStack } = await import('./stack.ts')
  const stack = await startStack({ ...options, worker, env: process.env })
  stop = stack.stop

  for (const warning of stack.warnings) say(`warning: ${warning}`)
  const moved = detour(stack, options)
  if (!options.quiet && moved !== '') say(moved)
  // A program that reads JSON gets nothing else on stdout.
  if (!options.quiet) (options.json ? process.stderr : process.stdout).write(introduction(stack, options))
  process.stdout.write(options.json ? `${readyJson(stack)}\n` : `ready ${stack.url}\n`)

  const broken = await stack.ended
  if (broken === undefined) return
  await stack.stop()
  throw new Error(broken)
}

function readyJson({ url, restUrl, restToken, redisUrl, tokens }: Stack): string {
  return JSON.stringify({ ready: true, url, restUrl, restToken, redisUrl, tokens })
}

/** Where the stack is instead of at its default ports, in one line; empty when it is there. */
function detour({ url, restUrl }: Stack, { port, restPort, restUrl: given }: DevOptions): string {
  const places = [
    ...(port === undefined ? [[DEFAULT_PORT, url] as const] : []),
    ...(restPort === undefined && given === undefined ? [[DEFAULT_REST_PORT, restUrl] as const] : []),
  ]
  return places
    .filter(([usual, place]) => !place.endsWith(`:${usual}`))
    .map(([usual, place]) => `Port ${usual} is busy: taking ${place} instead.`)
    .join(' ')
}

function introduction({ url, restUrl, restToken, redisUrl, tokens }: Stack, options: DevOptions): string {
  const hasDevTokens = process.env['EMQ_TOKENS'] === undefined
  return `
  HTTP API   ${url}     (reference: ${url}/docs)
  REST       ${restUrl}   token: ${options.restToken === undefined ? restToken : 'that of --rest-token'}
  Redis      ${redisUrl === null ? 'behind the REST URL' : withoutPassword(redisUrl)}
  Tokens     ${hasDevTokens ? Object.values(tokens).join(', ') : 'those of EMQ_TOKENS in the environment, and none of the development tokens'}
  Cron       fired now and once a minute by this stack: locally nothing else does

${hasDevTokens ? examples(url, tokens) : ''}`
}

/** A password is whose it is, and not for the terminal. */
const withoutPassword = (url: string): string => url.replace(/^(\w+:\/\/[^:/]*:).*@/, '$1***@')

function examples(url: string, tokens: Stack['tokens']): string {
  const post = (token: string, path: string, body: string): string =>
    `  curl -X POST ${url}/v1/queues/emails/${path} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '${body}'\n`
  const lines = [
    post(tokens.producer, 'jobs', '{"payload":{"to":"ada@example.com"}}'),
    post(tokens.consumer, 'claim', '{"limit":1}'),
    post(tokens.consumer, 'jobs/<id>/complete', '{"token":<token>}'),
  ]
  return `${lines.join('')}\n`
}
