/**
 * A connection past the bridge, for what tests do themselves and for what other clients do: nothing of it is counted
 * and it meets no fault.
 */
import { afterAll, beforeAll } from 'vitest'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { RedisError, type Reply } from '../../src/queue/redis.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import type { SharedRedis } from './redis.ts'

export type Value = string | number | null | Value[]

export type RawRedis = {
  readonly port: RespPort
  /** Runs one command; strings come back as text. Throws what Redis refuses. */
  run(...command: (string | number)[]): Promise<Value>
}

const decoder = new TextDecoder()

function toValue(reply: Reply): Value {
  if (reply instanceof RedisError) throw new Error(reply.text)
  if (reply instanceof Uint8Array) return decoder.decode(reply)
  return reply === null || typeof reply === 'number' ? reply : reply.map(toValue)
}

/** Call at the top of a test file, behind `sharedRedis`. Redis then knows the scripts already, so costs are constant. */
export function rawRedis(shared: SharedRedis): RawRedis {
  let port: RespPort | undefined
  beforeAll(async () => {
    port = await createRespPort(shared.redis.url)
    await port.send(Object.values(SCRIPTS).map(({ source }) => ['SCRIPT', 'LOAD', source]))
  })
  afterAll(() => port?.close())
  const connected = (): RespPort => {
    if (port === undefined) throw new Error('rawRedis is only there while tests run.')
    return port
  }
  return {
    get port() {
      return connected()
    },
    async run(...command) {
      const [reply = null] = await connected().send([command])
      return toValue(reply)
    },
  }
}
