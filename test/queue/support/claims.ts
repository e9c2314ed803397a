/** The reply of the batch claim, by its parts. */
export type Batch = {
  readonly status: string
  readonly nextMs: number
  readonly ids: string[]
  readonly tokens: string[]
  readonly leases: number[]
}

export function batch(reply: unknown): Batch {
  const [status, nextMs, ...jobs] = reply as [string, number, ...(string | number)[]]
  const every = <T>(offset: number) => jobs.filter((_, nth) => nth % 7 === offset) as T[]
  return { status, nextMs, ids: every(0), tokens: every(2), leases: every(3) }
}
