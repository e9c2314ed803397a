/**
 * The part of the HTTP API that the client's loop needs, in memory and on a fake clock, with faults on demand. It is for
 * tests that depend on time; `story.test.ts` tests the client against the real API.
 */
import { createMinter } from '../../../src/protocol/ids.ts'
import type { FakeClock } from './fake-clock.ts'

/** What happens to a request instead of a normal response. */
export type Fault =
  /** Carried out, but the response is lost. */
  | 'lost'
  /** Not carried out, and the connection is reset. */
  | 'reset'
  /** Neither carried out nor answered. */
  | 'silent'
  /** Like `silent`, and an abort has no effect. */
  | 'deaf'
  /** This response, without being carried out. */
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown }
  /** Carried out at once, answered later. */
  | { readonly slowMs: number }

export type Call = {
  readonly at: number
  readonly method: string
  readonly path: string
  // biome-ignore lint/suspicious/noExplicitAny: tests check a body field by field
  readonly body: any
  /** Aborted before it was answered. */
  aborted: boolean
}

type Row = {
  readonly id: string
  readonly payload: unknown
  token: number
  state: 'pending' | 'active' | 'scheduled' | 'dead'
  leaseEndsAt: number
  dueAt: number
  /** The token whose lease has lapsed. */
  lapsed: number
  lastError?: string
}

export type FakeApi = {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly calls: readonly Call[]
  /** The calls whose path has this end. */
  to(end: string): Call[]
  /** Faults for the next requests whose path has this end, one for each. */
  fail(end: string, ...faults: Fault[]): void
  /** One fault for all requests whose path has this end, until it is called without a fault. */
  failAlways(end: string, fault?: Fault): void
  /** Enqueues jobs without the client. Returns their ids. */
  put(...payloads: unknown[]): string[]
  readonly jobs: ReadonlyMap<string, Row>
  /** Lets another consumer claim an active job. */
  steal(id: string): void
  readonly idleMs: number
}

const DEFAULT_LEASE_MS = 30_000
const TOKEN = 'secret-token'
function problem(status: number, code: string, more: object = {}) {
  return {
    status,
    body: { type: '/docs', title: code, status, detail: 'as it is', code, requestId: 'r', ...more },
  }
}

