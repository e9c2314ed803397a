/**
 * The REST protocol as a plain HTTP client sees it: paths, tokens, encodings, limits, status codes, errors.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Bridge, createBridge } from '../../../src/stack/bridge/bridge.ts'
import { READ_ONLY_TOKEN, REST_TOKEN, sharedRedis } from '../../support/redis.ts'

const shared = sharedRedis()

type Answer = { status: number; body: unknown }
type Request = RequestInit & { token?: string | undefined; headers?: Record<string, string> }

async function call(path: string, { token = REST_TOKEN, headers, ...init }: Request = {}): Promise<Answer> {
  const all = { authorization: `Bearer ${token}`, ...headers }
  const response = await fetch(shared.bridge.url + path, { ...init, headers: all })
  expect(response.headers.get('content-type')).toBe('application/json')
  return { status: response.status, body: await response.json() }
}

function command(parts: unknown, init: Request = {}): Promise<Answer> {
  return call('/', { method: 'POST', body: JSON.stringify(parts), ...init })
}

function pipeline(commands: unknown, init: Request = {}): Promise<Answer> {
  return call('/pipeline', { method: 'POST', body: JSON.stringify(commands), ...init })
}

function multiExec(commands: unknown, init: Request = {}): Promise<Answer> {
  return call('/multi-exec', { method: 'POST', body: JSON.stringify(commands), ...init })
}

const ok = (result: unknown): Answer => ({ status: 200, body: { result } })
const refused = (error: unknown, status = 400): Answer => ({ status, body: { error } })

describe('193: a web page cannot use the bridge', () => {
  const own = () => shared.bridge.url
  const ping = (headers: Record<string, string>) =>
    fetch(`${own()}/pipeline?_token=${REST_TOKEN}`, { method: 'POST', body: '[["PING"]]', headers })

  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://127.0.0.1:1' },
    { 'sec-fetch-site': 'cross-site' },
  ])('a request with %j is rejected', async (headers) => {
    const response = await ping({ 'content-type': 'text/plain', ...headers })
    expect(response.status).toBe(403)
    expect(await response.json()).toEqual({
      error: 'ERR The bridge rejects requests of foreign web pages.',
    })
  })

  test('a program, and a page of the bridge itself, are served', async () => {
    const accepted: Record<string, string>[] = [{}, { origin: own() }, { 'sec-fetch-site': 'same-origin' }]
    for (const headers of accepted) expect((await ping(headers)).status).toBe(200)
  })
})

describe('a command (fault 61)', () => {
  test('as a JSON array', async () => {
    expect(await command(['SET', 'array', 'v', 'EX', 100])).toEqual(ok('OK'))
    expect(await command(['get', 'array'])).toEqual(ok('v'))
    expect(await command(['TTL', 'array'])).toEqual(ok(100))
  })

  test('as a path, by GET, POST, PUT and HEAD', async () => {
    expect(await call('/set/path/v/EX/100')).toEqual(ok('OK'))
    expect(await call('/get/path', { method: 'POST' })).toEqual(ok('v'))
    expect(await call('/set/path', { method: 'PUT', body: 'w' })).toEqual(ok('OK'))
    expect(await call('/get/path')).toEqual(ok('w'))

    const head = await fetch(`${shared.bridge.url}/get/path?_token=${REST_TOKEN}`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })

  test('as a path with the value in the body and options in the query', async () => {
    expect(await call('/set/body?EX=100&NX', { method: 'POST', body: '{"a":"/?%"}' })).toEqual(ok('OK'))
    expect(await call('/get/body')).toEqual(ok('{"a":"/?%"}'))
    expect(await call('/ttl/body')).toEqual(ok(100))
    expect(await call('/set/body?EX=100&NX', { method: 'POST', body: 'other' })).toEqual(ok(null))
  })

  test('with bytes that are not UTF-8, in the path and in the body', async () => {
    expect(await call('/set/bytes%2F%FF/%00%FF')).toEqual(ok('OK'))
    expect(await call('/append/bytes%2F%FF', { method: 'POST', body: new Uint8Array([0xc3, 0x28]) })).toEqual(
      ok(4),
    )

    expect(await call('/get/bytes%2F%FF')).toEqual(ok('\0\u{fffd}\u{fffd}('))
    const encoded = await call('/get/bytes%2F%FF', { headers: { 'upstash-encoding': 'base64' } })
    expect(encoded).toEqual(ok(Buffer.from([0x00, 0xff, 0xc3, 0x28]).toString('base64')))
  })

  test('keeps the digits of numbers, both ways', async () => {
    const body = '["INCRBY", "digits", 9007199254740993]'
    const response = await fetch(`${shared.bridge.url}/?_token=${REST_TOKEN}`, { method: 'POST', body })

    expect(await response.text()).toBe('{"result":9007199254740993}')
    expect(await call('/get/digits')).toEqual(ok('9007199254740993'))
  })
})

describe('base64 (fault 61)', () => {
  const base64 = { headers: { 'upstash-encoding': 'base64' } }

  test('encodes every string but an answer that is OK', async () => {
    expect(await command(['SET', 'b64', 'OK'], base64)).toEqual(ok('OK'))
    expect(await command(['PING'], base64)).toEqual(ok('UE9ORw=='))
    expect(await command(['MGET', 'b64', 'missing'], base64)).toEqual(ok(['T0s=', null]))
    expect(await command(['EVAL', "return {1, {'bar', {}}}", 0], base64)).toEqual(ok([1, ['YmFy', []]]))
  })

  test('leaves errors as they are', async () => {
    expect(await command(['INCR', 'b64'], base64)).toEqual(
      refused('ERR value is not an integer or out of range'),
    )
  })

  test('keeps all 256 bytes', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    await call('/set/all', { method: 'POST', body: bytes })

    expect(await call('/get/all', base64)).toEqual(ok(Buffer.from(bytes).toString('base64')))
  })
})

describe('/pipeline (fault 61)', () => {
  test('answers in order, errors in their place, and is 200', async () => {
    const commands = [['SET', 'p1', 'x'], ['INCR', 'p1'], ['NOPE'], ['ZADD', 'p2', 11, 'a', 22, 'b']]
    expect(await pipeline(commands)).toEqual({
      status: 200,
      body: [
        { result: 'OK' },
        { error: 'ERR value is not an integer or out of range' },
        { error: expect.stringMatching(/^ERR Command is not available: 'NOPE'/) },
        { result: 2 },
      ],
    })
  })

  test.each([
    ['{', 'ERR failed to parse pipeline request'],
    ['["SET"]', 'ERR failed to parse pipeline request'],
    ['[["SET", null]]', 'ERR failed to parse pipeline request'],
    ['[]', 'ERR empty pipeline request'],
    ['[[]]', 'ERR empty pipeline command'],
  ])('%s is 400', async (body, error) => {
    expect(await call('/pipeline', { method: 'POST', body })).toEqual(refused(error))
    expect(await call('/multi-exec', { method: 'POST', body })).toEqual(refused(error))
  })
})

describe('/multi-exec', () => {
  test('executes all, also when one of them fails', async () => {
    const commands = [
      ['SET', 'm1', 'x'],
      ['INCR', 'm1'],
      ['SET', 'm2', 'y'],
    ]
    expect(await multiExec(commands)).toEqual({
      status: 200,
      body: [{ result: 'OK' }, { error: 'ERR value is not an integer or out of range' }, { result: 'OK' }],
    })
  })

  test.each([
    ['an unknown command', ['NOPE'], /^ERR Command is not available: 'NOPE'/],
    ['a wrong number of arguments', ['GET'], /^ERR wrong number of arguments for 'get' command/],
    ['a command that REST does not have', ['WATCH', 'm3'], /^ERR Command "WATCH" is not allowed in REST/],
  ])('%s discards all', async (_name, bad, error) => {
    expect(await multiExec([['SET', 'm3', 'x'], bad])).toEqual(refused(expect.stringMatching(error)))
    expect(await command(['EXISTS', 'm3'])).toEqual(ok(0))
  })

  test('lets nothing in between', async () => {
    await command(['SET', 'atomic', 0])
    const increments = Array.from({ length: 20 }, () => ['INCR', 'atomic'])
    const answers = await Promise.all(Array.from({ length: 10 }, () => multiExec(increments)))

    for (const { body } of answers) {
      const results = (body as { result: number }[]).map(({ result }) => result)
      const [first = 0] = results
      expect(results).toEqual(increments.map((_, index) => first + index))
    }
  })
})

describe('malformed requests', () => {
  test.each([
    ['', 'ERR failed to parse command'],
    ['{', 'ERR failed to parse command'],
    ['{"a":1}', 'ERR failed to parse command'],
    ['["GET", ["a"]]', 'ERR failed to parse command'],
    ['["GET", null]', 'ERR failed to parse command'],
    ['[]', 'ERR empty command'],
  ])('%s', async (body, error) => {
    expect(await call('/', { method: 'POST', body })).toEqual(refused(error))
  })

  test('a method that the service does not have', async () => {
    expect(await call('/get/a', { method: 'DELETE' })).toEqual(
      refused('ERR method DELETE is not allowed', 405),
    )
  })
})

describe('tokens (fault 61)', () => {
  const wrongpass = refused(expect.stringMatching(/^WRONGPASS invalid or missing auth token/), 401)

  test('none, a wrong one, and another scheme', async () => {
    const nothing = await fetch(`${shared.bridge.url}/get/a`)
    expect([nothing.status, await nothing.json()]).toEqual([401, wrongpass.body])
    expect(await call('/get/a', { token: 'wrong' })).toEqual(wrongpass)
    expect(await call('/get/a', { token: '' })).toEqual(wrongpass)
    expect(await call('/get/a', { headers: { authorization: `Basic ${REST_TOKEN}` } })).toEqual(wrongpass)
    expect(await call(`/get/a?_token=${REST_TOKEN}`, { token: 'wrong' })).toEqual(wrongpass)
  })

  test('in the query', async () => {
    const response = await fetch(`${shared.bridge.url}/set/query/v?_token=${REST_TOKEN}&EX=100`)

    expect(await response.json()).toEqual({ result: 'OK' })
    expect(await call('/ttl/query')).toEqual(ok(100))
  })

  test('the read-only token reads', async () => {
    const token = READ_ONLY_TOKEN
    await command(['SET', 'readable', 'v'])

    expect(await command(['GET', 'readable'], { token })).toEqual(ok('v'))
    expect(await command(['ZRANGE', 'missing', 0, -1], { token })).toEqual(ok([]))
    expect(await command(['PING'], { token })).toEqual(ok('PONG'))
  })

  test.each([
    ['SET', 'k', 'v'],
    ['EVALSHA', 'f'.repeat(40), '0'],
    ['EVAL', 'return 1', '0'],
    ['SCRIPT', 'FLUSH'],
    ['FLUSHALL'],
    ['KEYS', '*'],
    ['SCAN', '0'],
  ])('the read-only token may not %s', async (...parts) => {
    const token = READ_ONLY_TOKEN
    const name = parts[0]?.toLowerCase()
    const noperm = `NOPERM this user has no permissions to run the '${name}' command or its subcommand`

    expect(await command(parts, { token })).toEqual(refused(noperm))
    expect(await pipeline([['PING'], parts], { token })).toEqual({
      status: 200,
      body: [{ result: 'PONG' }, { error: noperm }],
    })
    expect(await multiExec([['PING'], parts], { token })).toEqual(refused(noperm))
  })
})

describe('commands that REST does not have (fault 61)', () => {
  test.each([
    ['SUBSCRIBE', 'channel'],
    ['PSUBSCRIBE', '*'],
    ['MONITOR'],
    ['SELECT', '1'],
    ['AUTH', 'x'],
    ['HELLO', '3'],
    ['CLIENT', 'REPLY', 'OFF'],
    ['QUIT'],
    ['RESET'],
    ['MULTI'],
    ['EXEC'],
    ['WATCH', 'k'],
    ['BLPOP', 'k', '0'],
    ['BZPOPMIN', 'k', '0'],
    ['XREAD', 'BLOCK', '0', 'STREAMS', 's', '$'],
    ['WAIT', '1', '0'],
    ['SCRIPT', 'DEBUG', 'YES'],
  ])('%s', async (...parts) => {
    const error = `ERR Command "${parts[0]}" is not allowed in REST or it has a special context path`

    expect(await command(parts)).toEqual(refused(error))
    expect(await call(`/${parts.map((part) => part.toLowerCase()).join('/')}`)).toEqual(refused(error))
  })

  test.each([['NOPE'], ['CONFIG', 'GET', '*'], ['SHUTDOWN'], ['DEBUG', 'SLEEP', '1'], ['CLUSTER', 'INFO']])(
    '%s is not available',
    async (...parts) => {
      const error = `ERR Command is not available: '${parts[0]}'. See https://upstash.com/docs/redis/overall/rediscompatibility for details`

      expect(await command(parts)).toEqual(refused(error))
    },
  )

  test('what only looks like one of them works', async () => {
    expect(await command(['PUBLISH', 'channel', 'x'])).toEqual(ok(0))
    expect(await command(['PUBSUB', 'CHANNELS'])).toEqual(ok([]))
    expect(await command(['XREAD', 'COUNT', '1', 'STREAMS', 'BLOCK', '0'])).toEqual(ok(null))
    expect(await command(['SET', 'SELECT', 'MULTI'])).toEqual(ok('OK'))
  })
})

describe('sizes', () => {
  let small: Bridge
  beforeAll(async () => {
    small = await createBridge({ redisUrl: shared.redis.url, token: REST_TOKEN, maxRequestBytes: 1000 })
  })
  afterAll(() => small.stop())

  async function send(path: string, body: unknown): Promise<Answer> {
    const init = {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { authorization: `Bearer ${REST_TOKEN}` },
    }
    const response = await fetch(small.url + path, init)
    return { status: response.status, body: await response.json() }
  }
  const tooLarge = expect.stringMatching(
    /^ERR max request size exceeded. Limit: 1000 bytes, Actual: \d+ bytes/,
  )
  const value = (bytes: number) => 'x'.repeat(bytes)

  test('a command at the limit runs, one above it is 413 and does not', async () => {
    expect(await send('/', ['SET', 'size', value(993)])).toEqual(ok('OK'))
    expect(await send('/', ['SET', 'size', value(994)])).toEqual(refused(tooLarge, 413))
    expect(await send('/', ['STRLEN', 'size'])).toEqual(ok(993))
  })

  test('a pipeline is measured by its commands, not as a whole', async () => {
    const commands = [
      ['SET', 'size1', value(900)],
      ['SET', 'size2', value(1000)],
      ['SET', 'size3', value(900)],
    ]
    expect(await send('/pipeline', commands)).toEqual({
      status: 200,
      body: [{ result: 'OK' }, { error: tooLarge }, { result: 'OK' }],
    })
    expect(await send('/multi-exec', commands)).toEqual(refused(tooLarge, 413))
  })

  test('a reply above the limit is an error with 200', async () => {
    await send('/', ['SET', 'size4', value(600)])

    expect(await send('/', ['MGET', 'size4', 'size4'])).toEqual({ status: 200, body: { error: tooLarge } })
  })

  test('the default takes 10 MiB and not more', async () => {
    const limit = 10 * 1024 * 1024
    expect(await command(['SET', 'big', value(limit - 6)])).toEqual(ok('OK'))
    expect(await command(['STRLEN', 'big'])).toEqual(ok(limit - 6))
    expect((await command(['SET', 'big', value(limit - 5)])).status).toBe(413)
    await command(['DEL', 'big'])
  })
})

describe('the sync token', () => {
  const tokenOf = async (...parts: string[]) => {
    const init = {
      method: 'POST',
      body: JSON.stringify(parts),
      headers: { authorization: `Bearer ${REST_TOKEN}` },
    }
    return (await fetch(shared.bridge.url, init)).headers.get('upstash-sync-token')
  }

  test('changes with each write and with nothing else', async () => {
    const first = await tokenOf('SET', 'sync', '1')
    const second = await tokenOf('SET', 'sync', '2')

    expect(first).toMatch(/./)
    expect(second).not.toBe(first)
    expect(await tokenOf('GET', 'sync')).toBe(second)
  })

  test('is accepted whatever it is', async () => {
    expect(await command(['PING'], { headers: { 'upstash-sync-token': 'whatever' } })).toEqual(ok('PONG'))
    expect(await command(['PING'], { headers: { 'upstash-sync-token': '' } })).toEqual(ok('PONG'))
  })
})

test('without the test mode there are no test controls', async () => {
  const plain = await createBridge({ redisUrl: shared.redis.url, token: REST_TOKEN })
  try {
    const headers = { authorization: `Bearer ${REST_TOKEN}` }
    const response = await fetch(`${plain.url}/__test/counts`, { method: 'POST', headers })

    expect(response.status).toBe(400)
    expect(await response.text()).toContain("ERR Command is not available: '__TEST'")
    expect(Object.keys(plain).sort()).toEqual(['port', 'stop', 'token', 'url'])
  } finally {
    await plain.stop()
  }
})
