/** `echomq-edge token`: makes an API token, prints it once, and stores it nowhere. */
import { Command } from 'commander'
import { newToken, readTokens, SCOPES, type Scope, tokenEntry } from '../../protocol/tokens.ts'
import { UsageError } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { parseList } from '../values.ts'

type Options = {
  readonly name: string
  readonly scopes: readonly string[]
  readonly queues: readonly string[]
  readonly json?: true
}

export function tokenCommand(): Command {
  return new Command('token')
    .summary('make an API token')
    .description('Makes an API token and its entry for the secret EMQ_TOKENS.')
    .requiredOption('--name <name>', 'who the token is for; several tokens may have the same name')
    .requiredOption('--scopes <list>', `what the token may do, with commas: ${SCOPES.join(', ')}`, parseList)
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

async function run({ name, scopes, queues, json }: Options): Promise<void> {
  const token = newToken()
  const entry = await tokenEntry(token, { name, scopes: scopes as readonly Scope[], queues })

  // The Worker's own reader checks the entry, so a deployment accepts every token that is made here.
  const reading = readTokens(JSON.stringify([entry]))
  if ('problem' in reading) throw new UsageError(reading.problem.replace(/^entry 1 /, 'the token '))

  if (json) printJson({ token, entry })
  else print(explanation(token, JSON.stringify(entry)))
}

function explanation(token: string, entry: string): string {
  return `The token, printed this once and stored nowhere:

  ${token}

Its entry for the secret EMQ_TOKENS, which contains a digest and not the token:

  ${entry}

The secret is a JSON array of such entries. It can be replaced but not read, so keep the array. To set it to this entry
alone (add your other entries to the array):

  echo ${shellQuoted(`[${entry}]`)} | npx wrangler secret put EMQ_TOKENS`
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
