/**
 * A database: everything that an isolate holds of one Redis. The port, the fence of versions, the minter of ids, and
 * what is remembered of each queue between requests. Losing all of it (an isolate may end at any time) costs a few
 * commands and nothing else.
 */
import type { Settings } from '../env.ts'
import { createMinter } from '../protocol/ids.ts'
import { DEFAULT_LEASE_MS } from '../protocol/limits.ts'
import { type HeldClaims, holdClaim } from '../wake/polling.ts'
import { createAuditor } from './audit.ts'
import { createConsumer, type Look } from './consume.ts'
import { createCore } from './core.ts'
import { createFence } from './fence.ts'
import { createObserver } from './observe.ts'
import { createOperator } from './operate.ts'
import { createProducer } from './produce.ts'
import type { RedisPort } from './redis.ts'

/** Queues that an isolate remembers; the one that was used longest ago is forgotten first. */
const REMEMBERED_QUEUES = 1000

const FIRST_HINT_MS = 50
const LONGEST_HINT_MS = 1_000

type Memory = { look: Look; emptyClaims: number; held: HeldClaims }

export type Database = ReturnType<typeof createDatabase>
export type Queue = ReturnType<Database['queue']>

export function createDatabase(
  port: RedisPort,
  wire: Pick<Settings, 'wireAccept' | 'wireClaim'>,
  now: () => number = Date.now,
) {
  const minter = createMinter({ now })
  const memories = new Map<string, Memory>()

  function memoryOf(name: string): Memory {
    const memory = memories.get(name) ?? {
      look: { at: Number.NEGATIVE_INFINITY, paused: false, capped: false, leaseMs: DEFAULT_LEASE_MS },
      emptyClaims: 0,
      held: new Map(),
    }
    memories.delete(name)
    memories.set(name, memory)
    const [oldest] = memories.keys()
    if (memories.size > REMEMBERED_QUEUES && oldest !== undefined) memories.delete(oldest)
    return memory
  }

  return {
    port,
    fence: createFence(port, { accept: wire.wireAccept, claim: wire.wireClaim }),
    /** What is known of the difference between the server's clock and ours; kept by maintenance. */
    clock: {
      offsetMs: 0,
      readAt: Number.NEGATIVE_INFINITY,
      markedAt: Number.NEGATIVE_INFINITY,
      seenAt: Number.NEGATIVE_INFINITY,
    },
    now,

    /** All verbs of one queue. */
    queue(name: string) {
      const memory = memoryOf(name)
      const { port } = this
      const operator = createOperator(port, name)
      const forget = (): void => {
        memory.look.at = Number.NEGATIVE_INFINITY
      }
      return {
        name,
        ...createCore(port, name),
        ...createProducer(port, name, minter),
        ...createConsumer(port, name, memory.look, now),
        ...createObserver(port, name),
        ...operator,
        ...createAuditor(port, name),
        // What this isolate changes itself it need not wait a second to see.
        pause: () => operator.pause().finally(forget),
        resume: () => operator.resume().finally(forget),
        changeSettings: (...args: Parameters<typeof operator.changeSettings>) =>
          operator.changeSettings(...args).finally(forget),

        /** Holds a claim that waits; a newer one under the same claimId ends its wait. */
        hold: (claimId: string | undefined) => holdClaim(memory.held, claimId),

        /** When to claim again after a claim that gave `jobs`, in ms: longer while the queue stays empty. */
        hintMs(jobs: number, nextMs: number | undefined): number {
          if (jobs > 0) {
            memory.emptyClaims = 0
            return 0
          }
          const growing = FIRST_HINT_MS * 2 ** Math.min(memory.emptyClaims++, 10)
          return Math.max(1, Math.ceil(Math.min(growing, LONGEST_HINT_MS, nextMs ?? LONGEST_HINT_MS)))
        },
      }
    },
  }
}
