/** What readiness must know of a Redis, in one round trip. */
import { GLOBAL_KEYS } from '../protocol/keys.ts'
import { readTime } from './clock.ts'
import type { RedisPort } from './redis.ts'
import { optionalNumber, optionalText, text } from './replies.ts'
import { run } from './scripts.ts'

export type Probe = {
  /** The wire version of the database, for the version check. */
  readonly version: string | undefined
  /** Milliseconds since the last completed maintenance run. */
  readonly maintenanceAgeMs: number | undefined
  /** Whether Redis may delete rows when its memory is full: every queue then loses jobs. */
  readonly isEvicting: boolean
}

export async function probe(port: RedisPort): Promise<Probe> {
  const [version, mark, time, info] = await run(port, [
    ['GET', GLOBAL_KEYS.version],
    ['GET', GLOBAL_KEYS.maintenance],
    ['TIME'],
    ['INFO', 'memory'],
  ])
  const markedAt = optionalNumber(mark)
  return {
    maintenanceAgeMs: markedAt === undefined ? undefined : Math.max(0, readTime(time) - markedAt),
    // A service may not allow INFO.
    isEvicting: info instanceof Uint8Array && /maxmemory_policy:(?!noeviction)/.test(text(info)),
    version: optionalText(version),
  }
}
