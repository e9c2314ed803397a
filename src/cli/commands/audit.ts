/**
 * `npm run audit`: looks through the queues of a deployment for jobs that are not where they should be, over its HTTP
 * API, and repairs them when it is told to.
 *
 * Exits with 0 when all is sound, with 1 when anything was found, repaired or not, and with 3 when it could not look: a
 * deployment that is away is not a sound one, nor a broken one.
 */

import { setTimeout } from 'node:timers/promises'
import { Command, Option } from 'commander'
import { MAX_MOVE_LIMIT, MAX_PAGE } from '../../protocol/limits.ts'
import type { AuditFinding } from '../../queue/audit.ts'
import { parseUrl } from '../../stack/options.ts'
import { Failure } from '../../tools/failure.ts'

type AuditOptions = {
  readonly url: string
  readonly token: string
  readonly queue?: readonly string[]
  readonly repair?: boolean
  readonly json?: boolean
}

type Report = {
  readonly queue: string
  readonly checked: number
  readonly findings: readonly AuditFinding[]
  readonly repaired: number
}

type Api = (method: 'GET' | 'POST', path: string, body?: object) => Promise<unknown>

/** A step is tried this often while the deployment says that it cannot answer now. */
const MAX_TRIES = 5

const FOUND = 1
const COULD_NOT_LOOK = 3

const HELP = `
Exit codes:
  0  all is sound
  1  something was found, repaired or not
  2  not understood
  3  could not look: no connection, a token that is refused, no such queue

Examples:
  $ npm run audit -- --url https://queue.example.com
  $ npm run audit -- --queue emails --queue orders --repair
  $ npm run audit -- --json

The token is better kept in EMQ_TOKEN: arguments are visible to others on the machine.`

export function auditCommand(): Command {
  return new Command('audit')
    .description('Looks through queues for ghosts, orphans, jobs in two sets, wrong scores and wrong states.')
    .addOption(
      new Option('--url <url>', 'of the HTTP API')
        .argParser(parseUrl('https:', 'http:'))
        .env('EMQ_URL')
        .makeOptionMandatory(),
    )
    .addOption(new Option('--token <token>', 'of an operator').env('EMQ_TOKEN').makeOptionMandatory())
    .option(
      '--queue <queue>',
      'only this one; may be given more than once (default: all that the API lists)',
      (queue: string, others: readonly string[] = []) => [...others, queue],
    )
    .option('--repair', 'repair what has one right answer')
    .option('--json', 'print {"queues":[{"queue","checked","findings","repaired"}]} and nothing else')
    .addHelpText('after', HELP)
    .action(async (options: AuditOptions) => {
      try {
        await run(options)
      } catch (error) {
        throw new Failure(error instanceof Error ? error.message : String(error), COULD_NOT_LOOK)
      }
    })
}

async function run({ url, token, queue, repair = false, json }: AuditOptions): Promise<void> {
  const api = apiOf(url, token)
  const progress = json ? () => {} : showProgress
  const reports: Report[] = []
  for (const name of queue ?? (await listQueues(api))) {
    const report = await auditQueue(api, name, repair, progress)
    progress(undefined)
    // Nothing is found in a queue that was never used, such as one whose name has a typo, either.
    if (queue && report.checked === 0 && !(await isKnown(api, name)))
      throw new Error(`There is no queue ${name}.`)
    reports.push(report)
    if (!json) process.stdout.write(summary(report))
  }
  if (json) process.stdout.write(`${JSON.stringify({ queues: reports })}\n`)
  else if (reports.length === 0) process.stdout.write('There are no queues.\n')
  if (reports.some(({ findings }) => findings.length > 0)) process.exitCode = FOUND
}

async function auditQueue(
  api: Api,
  queue: string,
  repair: boolean,
  progress: (line: string) => void,
): Promise<Report> {
  // Redis may give a key twice while it is walked: a finding is one finding.
  const findings = new Map<string, AuditFinding>()
  let [checked, repaired] = [0, 0]
  let cursor: string | undefined
  do {
    const step = (await api('POST', `/v1/queues/${encodeURIComponent(queue)}/audit`, {
      cursor,
      limit: MAX_MOVE_LIMIT,
      repair,
    })) as Omit<Report, 'queue'> & { readonly cursor?: string }
    for (const finding of step.findings) findings.set(`${finding.id} ${finding.kind}`, finding)
    checked += step.checked
    repaired += step.repaired
    cursor = step.cursor
    progress(`${queue}: ${checked} checked, ${findings.size} found`)
  } while (cursor !== undefined)
  return { queue, checked, findings: [...findings.values()], repaired }
}

async function isKnown(api: Api, queue: string): Promise<boolean> {
  try {
    await api('GET', `/v1/queues/${encodeURIComponent(queue)}`)
    return true
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return false
    throw error
  }
}

async function listQueues(api: Api): Promise<string[]> {
  const names: string[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({
      limit: String(MAX_PAGE),
      ...(cursor === undefined ? {} : { cursor }),
    })
    const page = (await api('GET', `/v1/queues?${query}`)) as {
      readonly queues: readonly { readonly queue: string }[]
      readonly cursor?: string
    }
    names.push(...page.queues.map(({ queue }) => queue))
    cursor = page.cursor
  } while (cursor !== undefined)
  return names
}

class Refusal extends Error {
  readonly status: number
  constructor(status: number, detail: unknown) {
    super(`The API answered ${status}. ${detail ?? ''}`.trim())
    this.status = status
  }
}

/** The API as one function. Repeats what the deployment could not answer: every request of an audit may be repeated. */
function apiOf(url: string, token: string): Api {
  const base = url.replace(/\/+$/, '')
  return async (method, path, body) => {
    for (let tries = 1; ; tries += 1) {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).catch(() => {
        throw new Error(`${base} cannot be reached.`)
      })
      if (response.ok) {
        return response.json().catch(() => {
          throw new Error(`${base} does not answer as the API does.`)
        })
      }
      const { detail } = await response.json().catch(() => ({ detail: undefined }))
      const retryAfter = response.headers.get('Retry-After')
      if (retryAfter === null || tries === MAX_TRIES) throw new Refusal(response.status, detail)
      await setTimeout(Number(retryAfter) * 1000)
    }
  }
}

/** One line on a terminal, written over and over; nothing where nobody watches. */
function showProgress(line: string | undefined): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${line ?? ''}`)
}

function summary({ queue, checked, findings, repaired }: Report): string {
  const outcome = findings.length === 0 ? 'sound' : `${findings.length} found, ${repaired} repaired`
  const lines = findings.map(({ id, kind, sets }) => `  ${id} ${kind}: ${sets.join(', ') || 'in no set'}\n`)
  return `${queue}: ${checked} checked, ${outcome}\n${lines.join('')}`
}
