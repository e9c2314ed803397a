import { expect, test } from 'vitest'
import type { RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { createRespPort } from '../../src/stack/resp-port.ts'
import { runConformance } from '../../src/tools/conformance.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()

/** Word for word, as every implementation of the protocol prints them. */
const GATE_LINES = [
  "L1 surface ok -- the machine's surface: claim, complete, retry, promote, reap join enqueue, browse, pending_size -- five new verbs, every transition one script",
  'L2 happy ok -- claim hands out the oldest job with a server-clock lease and fencing token 1; complete with the right token retires the row -- nothing remains',
  "L3 fence ok -- a stale token is refused on the wire: EMQSTALE; the lease holder's work survives the zombie's complete",
  'L4 schedule ok -- retry parks the job in the schedule, promote moves the due back to pending, and the next claim hands token 2 -- one job, two lives, one counter',
  'L5 dead ok -- attempts 2 against max 2 is the morgue: state dead, last_error kept, and the dead set browses in mint order like everything else',
  "L6 reap ok -- a 40 ms lease expires unanswered; reap returns the orphan to pending and the next claim holds token 2 -- crash recovery is one zset scan on the server's clock",
]

const restPort = () => createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })

async function lines(port: RedisPort, other?: RedisPort): Promise<string[]> {
  const printed: string[] = []
  const passed = await runConformance({ port, ...(other && { other }), print: (line) => printed.push(line) })
  expect(printed.filter((line) => line.includes('FAILED'))).toEqual([])
  expect(passed).toBe(true)
  return printed
}

test('all gates pass over REST and print one line each and PASS 6/6', async () => {
  const printed = await lines(restPort())
  expect(printed.slice(0, 6)).toEqual(GATE_LINES)
  expect(printed.at(-1)).toBe('PASS 6/6')
})

test('all gates pass over RESP, and with one client on each transport', async () => {
  const resp = await createRespPort(shared.redis.url)
  try {
    expect((await lines(resp)).at(-1)).toBe('PASS 6/6')
    expect((await lines(restPort(), resp)).at(-1)).toBe('PASS 6/6')
  } finally {
    resp.close()
  }
})

test('all gates pass on a Redis whose script cache is flushed before each call', async () => {
  shared.bridge.flushScripts(true)
  try {
    expect((await lines(restPort())).at(-1)).toBe('PASS 6/6')
  } finally {
    shared.bridge.flushScripts(false)
  }
})

test('all gates fail when Redis cannot be reached', async () => {
  const printed: string[] = []
  const port = createUpstashPort({ url: 'http://127.0.0.1:9', token: 'none', timeoutMs: 500 })
  expect(await runConformance({ port, print: (line) => printed.push(line) })).toBe(false)
  expect(printed.at(-1)).toBe('FAIL 0/6')
})
