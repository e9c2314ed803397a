/** Jobs as they travel: JSON text into which stored payloads are put as they are. */
import { classifyJobId, mintedAt } from '../protocol/ids.ts'
import { payloadMembers } from '../protocol/json-text.ts'
import type { ClaimedJob } from '../queue/consume.ts'
import type { StoredJob } from '../queue/observe.ts'
import { iso, optionalIso } from './schemas.ts'

export type As = 'json' | 'text'

/** An object with further members behind its own. */
const withMembers = (value: object, members: string): string =>
  `${JSON.stringify(value).slice(0, -1)},${members}}`

/** The mint time that an id carries; an id that another client made up carries none. */
const enqueuedAt = (id: string): string | undefined =>
  classifyJobId(id) === 'ill-formed' ? undefined : iso(mintedAt(id))

/** A claimed job. */
export const claimedJobText = (queue: string, job: ClaimedJob, as: As): string =>
  withMembers(
    { id: job.id, queue, token: job.token, leaseMs: job.leaseMs, enqueuedAt: enqueuedAt(job.id) },
    payloadMembers(job.payload, as),
  )

/** A job in a read. Payload and error texts only where they may be seen. */
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
