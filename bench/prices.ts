/**
 * List prices, in dollars. Free allowances and the monthly fee of a plan are left out.
 *
 * https://upstash.com/pricing/redis (pay as you go), https://developers.cloudflare.com/workers/platform/pricing,
 * https://developers.cloudflare.com/durable-objects/platform/pricing (paid plan).
 */

const COMMAND = 0.2 / 100_000
const WORKER_REQUEST = 0.3 / 1_000_000
const WORKER_CPU_MS = 0.02 / 1_000_000
const OBJECT_REQUEST = 0.15 / 1_000_000

export type Usage = {
  readonly commands: number
  readonly requests: number
  readonly cpuMs?: number
  readonly objectRequests?: number
}

export const priceOf = ({ commands, requests, cpuMs = 0, objectRequests = 0 }: Usage): number =>
  commands * COMMAND + requests * WORKER_REQUEST + cpuMs * WORKER_CPU_MS + objectRequests * OBJECT_REQUEST
