/**
 * List prices, in dollars. Free allowances, the monthly fee of a plan and processor time are left out.
 *
 * https://upstash.com/pricing/redis (pay as you go), https://developers.cloudflare.com/workers/platform/pricing,
 * https://developers.cloudflare.com/durable-objects/platform/pricing (paid plan).
 */

const COMMAND = 0.2 / 100_000
const WORKER_REQUEST = 0.3 / 1_000_000
const OBJECT_REQUEST = 0.15 / 1_000_000

export type Usage = {
  readonly commands: number
  readonly requests: number
  readonly objectRequests?: number
}

export const priceOf = ({ commands, requests, objectRequests = 0 }: Usage): number =>
  commands * COMMAND + requests * WORKER_REQUEST + objectRequests * OBJECT_REQUEST
