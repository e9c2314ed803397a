/** `echomq-edge settings`: shows the settings of a queue, or changes some of them. */
import type { QueueStats } from '../../client/index.ts'
import { type CommonOptions, defineCommand, option } from '../command.ts'
import { queueOf, sendWith } from '../connection.ts'
import { UsageError } from '../failure.ts'
import { printJson, printTable } from '../output.ts'
import { parseCount, parseDuration } from '../values.ts'

/** `default` resets the setting. */
type Resettable = number | 'default'

type Options = CommonOptions & {
  readonly maxAttempts?: Resettable
  readonly backoffBase?: number
  readonly backoffMax?: number
  readonly lease?: Resettable
  readonly maxActive?: Resettable
  readonly maxPending?: Resettable
}

function orDefault(parse: (text: string) => number): (text: string) => Resettable {
  return (text) => (text === 'default' ? text : parse(text))
}

export const settingsCommand = defineCommand({
  usage: 'settings <queue>',
  summary: 'show or change the settings of a queue',
  description: 'Prints the settings of a queue. With options, changes these settings first.',
  options: [
    option('--max-attempts <count>', 'budget of jobs without their own; 0: no limit', orDefault(parseCount)),
    option('--backoff-base <duration>', 'ceiling of the first delay; needs --backoff-max', parseDuration),
    option('--backoff-max <duration>', 'highest ceiling; needs --backoff-base', parseDuration),
    option('--lease <duration>', 'lease of a claim that names none', orDefault(parseDuration)),
    option('--max-active <count>', 'the most active jobs; 0: no limit', orDefault(parseCount)),
    option('--max-pending <count>', 'the most pending jobs; 0: no limit', orDefault(parseCount)),
  ],
  json: 'print the settings as JSON',
  notes: 'The value `default` resets a setting.',
  examples: [
    'settings emails',
    'settings emails --max-attempts 10 --lease 2m',
    'settings emails --lease default',
  ],
  run,
})

async function run(queueName: string, options: Options): Promise<void> {
  const { maxAttempts, backoffBase, backoffMax, lease, maxActive, maxPending, json, ...connection } = options
  if ((backoffBase === undefined) !== (backoffMax === undefined))
    throw new UsageError('--backoff-base and --backoff-max go together.')
  const backoff = backoffBase === undefined ? undefined : { baseMs: backoffBase, maxMs: backoffMax }
  const given = { maxAttempts, backoff, leaseMs: lease, maxActive, maxPending }
  const changes = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, value === 'default' ? null : value]),
  )
  const queue = queueOf(queueName, connection)
  const isChange = Object.values(changes).some((value) => value !== undefined)
  const settings = isChange
    ? await sendWith<QueueStats['settings']>(connection, 'PUT', `/v1/queues/${queue.name}/settings`, changes)
    : (await queue.stats()).settings
  if (json) return printJson(settings)
  printTable(Object.entries(settings).map(([name, value]) => [name, JSON.stringify(value)]))
}
