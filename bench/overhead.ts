/** What the Worker adds to one request: enqueue, claim and complete beside a Worker that only forwards. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { SCRIPTS } from '../src/bundle.ts'
import { keyspace } from '../src/protocol/keys.ts'
import { startStack } from '../src/stack/stack.ts'
import { type HttpRequest, load } from './connection.ts'
import { apiRequest, bareWorker, type HostedWorker, hostWorker, type Lab, payloadOf } from './lab.ts'
import type { Cell, Section } from './report.ts'
import { type Contender, once, type Readings, ratio, takeTurns } from './statistics.ts'

/** Sent one by one, for the time that a request takes. */
const ALONE = 200
/** Sent over several connections, for the number of requests a second. */
const TOGETHER = 1000
const CONNECTIONS = 32
const LEASE_MS = 3_600_000
/** Of the bare Worker: its one request is prepared, so it always claims from the same queue. */
const BARE_QUEUE = 'bench-bare'

export async function measureOverhead(lab: Lab): Promise<Section> {
  const { built, worker, effort } = lab
  const alone = effort.of(ALONE)
  const jobs = alone + effort.of(TOGETHER)
  await using parts = new AsyncDisposableStack()
  const forwarding = await hostWorker(bareWorker(built, FORWARD), lab, {
    values: { PREPARED: preparedClaim() },
  })
  parts.defer(forwarding.stop)
  const hello = await hostWorker(bareWorker(built, await bundled(HELLO)), lab)
  parts.defer(hello.stop)
  const stack = await startStack({ port: 0, restUrl: lab.restUrl, restToken: lab.restToken, quiet: true })
  parts.defer(stack.stop)

  const same = (request: HttpRequest): HttpRequest[] => Array.from({ length: jobs }, () => request)
  const health = same({ path: '/healthz' })
  const contenders: Contender[] = [
    {
      name: 'enqueue',
      run: (round) =>
        drive(
          alone,
          worker,
          Array.from({ length: jobs }, (_, nth) =>
            apiRequest(`bench-enqueue-${round}`, '/jobs', { payload: payloadOf(nth) }),
          ),
        ),
    },
    {
      name: 'claim',
      async run(round) {
        await fill(worker, `bench-claim-${round}`, jobs)
        return drive(alone, worker, same(apiRequest(`bench-claim-${round}`, '/claim', { leaseMs: LEASE_MS })))
      },
    },
    {
      name: 'complete',
      async run(round) {
        const name = `bench-complete-${round}`
        await fill(worker, name, jobs)
        const claimed = await claimAll(worker, name)
        return drive(
          alone,
          worker,
          claimed.map(({ id, token }) => apiRequest(name, `/jobs/${id}/complete`, { token })),
        )
      },
    },
    {
      name: 'forward',
      async run() {
        await fill(worker, BARE_QUEUE, jobs)
        return drive(alone, forwarding, same({ path: '/', body: {} }))
      },
    },
    { name: 'healthz', run: () => drive(alone, worker, health) },
    { name: 'hello', run: () => drive(alone, hello, health) },
    { name: 'healthz of `npm run dev`', run: () => drive(alone, { url: stack.url }, health) },
  ]
  const figures = await takeTurns(contenders, effort.rounds)

  const columns = [
    'request',
    'requests a second',
    'p50',
    'p99',
    'CPU a request',
    'requests a second, beside the bare Worker',
  ]
  const row = (label: string, name: string, beside: string): Cell[] => [
    label,
    figures(name, 'perSecond'),
    figures(name, 'p50'),
    figures(name, 'p99'),
    worker.cpuMicros() === undefined || name.includes('dev') ? null : figures(name, 'cpu'),
    name === beside ? '' : ratio(figures(name, 'perSecond'), figures(beside, 'perSecond')),
  ]
  const besideForward = (name: string) => ratio(figures(name, 'perSecond'), figures('forward', 'perSecond'))
  const benchmark = await redisBenchmark(lab, jobs)
  return {
    title: 'What the Worker adds to a request',
    notes: [
      `Requests a second are measured over ${CONNECTIONS} connections, p50 and p99 over one connection.`,
      'The Worker is the built one. It is reached without the front of the local stack and without the local router of the static assets, like the bare Workers beside it, which have the same compatibility date and flags.',
      'The bare forwarding Worker sends one prepared request, a claim, to the same REST bridge.',
      'CPU is the processor time of the process workerd, with the runtime itself. Load generator, workerd, bridge and Redis share the machine.',
      ...benchmark.notes,
    ],
    tables: [
      {
        columns,
        rows: [
          row('enqueue', 'enqueue', 'forward'),
          row('claim', 'claim', 'forward'),
          row('complete', 'complete', 'forward'),
          row('bare Worker: forwards a claim', 'forward', 'forward'),
          row('`GET /healthz`', 'healthz', 'hello'),
          row('`GET /healthz` under `npm run dev`', 'healthz of `npm run dev`', 'hello'),
          row('bare Worker: Hono, one route', 'hello', 'hello'),
          ...benchmark.rows,
        ],
      },
    ],
    charts: [
      {
        kind: 'bars',
        file: 'overhead',
        title: 'Requests a second through workerd',
        bars: [
          { label: 'enqueue', value: figures('enqueue', 'perSecond'), isOurs: true },
          { label: 'claim', value: figures('claim', 'perSecond'), isOurs: true },
          { label: 'complete', value: figures('complete', 'perSecond'), isOurs: true },
          { label: 'bare forwarding Worker', value: figures('forward', 'perSecond'), isOurs: false },
        ],
      },
    ],
    targets: [
      ...['enqueue', 'claim', 'complete'].map((name) => ({
        figure: `${name}: requests a second beside the bare forwarding Worker`,
        value: besideForward(name),
        limit: 'at least' as const,
        target: 0.8,
      })),
      {
        figure: '`npm run dev`: requests a second of `/healthz` beside the Worker without assets and front',
        value: ratio(figures('healthz of `npm run dev`', 'perSecond'), figures('healthz', 'perSecond')),
        limit: 'at least',
        target: 0.85,
      },
    ],
  }
}

