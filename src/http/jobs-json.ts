/** Jobs in responses: JSON text that contains stored payloads unchanged. */
import { classifyJobId, mintedAt } from '../protocol/ids.ts'
import { payloadMembers } from '../protocol/json-text.ts'
import type { ClaimedJob } from '../queue/consume.ts'
import type { StoredJob } from '../queue/observe.ts'
import { iso, optionalIso } from './schemas.ts'

export type As = 'json' | 'text'

/** The JSON text of an object with more members at its end. */
const withMembers = (value: object, members: string): string =>
  `${JSON.stringify(value).slice(0, -1)},${members}}`

/** The mint time in an id; undefined for an ill-formed id of another client. */
const enqueuedAt = (id: string): string | undefined =>
  classifyJobId(id) === 'ill-formed' ? undefined : iso(mintedAt(id))

/** A claimed job. */
export const claimedJobText = (queue: string, job: ClaimedJob, as: As): string =>
  withMembers(
    {
      id: job.id,
      queue,
      token: job.token,
      attempt: job.attempt,
      maxAttempts: job.maxAttempts,
      leaseMs: job.leaseMs,
      enqueuedAt: enqueuedAt(job.id),
      headers: job.headers,
    },
    payloadMembers(job.payload, as),
  )

/** A job in a read. Payload and error texts only if the token may see them. */
export function storedJobText(
  queue: string,
  job: StoredJob,
  { as, withPayload, withErrors }: { as: As; withPayload: boolean; withErrors: boolean },
): string {
  const value = {
    id: job.id,
    queue,
    state: job.state,
    attempts: job.attempts,
    enqueuedAt: enqueuedAt(job.id),
    runAt: optionalIso(job.runAt),
    leaseUntil: optionalIso(job.leaseUntil),
    maxAttempts: job.maxAttempts,
    lapses: job.lapses,
    startBy: optionalIso(job.startBy),
    lastError: withErrors ? job.lastError : undefined,
    history: withErrors ? job.history?.map((entry) => ({ ...entry, at: iso(entry.at) })) : undefined,
  }
  return withPayload && job.payload !== undefined
    ? withMembers(value, payloadMembers(job.payload, as))
    : JSON.stringify(value)
}
