/**
 * A connection that bypasses the bridge, for what tests and other clients do: the bridge neither counts its commands
 * nor injects faults into them.
 */
import { afterAll, beforeAll } from 'vitest'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { RedisError, type Reply } from '../../src/queue/redis.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import type { SharedRedis } from './redis.ts'

export type Value = string | number | null | Value[]

export type RawRedis = {
  readonly port: RespPort
  /** Runs one command and returns strings as text. Throws an error that Redis returns. */
  run(...command: (string | number)[]): Promise<Value>
}

const decoder = new TextDecoder()

function toValue(reply: Reply): Value {
  if (reply instanceof RedisError) throw new Error(reply.text)
  if (reply instanceof Uint8Array) return decoder.decode(reply)
  return reply === null || typeof reply === 'number' ? reply : reply.map(toValue)
}

/** Call at the top of a test file, after `sharedRedis`. It loads the scripts, so that costs are constant. */
export function rawRedis(shared: SharedRedis): RawRedis {
  let port: RespPort | undefined
  beforeAll(async () => {
    port = await createRespPort(shared.redis.url)
    await port.send(Object.values(SCRIPTS).map(({ source }) => ['SCRIPT', 'LOAD', source]))
  })
  afterAll(() => port?.close())
  const connected = (): RespPort => {
    if (port === undefined) throw new Error('rawRedis is available only while tests run.')
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