type Driven = { readonly url: string; readonly cpuMicros?: HostedWorker['cpuMicros'] }

/** Sends the first requests one by one, and the others together. */
async function drive(
  first: number,
  { url, cpuMicros }: Driven,
  requests: readonly HttpRequest[],
): Promise<Readings> {
  const alone = await load(url, 1, requests.slice(0, first))
  const before = cpuMicros?.()
  const together = await load(url, CONNECTIONS, requests.slice(first))
  const after = cpuMicros?.()
  return {
    perSecond: [together.perSecond, '/s'],
    p50: [alone.p50, 'ms'],
    p99: [alone.p99, 'ms'],
    ...(before !== undefined &&
      after !== undefined && { cpu: [(after - before) / (requests.length - first), 'µs'] }),
  }
}

async function fill({ client }: HostedWorker, queue: string, jobs: number): Promise<void> {
  await client
    .queue(queue)
    .enqueueMany(Array.from({ length: jobs }, (_, nth) => ({ payload: payloadOf(nth) })))
}

async function claimAll({ client }: HostedWorker, queue: string) {
  const jobs = []
  for (;;) {
    const claimed = await client.queue(queue).claim({ limit: 100, leaseMs: LEASE_MS })
    if (claimed.length === 0) return jobs
    jobs.push(...claimed)
  }
}

/** The command of a claim, as clients in other languages send it. */
function claimCommand(): string[] {
  const { pending, active, jobPrefix } = keyspace(BARE_QUEUE)
  return ['EVALSHA', SCRIPTS.claim.sha1, '2', pending, active, jobPrefix, String(LEASE_MS)]
}

const preparedClaim = (): string => JSON.stringify(claimCommand())

const FORWARD = `
export default {
  fetch(request, env) {
    return fetch(env.UPSTASH_REDIS_REST_URL, {
      method: 'POST',
      headers: { authorization: 'Bearer ' + env.UPSTASH_REDIS_REST_TOKEN, 'content-type': 'application/json' },
      body: env.PREPARED,
    })
  },
}
`

const HELLO = `
import { Hono } from 'hono'
export default new Hono().get('/healthz', (c) => c.json({ status: 'ok' }))
`

async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    write: false,
  })
  return outputFiles.map(({ text }) => text).join('')
}

/** The same claim without HTTP: what Redis itself can do on this machine. */
async function redisBenchmark(
  { redis, worker }: Lab,
  jobs: number,
): Promise<{ rows: Cell[][]; notes: string[] }> {
  await fill(worker, BARE_QUEUE, jobs)
  const args = ['-h', '127.0.0.1', '-p', String(redis.port), '-c', String(CONNECTIONS), '-n', String(jobs)]
  try {
    const { stdout } = await promisify(execFile)('redis-benchmark', [...args, '--csv', ...claimCommand()])
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",...
    const fields = stdout.trim().split('\n').at(-1)?.split('","') ?? []
    return {
      rows: [
        [
          `\`redis-benchmark\`: claim without HTTP, ${CONNECTIONS} connections`,
          once(Number(fields[1]), '/s'),
          once(Number(fields[4]), 'ms'),
          once(Number(fields[6]), 'ms'),
          null,
          '',
        ],
      ],
      notes: [],
    }
  } catch {
    return { rows: [], notes: ['`redis-benchmark` is not installed here.'] }
  }
}
