/**
 * The test mode: what it counts, and each fault that it can make, as methods and over HTTP.
 */

import { createHash } from 'node:crypto'
import { Redis } from '@upstash/redis'
import { beforeEach, describe, expect, test } from 'vitest'
import { createRespPort } from '../../../src/stack/resp-port.ts'
import { REST_TOKEN, sharedRedis } from '../../support/redis.ts'

const shared = sharedRedis()
beforeEach(() => shared.bridge.reset())

const authorization = `Bearer ${REST_TOKEN}`

async function run(...parts: (string | number)[]): Promise<unknown> {
  const init = { method: 'POST', body: JSON.stringify(parts), headers: { authorization } }
  return (await fetch(shared.bridge.url, init)).json()
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(shared.bridge.url + path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { authorization },
  })
}

function control(name: string, args: unknown = {}): Promise<Response> {
  return post(`/__test/${name}`, args)
}

describe('counting', () => {
  test('counts commands and requests, each where it belongs', async () => {
    await run('SET', 'a', '1')
    await run('get', 'a')
    await post('/pipeline', [['GET', 'a'], ['INCR', 'a'], ['NOPE']])

    expect(await shared.bridge.counts()).toEqual({
      requests: 3,
      total: 4,
      commands: { set: 1, get: 2, incr: 1 },
    })
  })

  test('counts what scripts call, also inside a transaction', async () => {
    const script =
      "for i = 1, 3 do redis.call('HINCRBY', KEYS[1], 'n', 1) end return redis.call('HLEN', KEYS[1])"
    await run('EVAL', script, 1, 'counted')
    await run('EVALSHA', createHash('sha1').update(script).digest('hex'), 1, 'counted')
    await post('/multi-exec', [
      ['EVAL', script, 1, 'counted'],
      ['GET', 'missing'],
    ])

    expect(await shared.bridge.counts()).toEqual({
      requests: 3,
      total: 16,
      commands: { eval: 2, evalsha: 1, hincrby: 9, hlen: 3, get: 1 },
    })
  })

  test('does not count what others do, nor what their scripts call', async () => {
    const other = await createRespPort(shared.redis.url)
    const script = "return redis.call('GET', KEYS[1])"
    const both = Array.from({ length: 50 }, () => [
      run('EVAL', script, 1, 'ours'),
      other.send([
        ['EVAL', script, 1, 'theirs'],
        ['INCR', 'theirs'],
      ]),
    ])
    await Promise.all(both.flat())
    other.close()

    expect(await shared.bridge.counts()).toEqual({
      requests: 50,
      total: 100,
      commands: { eval: 50, get: 50 },
    })
  })

  test('is not confused by text that looks like a report', async () => {
    await run('SET', 'confusing', '1700000000.000000 [0 lua] "get" "x"\r\n+OK')

    expect((await shared.bridge.counts()).commands).toEqual({ set: 1 })
  })

  test('starts again after a reset', async () => {
    await run('PING')
    await shared.bridge.reset()

    expect(await shared.bridge.counts()).toEqual({ requests: 0, total: 0, commands: {} })
  })
})

describe('faults', () => {
  test('a dropped reply: executed, not answered', async () => {
    shared.bridge.dropReply()

    await expect(run('INCR', 'dropped')).rejects.toThrow()
    expect(await run('GET', 'dropped')).toEqual({ result: '1' })
  })

  test('a hang-up: neither executed nor answered', async () => {
    shared.bridge.hangUp({ times: 2 })

    await expect(run('INCR', 'hung-up')).rejects.toThrow()
    await expect(run('INCR', 'hung-up')).rejects.toThrow()
    expect(await run('GET', 'hung-up')).toEqual({ result: null })
    expect((await shared.bridge.counts()).requests).toBe(3)
  })

  test('the client of the service, not told to stop, sends again what it has sent', async () => {
    shared.bridge.dropReply()
    const client = new Redis({ url: shared.bridge.url, token: REST_TOKEN, retry: false })

    expect(await client.incr('twice')).toBe(2)
    expect((await shared.bridge.counts()).requests).toBe(2)
  })

  test('an answer in the place of Redis', async () => {
    shared.bridge.answer({ status: 502, body: '<html>', contentType: 'text/html' })

    const response = await post('/', ['INCR', 'answered'])
    expect(response.status).toBe(502)
    expect(response.headers.get('content-type')).toBe('text/html')
    expect(await response.text()).toBe('<html>')
    expect(await run('GET', 'answered')).toEqual({ result: null })
  })

  test('an answer that can have no body has none', async () => {
    shared.bridge.answer({ status: 204, body: 'ignored' })

    const response = await post('/', ['PING'])
    expect([response.status, await response.text()]).toEqual([204, ''])
  })

  test('a delay, of this request only', async () => {
    shared.bridge.delay(200)
    const finished: string[] = []
    const start = performance.now()

    const delayed = run('PING').then(() => finished.push('delayed'))
    // The second request goes out when the first has met its fault.
    await expect.poll(async () => (await shared.bridge.counts()).requests).toBe(1)
    await run('PING').then(() => finished.push('direct'))
    await delayed

    expect(finished).toEqual(['direct', 'delayed'])
    expect(performance.now() - start).toBeGreaterThanOrEqual(195)
  })

  test('of all requests, only those that contain a text', async () => {
    const broken = { status: 500, body: '{"error":"ERR boom"}' }
    shared.bridge.answer(broken, { times: Number.POSITIVE_INFINITY, match: 'emq:{q1}:' })

    expect(await run('GET', 'emq:{q1}:x')).toEqual({ error: 'ERR boom' })
    expect(await run('GET', 'emq:{q2}:x')).toEqual({ result: null })
    expect(await run('GET', 'emq:{q1}:x')).toEqual({ error: 'ERR boom' })
  })

  test('a body that a fault has looked at arrives as it was', async () => {
    shared.bridge.hangUp({ match: 'never there' })
    const body = new Uint8Array([0xff, 0x00, 0xfe])
    await fetch(`${shared.bridge.url}/set/looked-at`, { method: 'POST', body, headers: { authorization } })

    const headers = { authorization, 'upstash-encoding': 'base64' }
    const response = await fetch(`${shared.bridge.url}/get/looked-at`, { headers })
    expect(await response.json()).toEqual({ result: Buffer.from(body).toString('base64') })
  })

  test('are taken back by a reset', async () => {
    shared.bridge.hangUp({ times: 5 })
    shared.bridge.flushScripts(true)
    await shared.bridge.reset()
    await run('EVAL', 'return 7', 0)

    const sha = createHash('sha1').update('return 7').digest('hex')
    expect(await run('EVALSHA', sha, 0)).toEqual({ result: 7 })
  })
})

