/**
 * The Upstash transport. For each trap of the pinned client, a test shows that the client has it and that the port
 * avoids it. The other tests have a Redis that is slow, wrong, stopped or has lost its scripts.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from '@upstash/redis'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { keyspace } from '../../src/protocol/keys.ts'
import { call } from '../../src/protocol/script-call.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { createDatabase, type Queue } from '../../src/queue/database.ts'
import { RedisError, type RedisPort, UpstreamError } from '../../src/queue/redis.ts'
import { integer, list, text } from '../../src/queue/replies.ts'
import { run } from '../../src/queue/scripts.ts'
import { createUpstashPort, RefusedTokenError } from '../../src/queue/upstash.ts'
import { createBridge } from '../../src/stack/bridge/bridge.ts'
import { startRedis } from '../../src/stack/redis-server.ts'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'
import { idsOf, outcome } from './support/results.ts'
import { readable } from './support/world.ts'

const shared = sharedRedis()
let port: RedisPort
beforeAll(() => {
  port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
})
beforeEach(() => shared.bridge.reset())

const SECRET = 'SECRET-1'

test('the port sends a command once, and the client with `retry: false` twice', async () => {
  shared.bridge.hangUp({ times: 10 })
  await expect(plainClient({ retry: false }).incr('hung-up')).rejects.toThrow()
  expect(await requests()).toBe(2)

  await shared.bridge.reset()
  shared.bridge.hangUp({ times: 10 })
  await expect(plainClient({ retry: { retries: 0 } }).incr('hung-up')).rejects.toThrow()
  expect(await requests()).toBe(1)

  await shared.bridge.reset()
  shared.bridge.hangUp({ times: 10 })
  await failure(port.send([['INCR', 'hung-up']]))
  expect(await requests()).toBe(1)
})

test('the port reports a lost reply and does not repeat the command, which the client does', async () => {
  shared.bridge.dropReply()
  expect(await plainClient({ retry: false }).incr('lost-theirs')).toBe(2)

  shared.bridge.dropReply()
  const error = await failure(port.send([['INCR', 'lost-ours']]))
  expect(error.answerLost).toBe(true)
  expect(await port.send([['GET', 'lost-ours']])).toEqual([new TextEncoder().encode('1')])
})

test('the port rejects a request that it aborts, and the client resolves with the reason of the abort', async () => {
  shared.bridge.delay(2_000, { times: 2 })
  const controller = new AbortController()
  const options = { signal: controller.signal, responseEncoding: false, enableAutoPipelining: false }
  const answered = plainClient(options).get('aborted')
  await expect.poll(requests).toBe(1)
  controller.abort('the reason')
  expect(await answered).toBe('the reason')

  const impatient = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 30 })
  const error = await failure(impatient.send([['GET', 'aborted']]))
  expect(error.message).toBe('Redis did not answer within 30 ms')
})

test('the errors of the port quote no command, and those of the client quote all of it', async () => {
  const answer = { status: 400, body: '{"error":"ERR boom"}' }
  shared.bridge.answer(answer)
  await expect(plainClient().set('emq:{q}:x', SECRET)).rejects.toThrow(SECRET)

  shared.bridge.answer(answer)
  await failure(port.send([['SET', 'emq:{q}:x', SECRET]]))
})

test('the port returns an error of one command in its place and runs the others', async () => {
  await port.send([['SET', 'text', 'x']])
  const replies = await port.send([
    ['INCR', 'text'],
    ['GET', 'text'],
  ])
  expect(replies).toEqual([
    new RedisError('ERR value is not an integer or out of range'),
    new TextEncoder().encode('x'),
  ])
})

test('the port returns strings as they are stored, and the client parses them as JSON', async () => {
  const texts = ['123', '00123', '1e3', 'true', 'null', '[1]', '{"a":1}', ' 1', '9007199254740993', '"x"']
  await port.send(texts.map((value, nth) => ['SET', `json:${nth}`, value]))
  const gets = texts.map((_, nth) => ['GET', `json:${nth}`])
  const theirs = await Promise.all(texts.map((_, nth) => plainClient().get(`json:${nth}`)))
  expect(theirs).toEqual([123, '00123', '1e3', true, null, [1], { a: 1 }, ' 1', '9007199254740993', 'x'])

  expect((await port.send(gets)).map(readable)).toEqual(texts)
  const script = "return {ARGV[1], {ARGV[2], {ARGV[3]}}, 'OK'}"
  const [nested] = await port.send([['EVAL', script, 0, '00123', 'null', 'OK']])
  expect(readable(nested)).toEqual(['00123', ['null', ['OK']], 'OK'])
})

test('the port returns text that looks like base64 or OK unchanged', async () => {
  for (const value of ['dmFsdWU=', 'YmFy', 'OK', 'bar', '', ' ', 'a=']) {
    const [, reply] = await port.send([
      ['SET', 'encoded', value],
      ['GET', 'encoded'],
    ])
    expect(readable(reply)).toBe(value)
  }
})

test('the port keeps bytes that are not UTF-8, and the client loses them', async () => {
  const script = 'local s = {} for i = 0, 255 do s[#s + 1] = string.char(i) end return table.concat(s)'
  const every = Uint8Array.from({ length: 256 }, (_, i) => i)
  const theirs = await plainClient().eval(script, [], [])
  expect(String(theirs)).toContain('\ufffd')

  expect(await port.send([['EVAL', script, 0]])).toEqual([every])
  expect(await port.send([['EVAL', `return {1, {(function() ${script} end)()}}`, 0]])).toEqual([[1, [every]]])
})

test('the port sends calls of one tick in separate requests, and the client merges them', async () => {
  const merging = plainClient()
  await Promise.all([merging.get('one'), merging.get('two')])
  expect(await requests()).toBe(1)

  await shared.bridge.reset()
  shared.bridge.hangUp({ match: 'first' })
  const [first, second] = await Promise.allSettled([
    port.send([['GET', 'first']]),
    port.send([['GET', 'second']]),
  ])
  expect([first.status, second.status]).toEqual(['rejected', 'fulfilled'])
  expect(await requests()).toBe(2)
})

const encoded = (text: string): string => Buffer.from(text).toString('base64')
const ANSWERS: readonly [string, { status: number; body: string; contentType?: string }][] = [
  ['502 and HTML', { status: 502, body: `<html>${SECRET}`, contentType: 'text/html' }],
  ['200 and HTML', { status: 200, body: `<html>${SECRET}`, contentType: 'text/html' }],
  ['200 and an empty body', { status: 200, body: '' }],
  ['200 and a truncated JSON text', { status: 200, body: `[{"result":"${SECRET}` }],
  ['an empty object', { status: 200, body: '{}' }],
  ['an error instead of the list', { status: 200, body: `{"error":"${SECRET}"}` }],
  ['a null', { status: 200, body: 'null' }],
  ['a number', { status: 200, body: '7' }],
  ['an empty list', { status: 200, body: '[]' }],
  ['one reply too few', { status: 200, body: `[{"result":"${encoded('a')}"}]` }],
  ['one reply too many', { status: 200, body: '[{"result":1},{"result":2},{"result":3}]' }],
  ['a reply of null', { status: 200, body: '[null,null]' }],
  ['a reply with neither result nor error', { status: 200, body: '[{"result":1},{}]' }],
  ['a result that is an object', { status: 200, body: '[{"result":1},{"result":{"a":1}}]' }],
  ['a result that is a boolean', { status: 200, body: '[{"result":1},{"result":true}]' }],
  ['a result that is not base64', { status: 200, body: '[{"result":1},{"result":"%%%%"}]' }],
  ['an error that is not a string', { status: 200, body: '[{"result":1},{"error":{"x":1}}]' }],
  ['401', { status: 401, body: `{"error":"WRONGPASS ${SECRET}"}` }],
  ['403 and no JSON', { status: 403, body: SECRET, contentType: 'text/plain' }],
  ['429', { status: 429, body: `{"error":"${SECRET}"}` }],
  ['500', { status: 500, body: `{"error":"ERR boom ${SECRET}"}` }],
  ['a redirect', { status: 302, body: '' }],
]

test.each(ANSWERS)('the port throws an UpstreamError for the answer: %s', async (_, answer) => {
  shared.bridge.answer(answer)
  await failure(
    port.send([
      ['SET', 'emq:{q}:x', SECRET],
      ['GET', 'emq:{q}:x'],
    ]),
  )
  expect(await requests()).toBe(1)
})

test('an error that names the request limit of the service is marked as overloaded', async () => {
  const said = 'ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.'
  shared.bridge.answer({ status: 400, body: JSON.stringify({ error: said }) })
  expect((await failure(port.send([['GET', 'x']]))).overloaded).toBe(true)

  const queue = queueOf()
  const each = JSON.stringify([{ error: said }, { error: said }])
  shared.bridge.answer({ status: 200, body: each })
  expect((await failure(queue.enqueueMany([{ payload: SECRET }]))).overloaded).toBe(true)
  expect((await failure(Promise.reject(new UpstreamError('x')))).overloaded).toBe(false)
})

test('a wrong token is a RefusedTokenError, and no command runs', async () => {
  const other = createUpstashPort({ url: shared.bridge.url, token: 'wrong', timeoutMs: 5_000 })
  const error = await failure(other.send([['SET', 'wrong-token', SECRET]]))
  expect(error).toBeInstanceOf(RefusedTokenError)
  expect(error.message).toBe('Redis refused the token of this deployment')
  expect(await port.send([['EXISTS', 'wrong-token']])).toEqual([0])
})

test('an answer that begins and never ends is a timeout', async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('[{"result":')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const impatient = createUpstashPort({ url, token: REST_TOKEN, timeoutMs: 50 })
  const error = await failure(impatient.send([['GET', SECRET]]))
  expect(error.message).toBe('Redis did not answer within 50 ms')
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

test('a server that refuses connections is an UpstreamError', async () => {
  const lost = createUpstashPort({ url: 'http://127.0.0.1:9', token: REST_TOKEN, timeoutMs: 5_000 })
  const error = await failure(lost.send([['GET', SECRET]]))
  expect(error.message).toBe('Redis did not answer')
})

test('a port works again when Redis has been restarted', async () => {
  const redis = await startRedis()
  const bridge = await createBridge({ redisUrl: redis.url, token: REST_TOKEN })
  const own = createUpstashPort({ url: bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
  const queue = createDatabase(own, { wireAccept: [], wireClaim: undefined }).queue(freshQueue())
  const ping = () => own.send([['PING']]).then(([pong]) => readable(pong))
  expect(await ping()).toBe('PONG')

  await redis.stop()
  await failure(ping())
  await failure(queue.claim({ limit: 1 }))
  await failure(queue.enqueueMany([{ payload: SECRET }]))

  const again = await startRedis({ port: redis.port, password: new URL(redis.url).password })
  expect(await until(() => ping().catch(() => undefined))).toBe('PONG')
  // Redis lost its scripts, so the requests load them again.
  expect(await queue.enqueueMany([{ payload: 'x' }])).toMatchObject([{ ok: true }])
  expect((await queue.claim({ limit: 1 })).jobs).toHaveLength(1)
  expect(await census(own, queue.name)).toEqual([])
  await bridge.stop()
  await again.stop()
})

test('every move works when Redis loses its scripts before every request', async () => {
  const queue = queueOf()
  shared.bridge.flushScripts(true)
  const ids = idsOf(await queue.enqueueMany([{ payload: 'a' }, { payload: 'b' }, { payload: 'c' }]))
  const [one = '', two = '', three = ''] = ids
  expect((await queue.claim({})).jobs.map(({ id }) => id)).toEqual([one])
  expect((await queue.claim({ limit: 2 })).jobs.map(({ id }) => id)).toEqual([two, three])
  expect(outcome(await queue.retry(one, 1, { delayMs: 50_000 }))).toEqual({
    ...{ id: one, status: 'scheduled', delayMs: 50_000 },
  })
  expect(outcome(await queue.reschedule(one, { delayMs: 0 }))).toEqual({ id: one, status: 'pending' })
  expect(outcome(await queue.complete(two, 1))).toEqual({ id: two, status: 'completed' })
  const settled = await queue.settle([{ action: 'fail', id: three, token: 1 }], { limit: 5 })
  expect(settled.results.map(outcome)).toEqual([{ id: three, status: 'dead' }])
  expect(settled.claimed?.jobs.map(({ id, token }) => [id, token])).toEqual([[one, 2]])
  expect(outcome(await queue.redrive(three))).toEqual({ id: three, status: 'pending' })
  expect(await queue.promote(10)).toEqual({ promoted: 0, ghosts: 0, more: false })
  expect(await queue.reap(10)).toEqual({ reaped: 0, dead: 0, ghosts: 0, more: false })
  expect(outcome(await queue.remove(three))).toEqual({ id: three, status: 'removed' })
  expect(await queue.purge('dead', 10)).toEqual({ removed: 0, more: false })
  shared.bridge.flushScripts(false)
  expect(await census(port, queue.name)).toEqual([])
})

test('twenty enqueues at once with a lost script store each job once', async () => {
  const queue = queueOf()
  await flush()
  await Promise.all(Array.from({ length: 20 }, (_, n) => queue.enqueueMany([{ payload: String(n) }])))
  expect(await queue.pendingSize()).toBe(20)
  expect(await census(port, queue.name)).toEqual([])
})

test('a call with a lost script is repeated without the commands that were sent with it', async () => {
  const queue = queueOf()
  await flush()
  await shared.bridge.reset()
  await queue.enqueueMany([{ payload: 'x' }])
  const counts = await shared.bridge.counts()
  expect(counts.requests).toBe(3)
  // One ZADD is that of the registry, the other that of the script.
  expect(counts.commands).toEqual({ zadd: 2, evalsha: 1, script: 1, eval: 1, exists: 1, hset: 1 })
  expect(await queue.enqueueMany([{ payload: 'y' }])).toHaveLength(1)
  expect(await requests()).toBe(4)
})

test('a call with a lost script lets the other script of the request run once', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }])
  await flush()
  await port.send([['SCRIPT', 'LOAD', SCRIPTS.claim.source]])
  const replies = await run(port, [
    call('claim', { q: queue.name, leaseMs: 60_000 }),
    call('promote', { q: queue.name, limit: 10 }),
    ['ZCARD', keyspace(queue.name).active],
  ])
  expect(list(replies[0])).toHaveLength(3)
  expect(replies.slice(1)).toEqual([0, 1])
})

test('the word NOSCRIPT in payloads, keys and names does not load a script', async () => {
  const text = 'NOSCRIPT No matching script. Please use EVAL.'
  const warm = queueOf()
  await warm.enqueueMany([{ payload: 'load the scripts' }])
  await warm.settle([], { limit: 1 })
  await shared.bridge.reset()
  const queue = queueOf('NOSCRIPT')
  await queue.enqueueMany([{ payload: text, idempotencyKey: 'NOSCRIPT' }])
  await queue.enqueueMany([{ payload: text, idempotencyKey: 'NOSCRIPT' }])
  const { jobs } = await queue.claim({ limit: 1, claimId: 'NOSCRIPT' })
  expect(jobs.map(({ payload }) => new TextDecoder().decode(payload))).toEqual([text])
  const { results } = await queue.settle([{ action: 'fail', id: jobs[0]?.id ?? '', token: 1, error: text }])
  expect(results.map(outcome)).toMatchObject([{ status: 'dead' }])
  expect((await shared.bridge.counts()).commands['script']).toBeUndefined()
  expect(await requests()).toBe(4)
})

test('an error that contains NOSCRIPT but does not begin with it is not repeated', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }])
  for (const error of [
    'ERR NOSCRIPT No matching script',
    'WRONGTYPE key NOSCRIPT',
    'ERR user_script: NOSCRIPT',
  ]) {
    await shared.bridge.reset()
    shared.bridge.answer({ status: 200, body: JSON.stringify([{ result: 1 }, { error }]) })
    await failure(queue.enqueueMany([{ payload: 'x' }]))
    expect(await requests()).toBe(1)
  }
  // The error of a command that is not a script loads none.
  await shared.bridge.reset()
  shared.bridge.answer({ status: 200, body: JSON.stringify([{ error: 'NOSCRIPT x' }]) })
  expect(await run(port, [['GET', 'x']])).toEqual([new RedisError('NOSCRIPT x')])
  expect(await requests()).toBe(1)
})

test('no script runs when Redis loads another one than the pinned one, or none', async () => {
  const queue = queueOf()
  await flush()
  await shared.bridge.reset()
  const other = Buffer.from('0'.repeat(40)).toString('base64')
  shared.bridge.answer({ status: 200, body: JSON.stringify([{ result: other }]) }, { match: '"LOAD"' })
  const error = await failure(queue.enqueueMany([{ payload: SECRET }]))
  expect(error.message).toBe('Redis loaded another script than the pinned one')
  expect(await queue.pendingSize()).toBe(0)
  expect((await shared.bridge.counts()).commands['eval']).toBeUndefined()

  shared.bridge.answer(
    { status: 200, body: JSON.stringify([{ error: `NOPERM ${SECRET}` }]) },
    { match: '"LOAD"' },
  )
  await flush()
  await failure(queue.enqueueMany([{ payload: SECRET }]))
  expect(await queue.pendingSize()).toBe(0)
})

test('a claim whose repeated script gets no reply is not sent a third time', async () => {
  const queue = queueOf()
  await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
  await flush()
  await shared.bridge.reset()
  shared.bridge.dropReply({ match: '"EVAL"' })
  await failure(queue.claim({ limit: 1 }))
  expect(await requests()).toBe(3)
  expect((await queue.stats()).counts).toMatchObject({ pending: 1, active: 1 })
})

test('a port reads its own writes from a service whose reads are stale', async () => {
  await port.send([['SET', 'lagging', 'old']])
  await shared.bridge.staleReads(true)
  const other = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
  await port.send([['SET', 'lagging', 'new']])
  expect((await port.send([['GET', 'lagging']])).map(text)).toEqual(['new'])
  expect((await other.send([['GET', 'lagging']])).map(text)).toEqual(['old'])

  const queue = queueOf()
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x' }]))
  expect(await queue.job(id)).toMatchObject({ id, state: 'pending' })
  expect((await queue.stats()).counts.pending).toBe(1)
})

test('the port returns integers, nil, empty strings and lists at every depth', async () => {
  const script = "return {0, -1, 4294967296, false, {}, {{}}, '', {'a', {false, 'b'}}}"
  const [reply] = await port.send([['EVAL', script, 0]])
  expect(readable(reply)).toEqual([0, -1, 4294967296, null, [], [[]], '', ['a', [null, 'b']]])
  const [first] = list(reply)
  expect(integer(first)).toBe(0)
})

/** The unwrapped client. */
function plainClient(options: Record<string, unknown> = {}) {
  return new Redis({ url: shared.bridge.url, token: REST_TOKEN, enableTelemetry: false, ...options })
}

async function requests(): Promise<number> {
  return (await shared.bridge.counts()).requests
}

/** The error of a rejected promise. Checks its class, and that it quotes nothing that was sent or received. */
async function failure(promise: Promise<unknown>): Promise<UpstreamError> {
  const thrown = await promise.then(
    (value) => expect.fail(`It resolved with ${JSON.stringify(value)}.`),
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(UpstreamError)
  const error = thrown as UpstreamError
  const everything = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause ?? '')}`
  for (const word of [SECRET, 'emq:{', 'EVALSHA', '<html', 'boom', REST_TOKEN])
    expect(everything).not.toContain(word)
  return error
}

function queueOf(name = freshQueue()): Queue {
  return createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(name)
}

function flush() {
  return port.send([['SCRIPT', 'FLUSH']])
}
