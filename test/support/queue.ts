/** One queue of the HTTP API: a function for each request that many tests send. */
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, type ApiAnswer, type CallOptions, freshQueue } from './api.ts'
import { until } from './until.ts'

export type ClaimedJob = {
  readonly id: string
  readonly token: number
  readonly leaseMs: number
  readonly payload?: unknown
  readonly text?: string
}

export type TestQueue = ReturnType<typeof queueOn>

/**
 * @param api Sends the requests. Two objects with the same name and different APIs are two isolates on one queue.
 * @param name A name that no other test uses, by default.
 *
 * @example
 *   const queue = queueOn(apiOn(shared))
 *   const id = await queue.enqueue({ delayMs: 50 })
 *   expect((await queue.post(`jobs/${id}/complete`, { token: 1 })).status).toBe(409)
 */
export function queueOn(api: Api, name = freshQueue()) {
  const path = `/v1/queues/${name}`
  const send = (method: string, end: string, body?: unknown, options?: CallOptions): Promise<ApiAnswer> =>
    api.call(method, end === '' ? path : `${path}/${end}`, body, options)
  const post = (end: string, body: unknown = {}, options?: CallOptions) => send('POST', end, body, options)

  return {
    name,
    path,
    keys: keyspace(name),

    /** Sends requests to paths below the queue's. A body that is a string is sent as it is. */
    send,
    get: (end = '', options?: CallOptions) => send('GET', end, undefined, options),
    post,
    put: (end: string, body: unknown = {}) => send('PUT', end, body),
    remove: (id: string) => send('DELETE', `jobs/${id}`),

    /** Enqueues a job, with payload 1 unless the body has another or a text, and returns its id. */
    async enqueue(body: object = {}): Promise<string> {
      return (await post('jobs', 'text' in body ? body : { payload: 1, ...body })).json.id
    },
    /** Enqueues so many jobs, with the payloads 0, 1, 2 and so on and more fields for each. Returns their ids. */
    async enqueueMany(count: number, more: object | ((nth: number) => object) = {}): Promise<string[]> {
      const jobs = Array.from({ length: count }, (_, nth) => ({
        payload: nth,
        ...(typeof more === 'function' ? more(nth) : more),
      }))
      return (await post('jobs', { jobs })).json.results.map(({ id }: ClaimedJob) => id)
    },
    /** Claims one job, or as the body says. */
    async claim(body: object = { limit: 1 }): Promise<ClaimedJob[]> {
      return (await post('claim', body)).json.jobs
    },
    /** Claims one job, with more fields of the body. Throws when there is none. */
    async claimOne(more: object = {}): Promise<ClaimedJob> {
      const { jobs } = (await post('claim', { limit: 1, ...more })).json
      if (jobs.length !== 1) throw new Error(`The claim returned ${jobs.length} jobs.`)
      return jobs[0]
    },
    /** Waits until a lease has lapsed and the reaper has taken its job; returns the reaper's answer. */
    reapOne: () =>
      until(async () => {
        const { json } = await post('reap')
        return json.reaped === 1 && json
      }),

    job: async (id: string): Promise<ApiAnswer['json']> => (await send('GET', `jobs/${id}`)).json,
    stats: async (): Promise<ApiAnswer['json']> => (await send('GET', '')).json,
    counts: async (): Promise<ApiAnswer['json']> => (await send('GET', '')).json.counts,
  }
}