test('flushing scripts empties the cache before each request', async () => {
  const sha = createHash('sha1').update('return 8').digest('hex')
  shared.bridge.flushScripts(true)
  await run('SCRIPT', 'LOAD', 'return 8')

  expect(await run('EVALSHA', sha, 0)).toEqual({ error: expect.stringMatching(/^NOSCRIPT/) })
  expect((await shared.bridge.counts()).commands).toEqual({ script: 1, evalsha: 1 })

  shared.bridge.flushScripts(false)
  await run('SCRIPT', 'LOAD', 'return 8')
  expect(await run('EVALSHA', sha, 0)).toEqual({ result: 8 })
})

describe('stale reads', () => {
  const clientOf = (readYourWrites: boolean) =>
    new Redis({ url: shared.bridge.url, token: REST_TOKEN, readYourWrites, automaticDeserialization: false })

  test('a caller without the sync token reads the past, one with it reads its own writes', async () => {
    await run('SET', 'stale', 'old')
    await run('RPUSH', 'list', 'kept')
    await shared.bridge.staleReads(true)

    const forgetful = clientOf(false)
    await forgetful.set('stale', 'new')
    expect(await forgetful.get('stale')).toBe('old')
    expect(await forgetful.lrange('list', 0, -1)).toEqual(['kept'])

    const attentive = clientOf(true)
    expect(await attentive.get('stale')).toBe('old')
    await attentive.set('fresh', 'mine')
    expect(await attentive.get('fresh')).toBe('mine')
    expect(await attentive.get('stale')).toBe('new')
  })

  test('writes and scripts always see what is', async () => {
    await run('SET', 'number', 1)
    await shared.bridge.staleReads(true)
    await run('SET', 'number', 5)

    expect(await run('INCR', 'number')).toEqual({ result: 6 })
    expect(await run('EVAL', "return redis.call('GET', KEYS[1])", 1, 'number')).toEqual({ result: '6' })
    expect(await run('GET', 'number')).toEqual({ result: '1' })
  })

  test('are counted like any other, and end', async () => {
    await run('SET', 'ending', 'old')
    await shared.bridge.staleReads(true)
    await run('SET', 'ending', 'new')
    await run('GET', 'ending')
    expect(await shared.bridge.counts()).toEqual({ requests: 3, total: 3, commands: { set: 2, get: 1 } })

    await shared.bridge.staleReads(false)
    expect(await run('GET', 'ending')).toEqual({ result: 'new' })
  })
})

describe('over HTTP', () => {
  test('each control does what its method does', async () => {
    expect((await control('drop-reply', { times: 1, match: 'over-http' })).status).toBe(204)
    await expect(run('INCR', 'over-http')).rejects.toThrow()

    await control('hang-up')
    await expect(run('INCR', 'over-http')).rejects.toThrow()

    await control('answer', { status: 429, body: '{"error":"x"}', times: 1 })
    expect((await post('/', ['PING'])).status).toBe(429)

    await control('delay', { ms: 1 })
    await control('flush-scripts', { on: true })
    await control('stale-reads', { on: true })
    await run('INCR', 'over-http')
    expect(await run('GET', 'over-http')).toEqual({ result: '1' })

    const counts = await control('counts')
    expect(await counts.json()).toEqual({ requests: 5, total: 3, commands: { incr: 2, get: 1 } })

    await control('reset')
    expect(await (await control('counts')).json()).toEqual({ requests: 0, total: 0, commands: {} })
  })

  test('needs the token, a known name and known arguments', async () => {
    expect((await fetch(`${shared.bridge.url}/__test/reset`, { method: 'POST' })).status).toBe(401)
    expect((await control('nonsense')).status).toBe(404)
    expect((await control('hang-up', { time: 1 })).status).toBe(400)
    expect((await control('answer', { status: 42, body: '' })).status).toBe(400)
    expect((await shared.bridge.counts()).requests).toBe(0)
  })
})
