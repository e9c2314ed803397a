/**
 * `echomq-edge audit`: finds inconsistent jobs in the queues of a deployment, and repairs them with `--repair`.
 *
 * The exit code separates a fault from a failed audit: a deployment that cannot be reached is neither sound nor faulty.
 */
import type { Audited } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { isKnown, listQueues, queueOf } from '../connection.ts'
import { EXIT, exitCodeOf } from '../failure.ts'
import { print, printJson } from '../output.ts'
import { showStatus } from '../terminal.ts'

type Options = CommonOptions & { readonly queue?: readonly string[]; readonly repair?: true }
type Report = Omit<Audited, 'cursor'> & { readonly queue: string }

/** Ids that one request reads: the most that the API accepts. */
const STEP = 1000

const FOUND = 1
const INCOMPLETE = 3

export const auditCommand = defineCommand({
  usage: 'audit',
  summary: 'find and repair inconsistent jobs',
  description: 'Finds ghosts, orphans, duplicate entries, wrong scores and wrong states in queues.',
  options: [
    option('--queue <queue>', 'only this queue; may be given more than once (default: all queues)').argParser(
      (queue: string, others: readonly string[] = []) => [...others, queue],
    ),
    option('--repair', 'repair every case that has one correct fix'),
  ],
  json: 'print {"queues":[{"queue","checked","findings","repaired"}]} and nothing else',
  notes: `Exit codes:
  0  all queues are consistent
  1  something was found, repaired or not
  2  wrong usage
  3  the audit failed: no connection, a rejected token, no such queue`,
  examples: ['audit', 'audit --queue emails --queue orders --repair', 'audit --json'],
  async run(options: Options) {
    try {
      await run(options)
    } catch (error) {
      if (exitCodeOf(error) !== EXIT.usage) process.exitCode = INCOMPLETE
      throw error
    }
  },
})

async function run({ queue: names, repair, json, ...options }: Options): Promise<void> {
  const reports: Report[] = []
  for (const name of names ?? (await listQueues(options)).map(({ queue }) => queue)) {
    const queue = queueOf(name, options)
    const report = await auditQueue(queue, repair)
    showStatus('')
    // An audit of a queue that does not exist, such as a mistyped name, finds nothing either.
    if (names && report.checked === 0 && !(await isKnown(queue)))
      throw new Error(`There is no queue ${name}.`)
    reports.push(report)
    if (!json) print(summaryOf(report))
  }
  if (json) printJson({ queues: reports })
  else if (reports.length === 0) print('There are no queues.')
  if (reports.some(({ findings }) => findings.length > 0)) process.exitCode = FOUND
}

async function auditQueue(queue: ReturnType<typeof queueOf>, repair: true | undefined): Promise<Report> {
  // Redis may return a key twice during a scan, so findings are collected by id and kind.
  const findings = new Map<string, Audited['findings'][number]>()
  let [checked, repaired] = [0, 0]
  let cursor: string | undefined
  do {
    const step = await queue.audit({ cursor, limit: STEP, repair })
    for (const finding of step.findings) findings.set(`${finding.id} ${finding.kind}`, finding)
    checked += step.checked
    repaired += step.repaired
    cursor = step.cursor
    showStatus(`${queue.name}: ${checked} checked, ${findings.size} found`)
  } while (cursor !== undefined)
  return { queue: queue.name, checked, findings: [...findings.values()], repaired }
}

function summaryOf({ queue, checked, findings, repaired }: Report): string {
  const outcome = findings.length === 0 ? 'sound' : `${findings.length} found, ${repaired} repaired`
  const lines = findings.map(({ id, kind, sets }) => `  ${id} ${kind}: ${sets.join(', ') || 'in no set'}`)
  return [`${queue}: ${checked} checked, ${outcome}`, ...lines].join('\n')
}
