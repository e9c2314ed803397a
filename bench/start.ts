/** How fast the Worker starts: its size, and the first request of an isolate that did not exist before. */

import type { BuiltWorker } from '../src/stack/wrangler.ts'
import { type HttpRequest, openConnection } from './connection.ts'
import { apiRequest, bareWorker, bindingsOf, hostWorker, type Lab, payloadOf } from './lab.ts'
import type { Section } from './report.ts'
import { type Contender, median, once, type Readings, takeTurns } from './statistics.ts'

/** Isolates a round. */
const ISOLATES = 10

const EMPTY = `export default { fetch: () => new Response('ok') }`

/** Makes an isolate for each new value of the header. */
const LOADER = `
let code
export default {
  fetch(request, env) {
    code ??= JSON.parse(env.CODE)
    return env.LOADER.get(request.headers.get('x-request-id'), () => code).getEntrypoint().fetch(request)
  },
}
`

export async function measureStart(lab: Lab): Promise<Section> {
  await using parts = new AsyncDisposableStack()
  const { built, effort } = lab
  const health: HttpRequest = { path: '/healthz' }
  const enqueue = apiRequest('bench-start', '/jobs', { payload: payloadOf(0) })
  const contenders: Contender[] = []
  for (const [name, worker, request] of [
    ['ours', built, health],
    ['enqueue', built, enqueue],
    ['empty', bareWorker(built, EMPTY), health],
  ] as const) {
    const code = JSON.stringify(codeOf(worker, bindingsOf(lab)))
    const loader = await hostWorker(bareWorker(built, LOADER), lab, {
      values: { CODE: code },
      loader: 'LOADER',
    })
    parts.defer(loader.stop)
    const connection = await openConnection(loader.url)
    parts.defer(connection.close)
    contenders.push({
      name,
      run: (round) =>
        timeStarts(effort.of(ISOLATES), (nth) =>
          connection.send({ ...request, headers: { 'x-request-id': `isolate-${round}-${nth}` } }),
        ),
    })
  }
  const figures = await takeTurns(contenders, effort.rounds)

  const cold = (name: string) => figures(name, 'cold')
  const row = (label: string, name: string) => [label, cold(name), figures(name, 'warm')]
  return {
    title: 'How fast the Worker starts',
    notes: [
      'workerd makes a new isolate for each first request. It loads, compiles and evaluates the code, and answers.',
      'Evaluation is the first request of our Worker minus the first request of the empty Worker.',
    ],
    tables: [
      {
        columns: ['the code', 'value'],
        rows: [
          ['size', once(built.bytes, 'bytes')],
          ['size, gzipped', once(built.gzippedBytes, 'bytes')],
          [
            'loading and evaluation',
            {
              unit: 'ms',
              rounds: cold('ours').rounds.map((value, round) => value - (cold('empty').rounds[round] ?? 0)),
            },
          ],
        ],
      },
      {
        columns: ['request', 'first of an isolate', 'second'],
        rows: [row('`GET /healthz`', 'ours'), row('enqueue', 'enqueue'), row('empty Worker', 'empty')],
      },
    ],
    charts: [],
    targets: [],
  }
}

/** The medians of the first and the second request to so many isolates. */
async function timeStarts(isolates: number, send: (nth: number) => Promise<unknown>): Promise<Readings> {
  const times = { cold: [] as number[], warm: [] as number[] }
  for (let nth = 0; nth < isolates; nth += 1) {
    for (const kind of ['cold', 'warm'] as const) {
      const sentAt = performance.now()
      await send(nth)
      times[kind].push(performance.now() - sentAt)
    }
  }
  return { cold: [median(times.cold), 'ms'], warm: [median(times.warm), 'ms'] }
}

/** What the runtime takes to load a Worker. */
function codeOf(built: BuiltWorker, env: Readonly<Record<string, string>>) {
  const modules = Object.entries(built.modules).map(([name, { type, contents }]) => {
    if (type === 'esm') return [name, { js: contents }]
    if (type === 'text') return [name, { text: contents }]
    throw new Error(`The start of a Worker with a module of the type ${type} cannot be measured.`)
  })
  return {
    compatibilityDate: built.compatibilityDate,
    compatibilityFlags: built.compatibilityFlags,
    mainModule: built.mainModule,
    modules: Object.fromEntries(modules),
    env,
  }
}
