/**
 * A database: what an isolate knows of one Redis. It holds the version check, the minter of ids, the server's clock and
 * a small memory of each queue. An isolate may end at any time: losing all of it costs a few commands.
 */
import { createMinter, type Minter } from '../protocol/ids.ts'
import { keyspace } from '../protocol/keys.ts'
import { createServerClock } from './clock.ts'
import { type Bound, bind, type QueueMemory } from './context.ts'
import { createFence } from './fence.ts'
import { probe } from './health.ts'
import { type News, newsOf } from './news.ts'
import { type RedisPort, UpstreamError } from './redis.ts'
import { createRegistry } from './registry.ts'
import { createRememberedSweep } from './remembered-sweep.ts'
import { sweepAll } from './sweep.ts'
import * as verbs from './verbs.ts'

/** Queues that an isolate remembers; it forgets the one that it used longest ago first. */
const REMEMBERED_QUEUES = 1000

/** Which wire versions to accept, and which one to claim on a database that has none; undefined claims none. */
export type WireRules = { readonly wireAccept: readonly string[]; readonly wireClaim: string | undefined }

/** Spreads the news of a queue. Never throws. */
export type Tell = (queue: string, news: News) => void

export type Queue = Bound<typeof verbs> & { readonly name: string }
export type Database = ReturnType<typeof overPort>
export type OpenDatabase = Database & {
  /** The same database, with the version checked before the first command. */
  readonly fenced: Database
}

export function createDatabase(
  port: RedisPort,
  { wireAccept, wireClaim }: WireRules,
  now: () => number = Date.now,
  tell: Tell = () => {},
): OpenDatabase {
  const fence = createFence(port, { accept: wireAccept, claim: wireClaim })
  const isolate = {
    now,
    tell,
    fence,
    clock: createServerClock(port, now),
    minter: createMinter({ now }),
    memoryOf: createMemories(now),
  }
  const fencedPort: RedisPort = {
    async send(commands) {
      await fence.pass()
      return port.send(commands)
    },
  }
  return { ...overPort(port, isolate), fenced: overPort(fencedPort, isolate) }
}

type Isolate = {
  readonly now: () => number
  readonly tell: Tell
  readonly fence: ReturnType<typeof createFence>
  readonly clock: ReturnType<typeof createServerClock>
  readonly minter: Minter
  readonly memoryOf: (queue: string) => QueueMemory
}

function overPort(port: RedisPort, { now, tell, fence, clock, minter, memoryOf }: Isolate) {
  return {
    now,
    fence,
    clock,
    registry: createRegistry(port),
    probe: () => probe(port),
    async sweepAll(queues: readonly string[], limit: number) {
      const reports = await sweepAll(port, queues, limit)
      for (const [nth, report] of reports.entries())
        if (!(report instanceof UpstreamError)) tell(queues[nth] ?? '', { jobs: report.pending })
      return reports
    },
    /** All verbs of one queue. */
    queue(name: string): Queue {
      const context = { port, queue: name, keys: keyspace(name), minter, memory: memoryOf(name), now }
      return {
        name,
        ...bind(context, verbs, (verb, outcome, given) => {
          const news = newsOf(verb, outcome, context, given)
          if (news !== undefined) tell(name, news)
        }),
      }
    },
  }
}

function createMemories(now: () => number): (queue: string) => QueueMemory {
  const memories = new Map<string, QueueMemory>()
  return (queue) => {
    const memory = memories.get(queue) ?? {
      sweep: createRememberedSweep(now),
      held: new Map(),
      emptyClaims: 0,
      wasBusy: false,
    }
    memories.delete(queue)
    memories.set(queue, memory)
    const [oldest] = memories.keys()
    if (memories.size > REMEMBERED_QUEUES && oldest !== undefined) memories.delete(oldest)
    return memory
  }
}
