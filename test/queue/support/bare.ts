/**
 * One Redis for a test file, with plain connections to it and without the bridge: it counts nothing, so that a hundred
 * thousand jobs cost no more time than they must.
 */
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { createDatabase } from '../../../src/queue/database.ts'
import type { Command, RedisPort } from '../../../src/queue/redis.ts'
import { type RedisServer, startRedis } from '../../../src/stack/redis-server.ts'
import { createRespPort, type RespPort } from '../../../src/stack/resp-port.ts'
import { freshQueue } from '../../support/api.ts'
import { expectConsistent } from '../../support/census.ts'
import { serverNow, untilServer } from '../../support/clock.ts'
import { type Hand, handOn } from './hand.ts'
import { look, type Row, type World } from './world.ts'

export type BareRedis = ReturnType<typeof bareRedis>

/** The nth id in mint order. */
export const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`

/** Call at the top of a test file; the properties can be read while tests run. */
export function bareRedis() {
  let redis: RedisServer | undefined
  let port: RespPort | undefined
  beforeAll(async () => {
    redis = await startRedis()
    port = await createRespPort(redis.url)
  })
  afterAll(async () => {
    port?.close()
    await redis?.stop()
  })
  const started = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error('bareRedis can be used only while tests run.')
    return part
  }
  const connection = () => started(port)

  return {
    get port() {
      return connection()
    },
    get url() {
      return started(redis).url
    },
    /** Another connection, closed when the test has finished. */
    async connect(): Promise<RespPort> {
      const another = await createRespPort(started(redis).url)
      onTestFinished(() => another.close())
      return another
    },

    /** The scripts of a queue that no other test uses. */
    fresh: (): Hand => handOn(connection(), freshQueue()),
    /** The verbs of a queue, in an isolate of their own. */
    queueOf: (
      { queue }: { queue: string } = { queue: freshQueue() },
      options: { port?: RedisPort; now?: () => number } = {},
    ) =>
      createDatabase(
        options.port ?? connection(),
        { wireAccept: [], wireClaim: undefined },
        options.now,
      ).queue(queue),

    now: () => serverNow(connection()),
    /** Waits until the clock of the server has advanced. */
    pass: async (ms = 1) => untilServer(connection(), (await serverNow(connection())) + ms),

    world: async ({ queue }: { queue: string }): Promise<World> => (await look(connection(), queue)).world,
    row: async ({ queue }: { queue: string }, id = idOf(1)): Promise<Row | undefined> =>
      (await look(connection(), queue)).world.rows[id],
    /** Checks the invariants of a queue. */
    clean: ({ queue }: { queue: string }): Promise<void> => expectConsistent(connection(), queue),
  }
}

/** A port that records what it sends. */
export function recording(port: RedisPort): { port: RedisPort; sent: Command[][] } {
  const sent: Command[][] = []
  return {
    sent,
    port: {
      send(commands) {
        sent.push([...commands])
        return port.send(commands)
      },
    },
  }
}