export function createFakeApi(clock: FakeClock, idleMs = 1_000): FakeApi {
  const jobs = new Map<string, Row>()
  const claims = new Map<string, { readonly id: string; readonly token: number }[]>()
  const calls: Call[] = []
  const faults: { readonly end: string; readonly queue: Fault[] }[] = []
  const always = new Map<string, Fault>()
  const waiters: (() => void)[] = []
  let puts = 0

  const wake = (): void => {
    for (const waiter of waiters.splice(0)) waiter()
  }

  const sweep = (): void => {
    for (const row of jobs.values()) {
      if (row.state === 'active' && row.leaseEndsAt <= clock.now()) {
        row.state = 'pending'
        row.lapsed = row.token
      }
      if (row.state === 'scheduled' && row.dueAt <= clock.now()) row.state = 'pending'
    }
  }

  const put = (id: string, payload: unknown, delayMs = 0): void => {
    const state = delayMs > 0 ? 'scheduled' : 'pending'
    jobs.set(id, {
      id,
      payload,
      token: 0,
      state,
      leaseEndsAt: 0,
      dueAt: clock.now() + delayMs,
      lapsed: 0,
    })
    wake()
  }

  const { mint } = createMinter({ now: clock.epochMs })
  /** The ids that were enqueued under a key, in order. */
  const keys = new Map<string, readonly string[]>()

  // biome-ignore lint/suspicious/noExplicitAny: see `Call`
  const enqueueBatch = ({ jobs: batch, idempotencyKey }: any) => {
    const first = keys.get(idempotencyKey)
    if (first) return first.map((id) => ({ id, status: 'duplicate' }))
    const results = batch.map(enqueue)
    keys.set(
      idempotencyKey,
      results.map(({ id }: { id: string }) => id),
    )
    return results
  }

  // biome-ignore lint/suspicious/noExplicitAny: see `Call`
  const enqueue = (job: any) => {
    const [first] = keys.get(job.idempotencyKey) ?? []
    if (first) return { id: first, status: 'duplicate' }
    const { id = mint(), idempotencyKey } = job
    if (idempotencyKey) keys.set(idempotencyKey, [id])
    if (jobs.has(id)) return { id, status: 'duplicate' }
    put(id, job.text ?? job.payload, job.delayMs)
    return { id, status: job.delayMs > 0 ? 'scheduled' : 'enqueued' }
  }

  const handOut = (row: Row) => ({
    id: row.id,
    queue: 'q',
    token: row.token,
    payload: row.payload,
    enqueuedAt: '2026-01-01T00:00:00.000Z',
    leaseMs: row.leaseEndsAt - clock.now(),
  })

  // biome-ignore lint/suspicious/noExplicitAny: see `Call`
  const claim = async (body: any, signal: AbortSignal | null | undefined): Promise<object> => {
    const endsAt = clock.now() + (body.waitMs ?? 0)
    for (;;) {
      const again = claims.get(body.claimId)?.flatMap(({ id, token }) => {
        const row = jobs.get(id)
        return row?.token === token && row.state === 'active' && row.leaseEndsAt > clock.now() ? [row] : []
      })
      if (again && again.length > 0) return { jobs: again.map(handOut) }
      sweep()
      const pending = [...jobs.values()]
        .filter(({ state }) => state === 'pending')
        .sort((a, b) => (a.id < b.id ? -1 : 1))
      const taken = pending.slice(0, body.limit)
      for (const row of taken) {
        row.token++
        row.state = 'active'
        row.leaseEndsAt = clock.now() + (body.leaseMs ?? DEFAULT_LEASE_MS)
      }
      if (taken.length > 0) {
        claims.set(
          body.claimId,
          taken.map(({ id, token }) => ({ id, token })),
        )
        return { jobs: taken.map(handOut) }
      }
      if (clock.now() >= endsAt || signal?.aborted) return { jobs: [], retryAfterMs: idleMs }
      let cancel = (): void => {}
      await new Promise<void>((resolve) => {
        waiters.push(resolve)
        cancel = clock.after(endsAt - clock.now(), resolve)
        signal?.addEventListener('abort', () => resolve())
      })
      cancel()
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: see `Call`
  const move = (action: string, id: string, body: any) => {
    const row = jobs.get(id)
    if (!row) return problem(410, 'gone')
    if (row.token !== body.token) return problem(409, 'stale', { reason: 'superseded' })
    if (row.state !== 'active') {
      if (row.lapsed !== row.token) return problem(409, 'stale', { reason: 'released' })
      if (action !== 'complete') return problem(409, 'stale', { reason: 'lapsed' })
    }
    if (body.error !== undefined) row.lastError = body.error
    if (action === 'complete') {
      jobs.delete(id)
      return { status: 200, body: { id, status: 'completed' } }
    }
    if (action === 'extend') {
      row.leaseEndsAt = clock.now() + body.leaseMs
      return { status: 200, body: { id, status: 'extended', leaseMs: body.leaseMs } }
    }
    const delayMs = body.delayMs ?? (action === 'retry' ? 1_000 : 0)
    row.state = action === 'fail' ? 'dead' : delayMs > 0 ? 'scheduled' : 'pending'
    row.dueAt = clock.now() + delayMs
    if (row.state === 'pending') wake()
    return { status: 200, body: { id, status: action === 'retry' ? 'scheduled' : row.state, delayMs } }
  }

  const carryOut = async (
    call: Call,
    signal: AbortSignal | null | undefined,
  ): Promise<{ status: number; body: unknown }> => {
    const [, , , , ...rest] = call.path.split('/')
    const [what, id, action] = rest
    if (what === 'claim') return { status: 200, body: await claim(call.body, signal) }
    if (what === 'settle') {
      // biome-ignore lint/suspicious/noExplicitAny: see `Call`
      const results = call.body.items.map((item: any) => {
        const answer = move(item.action, item.id, item)
        return answer.status === 200 ? answer.body : { id: item.id, error: answer.body }
      })
      return { status: 200, body: { results } }
    }
    if (what === 'jobs' && id === undefined) {
      if (call.body.jobs) return { status: 200, body: { results: enqueueBatch(call.body) } }
      const answer = enqueue(call.body)
      return { status: answer.status === 'duplicate' ? 200 : 201, body: answer }
    }
    if (what === 'jobs' && id !== undefined && action !== undefined) return move(action, id, call.body)
    return problem(404, 'not_found')
  }

  const faultFor = (path: string): Fault | undefined => {
    const planned = faults.find(({ end, queue }) => queue.length > 0 && path.endsWith(end))
    return planned?.queue.shift() ?? [...always].find(([end]) => path.endsWith(end))?.[1]
  }

  const answer = ({
    status,
    body,
    headers = {},
  }: {
    status: number
    body?: unknown
    headers?: Record<string, string>
  }) =>
    new Response(body === undefined || typeof body === 'string' ? body : JSON.stringify(body), {
      status,
      headers: { 'content-type': 'application/json', ...headers },
    })

  return {
    calls,
    jobs,
    idleMs,
    to: (end) => calls.filter(({ path }) => path.endsWith(end)),
    fail(end, ...queue) {
      faults.push({ end, queue })
    },
    failAlways(end, fault) {
      if (fault) always.set(end, fault)
      else always.delete(end)
    },
    put: (...payloads) =>
      payloads.map((payload) => {
        const id = `JOB${String(puts++).padStart(11, '0')}`
        put(id, payload)
        return id
      }),
    steal(id) {
      const row = jobs.get(id)
      if (row) row.token++
    },
    async fetch(url, init) {
      const { pathname, search } = new URL(url)
      const { signal } = init
      const call: Call = {
        at: clock.now(),
        method: init.method ?? 'GET',
        path: pathname + search,
        body: typeof init.body === 'string' ? JSON.parse(init.body) : undefined,
        aborted: false,
      }
      calls.push(call)
      if (new Headers(init.headers).get('authorization') !== `Bearer ${TOKEN}`)
        return answer(problem(401, 'unauthorized'))

      let isAnswered = false
      const aborted = new Promise<never>((_, reject) => {
        signal?.addEventListener('abort', () => {
          call.aborted = !isAnswered
          reject(signal.reason)
        })
      })
      // The client also aborts after a response; then nothing awaits this.
      aborted.catch(() => {})
      const never = new Promise<never>(() => {})
      const fault = faultFor(call.path)
      if (fault === 'deaf') return never
      if (fault === 'silent') return aborted
      if (fault === 'reset') throw new TypeError('connection reset')
      if (fault === 'lost') {
        await carryOut(call, signal)
        throw new TypeError('connection reset')
      }
      if (fault && 'status' in fault) return answer(fault)
      const done = await Promise.race([carryOut(call, signal), aborted])
      if (fault)
        await Promise.race([new Promise<void>((resolve) => void clock.after(fault.slowMs, resolve)), aborted])
      isAnswered = true
      return answer(done)
    },
  }
}

/** Options for a client of this API. */
export function clientOf(api: FakeApi, clock: FakeClock) {
  return {
    url: 'https://queue.example.com',
    token: TOKEN,
    fetch: api.fetch,
    clock,
  }
}
