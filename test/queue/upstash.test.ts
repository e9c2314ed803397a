/**
 * The Upstash transport: the traps of the pinned client, each shown to be there and shown to be avoided; and what comes
 * of a Redis that is slow, wrong, away, or has forgotten its scripts.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from '@upstash/redis'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
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

/** The client as it comes, with options of its own. */
const asItComes = (options: Record<string, unknown> = {}) =>
  new Redis({ url: shared.bridge.url, token: REST_TOKEN, enableTelemetry: false, ...options })

const requests = async (): Promise<number> => (await shared.bridge.counts()).requests

/** What was thrown, which must be ours and carry nothing of what was sent or received. */
async function failure(promise: Promise<unknown>): Promise<UpstreamError> {
  const thrown = await promise.then(
    (value) => expect.fail(`it answered ${JSON.stringify(value)}`),
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(UpstreamError)
  const error = thrown as UpstreamError
  const everything = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause ?? '')}`
  for (const word of [SECRET, 'emq:{', 'EVALSHA', '<html', 'boom', REST_TOKEN])
    expect(everything).not.toContain(word)
  return error
}

describe('a trap of the client:', () => {
  test('told not to retry, it sends twice; with no retries it sends once, and so do we', async () => {
    shared.bridge.hangUp({ times: 10 })
    await expect(asItComes({ retry: false }).incr('hung-up')).rejects.toThrow()
    expect(await requests()).toBe(2)

    await shared.bridge.reset()
    shared.bridge.hangUp({ times: 10 })
    await expect(asItComes({ retry: { retries: 0 } }).incr('hung-up')).rejects.toThrow()
    expect(await requests()).toBe(1)

    await shared.bridge.reset()
    shared.bridge.hangUp({ times: 10 })
    await failure(port.send([['INCR', 'hung-up']]))
    expect(await requests()).toBe(1)
  })

  test('a lost answer makes it run a command again; we run it once and say that we do not know', async () => {
    shared.bridge.dropReply()
    expect(await asItComes({ retry: false }).incr('lost-theirs')).toBe(2)

    shared.bridge.dropReply()
    const error = await failure(port.send([['INCR', 'lost-ours']]))
    expect(error.answerLost).toBe(true)
    expect(await port.send([['GET', 'lost-ours']])).toEqual([new TextEncoder().encode('1')])
  })

  test('an aborted plain signal resolves as if Redis had answered; ours is an error', async () => {
    shared.bridge.delay(2_000, { times: 2 })
    const controller = new AbortController()
    const options = { signal: controller.signal, responseEncoding: false, enableAutoPipelining: false }
    const answered = asItComes(options).get('aborted')
    await expect.poll(requests).toBe(1)
    controller.abort('the reason')
    expect(await answered).toBe('the reason')

    const impatient = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 30 })
    const error = await failure(impatient.send([['GET', 'aborted']]))
    expect(error.message).toBe('Redis did not answer within 30 ms')
  })

  test('its error text quotes the whole command; ours quotes nothing', async () => {
    const answer = { status: 400, body: '{"error":"ERR boom"}' }
    shared.bridge.answer(answer)
    await expect(asItComes().set('emq:{q}:x', SECRET)).rejects.toThrow(SECRET)

    shared.bridge.answer(answer)
    await failure(port.send([['SET', 'emq:{q}:x', SECRET]]))
  })

  test('what Redis says of one command stays in its place, and stops no other', async () => {
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

  test('it parses strings as JSON; to us they are what is stored', async () => {
    const texts = ['123', '00123', '1e3', 'true', 'null', '[1]', '{"a":1}', ' 1', '9007199254740993', '"x"']
    await port.send(texts.map((value, nth) => ['SET', `json:${nth}`, value]))
    const gets = texts.map((_, nth) => ['GET', `json:${nth}`])
    const theirs = await Promise.all(texts.map((_, nth) => asItComes().get(`json:${nth}`)))
    expect(theirs).not.toEqual(texts)
    expect(theirs.slice(0, 2)).toEqual([123, '00123'])
    expect(theirs[6]).toEqual({ a: 1 })

    expect((await port.send(gets)).map(readable)).toEqual(texts)
    const script = "return {ARGV[1], {ARGV[2], {ARGV[3]}}, 'OK'}"
    const [nested] = await port.send([['EVAL', script, 0, '00123', 'null', 'OK']])
    expect(readable(nested)).toEqual(['00123', ['null', ['OK']], 'OK'])
  })

  test('text that looks like an encoding of text is kept', async () => {
    for (const value of ['dmFsdWU=', 'YmFy', 'OK', 'bar', '', ' ', 'a=']) {
      const [, reply] = await port.send([
        ['SET', 'encoded', value],
        ['GET', 'encoded'],
      ])
      expect(readable(reply)).toBe(value)
    }
  })

  test('it loses bytes that are not UTF-8; we keep each of them', async () => {
    const script = 'local s = {} for i = 0, 255 do s[#s + 1] = string.char(i) end return table.concat(s)'
    const every = Uint8Array.from({ length: 256 }, (_, i) => i)
    const theirs = await asItComes().eval(script, [], [])
    expect(String(theirs)).toContain('\ufffd')

    expect(await port.send([['EVAL', script, 0]])).toEqual([every])
    expect(await port.send([['EVAL', `return {1, {(function() ${script} end)()}}`, 0]])).toEqual([
      [1, [every]],
    ])
  })

  test('it merges calls of one tick into one request, of which one failure fails all; ours stay apart', async () => {
    const merging = asItComes()
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
})

describe('an answer that is none', () => {
  const encoded = (text: string): string => Buffer.from(text).toString('base64')
  const ANSWERS: readonly [string, { status: number; body: string; contentType?: string }][] = [
    ['502 and HTML', { status: 502, body: `<html>${SECRET}`, contentType: 'text/html' }],
    ['200 and HTML', { status: 200, body: `<html>${SECRET}`, contentType: 'text/html' }],
    ['200 and nothing', { status: 200, body: '' }],
    ['200 and half a JSON text', { status: 200, body: `[{"result":"${SECRET}` }],
    ['an empty object', { status: 200, body: '{}' }],
    ['an error in the place of the list', { status: 200, body: `{"error":"${SECRET}"}` }],
    ['a null', { status: 200, body: 'null' }],
    ['a number', { status: 200, body: '7' }],
    ['an empty list', { status: 200, body: '[]' }],
    ['one reply too few', { status: 200, body: `[{"result":"${encoded('a')}"}]` }],
    ['one reply too many', { status: 200, body: '[{"result":1},{"result":2},{"result":3}]' }],
    ['a reply of null', { status: 200, body: '[null,null]' }],
    ['a reply with neither result nor error', { status: 200, body: '[{"result":1},{}]' }],
    ['a result that is an object', { status: 200, body: '[{"result":1},{"result":{"a":1}}]' }],
    ['a result that is a boolean', { status: 200, body: '[{"result":1},{"result":true}]' }],
    ['a result that is no base64', { status: 200, body: '[{"result":1},{"result":"%%%%"}]' }],
    ['an error that is no text', { status: 200, body: '[{"result":1},{"error":{"x":1}}]' }],
    ['401', { status: 401, body: `{"error":"WRONGPASS ${SECRET}"}` }],
    ['403 and no JSON', { status: 403, body: SECRET, contentType: 'text/plain' }],
    ['429', { status: 429, body: `{"error":"${SECRET}"}` }],
    ['500', { status: 500, body: `{"error":"ERR boom ${SECRET}"}` }],
    ['a redirect', { status: 302, body: '' }],
  ]

  test.each(ANSWERS)('is an error of ours and no more: %s', async (_, answer) => {
    shared.bridge.answer(answer)
    await failure(
      port.send([
        ['SET', 'emq:{q}:x', SECRET],
        ['GET', 'emq:{q}:x'],
      ]),
    )
    expect(await requests()).toBe(1)
  })

  test('tells when a plan of the service is used up, wherever it says so', async () => {
    const said = 'ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.'
    shared.bridge.answer({ status: 400, body: JSON.stringify({ error: said }) })
    expect((await failure(port.send([['GET', 'x']]))).overloaded).toBe(true)

    const queue = createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(freshQueue())
    const each = JSON.stringify([{ error: said }, { error: said }])
    shared.bridge.answer({ status: 200, body: each })
    expect((await failure(queue.enqueueMany([{ payload: SECRET }]))).overloaded).toBe(true)
    expect((await failure(Promise.reject(new UpstreamError('x')))).overloaded).toBe(false)
  })

  test('is a wrong token, of which Redis hears nothing', async () => {
    const stranger = createUpstashPort({ url: shared.bridge.url, token: 'wrong', timeoutMs: 5_000 })
    const error = await failure(stranger.send([['SET', 'by-a-stranger', SECRET]]))
    expect(error).toBeInstanceOf(RefusedTokenError)
    expect(error.message).toBe('Redis refused the token of this deployment')
    expect(await port.send([['EXISTS', 'by-a-stranger']])).toEqual([0])
  })

  test('is one that begins and never ends', async () => {
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

  test('is nobody there at all', async () => {
    const lost = createUpstashPort({ url: 'http://127.0.0.1:9', token: REST_TOKEN, timeoutMs: 5_000 })
    const error = await failure(lost.send([['GET', SECRET]]))
    expect(error.message).toBe('Redis did not answer')
  })
})

test('a Redis that was away is used again when it is back, by the same port', async () => {
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
  // It came back empty: the scripts are loaded again on the way.
  expect(await queue.enqueueMany([{ payload: 'x' }])).toMatchObject([{ ok: true }])
  expect((await queue.claim({ limit: 1 })).jobs).toHaveLength(1)
  expect(await census(own, queue.name)).toEqual([])
  await bridge.stop()
  await again.stop()
})

describe('a lost script cache', () => {
  const queueOf = (name = freshQueue()): Queue =>
    createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(name)
  const flush = () => port.send([['SCRIPT', 'FLUSH']])

  test('before every request stops no move', async () => {
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

  test('is met by twenty at once, and each of their jobs is there once', async () => {
    const queue = queueOf()
    await flush()
    await Promise.all(Array.from({ length: 20 }, (_, n) => queue.enqueueMany([{ payload: String(n) }])))
    expect(await queue.pendingSize()).toBe(20)
    expect(await census(port, queue.name)).toEqual([])
  })

  test('repeats the lost call and nothing that was sent beside it', async () => {
    const queue = queueOf()
    await flush()
    await shared.bridge.reset()
    await queue.enqueueMany([{ payload: 'x' }])
    const counts = await shared.bridge.counts()
    expect(counts.requests).toBe(3)
    // One ZADD is the registry's, the other the script's.
    expect(counts.commands).toEqual({ zadd: 2, evalsha: 1, script: 1, eval: 1, exists: 1, hset: 1 })
    expect(await queue.enqueueMany([{ payload: 'y' }])).toHaveLength(1)
    expect(await requests()).toBe(4)
  })

  test('of one script of two lets the other run once', async () => {
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

  test('is told by the text of the error and by nothing that stands in a job', async () => {
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

  test('is not an error that only quotes the word: nothing is sent again', async () => {
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
    // A command that is no script is never answered by loading one.
    await shared.bridge.reset()
    shared.bridge.answer({ status: 200, body: JSON.stringify([{ error: 'NOSCRIPT x' }]) })
    expect(await run(port, [['GET', 'x']])).toEqual([new RedisError('NOSCRIPT x')])
    expect(await requests()).toBe(1)
  })

  test('that loads as something else than the pinned script runs nothing', async () => {
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

  test('whose repair is cut off may have run or not, and what is not safe to repeat is not sent again', async () => {
    const queue = queueOf()
    await queue.enqueueMany([{ payload: 'x' }, { payload: 'y' }])
    await flush()
    await shared.bridge.reset()
    shared.bridge.dropReply({ match: '"EVAL"' })
    await failure(queue.claim({ limit: 1 }))
    expect(await requests()).toBe(3)
    expect((await queue.stats()).counts).toMatchObject({ pending: 1, active: 1 })
  })
})

test('a port reads what it has written, also where reads may lag behind', async () => {
  await port.send([['SET', 'lagging', 'old']])
  await shared.bridge.staleReads(true)
  const other = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 5_000 })
  await port.send([['SET', 'lagging', 'new']])
  expect((await port.send([['GET', 'lagging']])).map(text)).toEqual(['new'])
  expect((await other.send([['GET', 'lagging']])).map(text)).toEqual(['old'])

  const queue = createDatabase(port, { wireAccept: [], wireClaim: undefined }).queue(freshQueue())
  const [id = ''] = idsOf(await queue.enqueueMany([{ payload: 'x' }]))
  expect(await queue.job(id)).toMatchObject({ id, state: 'pending' })
  expect((await queue.stats()).counts.pending).toBe(1)
})

test('integers, nil, nothing and lists come through at every depth', async () => {
  const script = "return {0, -1, 4294967296, false, {}, {{}}, '', {'a', {false, 'b'}}}"
  const [reply] = await port.send([['EVAL', script, 0]])
  expect(readable(reply)).toEqual([0, -1, 4294967296, null, [], [[]], '', ['a', [null, 'b']]])
  const [first] = list(reply)
  expect(integer(first)).toBe(0)
})
