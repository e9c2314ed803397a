/** `npm run token`: makes an API token, shows it once, and keeps it nowhere. */

import { Command } from 'commander'
import { readTokens, SCOPES, type Scope } from '../../env.ts'
import { newToken, tokenEntry } from '../../http/auth.ts'
import { parseList } from '../../stack/options.ts'

type TokenOptions = {
  readonly name: string
  readonly scopes: readonly string[]
  readonly queues: readonly string[]
  readonly json?: boolean
}

export function tokenCommand(): Command {
  return new Command('token')
    .description('Makes an API token and its entry for the secret EMQ_TOKENS.')
    .requiredOption('--name <name>', 'who it is for; several tokens may have the same name')
    .requiredOption('--scopes <list>', `what it may do, with commas: ${SCOPES.join(', ')}`, parseList)
    .requiredOption('--queues <list>', 'queue names, or prefixes ending in *, with commas', parseList)
    .option('--json', 'print {"token","entry"} and nothing else')
    .addHelpText(
      'after',
      `
Examples:
  $ echomq-edge token --name web --scopes produce --queues emails,orders.*
  $ echomq-edge token --name worker --scopes consume --queues '*'
  $ echomq-edge token --name dashboard --scopes observe,observe:payload --queues '*' --json`,
    )
    .action(run)
}

async function run({ name, scopes, queues, json }: TokenOptions, command: Command): Promise<void> {
  const token = newToken()
  const entry = await tokenEntry(token, { name, scopes: scopes as readonly Scope[], queues })

  // The Worker's own reader decides, so that no token is made that a deployment would refuse.
  const reading = readTokens(JSON.stringify([entry]))
  if ('problem' in reading) command.error(`error: ${reading.problem.replace(/^entry 1 /, 'the token ')}`)

  process.stdout.write(
    json ? `${JSON.stringify({ token, entry })}\n` : explanation(token, JSON.stringify(entry)),
  )
}

function explanation(token: string, entry: string): string {
  return `The token, shown this once and kept nowhere:

  ${token}

Its entry for the secret EMQ_TOKENS, which holds a digest and not the token:

  ${entry}

The secret is a JSON array of such entries and can be replaced but not read back, so keep the array. To put it in
place, with this entry alone, or with it added to yours:

  echo ${shellQuoted(`[${entry}]`)} | npx wrangler secret put EMQ_TOKENS
`
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
