/**
 * Every shape of reply, through the real client of the service: what the bridge encodes, it must decode.
 */

import { Redis } from '@upstash/redis'
import { beforeAll, describe, expect, test } from 'vitest'
import { REST_TOKEN, sharedRedis } from '../../support/redis.ts'

const shared = sharedRedis()

describe.each(['base64', false] as const)('with the response encoding %s', (responseEncoding) => {
  let client: Redis
  beforeAll(() => {
    client = new Redis({
      url: shared.bridge.url,
      token: REST_TOKEN,
      responseEncoding,
      automaticDeserialization: false,
      retry: { retries: 0 },
    })
  })

  test.each(['dmFsdWU=', 'YmFy', 'OK', 'bar', '123', 'null', '', 'ÿ 😀', '"quoted"'])(
    'text %j',
    async (text) => {
      await client.set('text', text)

      expect(await client.get('text')).toBe(text)
      expect(await client.mget('text', 'missing')).toEqual([text, null])
    },
  )

  test('a status is text', async () => {
    expect(await client.set('status', 'x')).toBe('OK')
    expect(await client.ping()).toBe('PONG')
    expect(await client.type('status')).toBe('string')
  })

  test('nil, false, integers and the empty array', async () => {
    expect(await client.get('missing')).toBeNull()
    expect(await client.eval('return false', [], [])).toBeNull()
    expect(await client.eval('return true', [], [])).toBe(1)
    expect(await client.eval('return -7', [], [])).toBe(-7)
    expect(await client.eval('return {}', [], [])).toEqual([])
    expect(await client.lrange('missing', 0, -1)).toEqual([])
  })

  test('nested arrays, with OK as text and as status in them', async () => {
    const script =
      "return {1, 'a', {'OK', redis.status_reply('OK'), {2, 'YmFy', {}}}, 'OK', redis.status_reply('OK')}"

    expect(await client.eval(script, [], [])).toEqual([1, 'a', ['OK', 'OK', [2, 'YmFy', []]], 'OK', 'OK'])
  })

  test('an array ends at its first nil when Lua makes it', async () => {
    expect(await client.eval("return {'a', nil, 'b'}", [], [])).toEqual(['a'])
    expect(await client.eval("return {'a', false, 'b'}", [], [])).toEqual(['a', null, 'b'])
  })

  test('an error inside an array is its text', async () => {
    expect(await client.eval("return {1, redis.error_reply('EMQSTALE x')}", [], [])).toEqual([
      1,
      'EMQSTALE x',
    ])
  })

  test('HGETALL and ZRANGE WITHSCORES', async () => {
    await client.hset('hash', { a: '1', b: 'OK' })
    await client.zadd('zset', { score: 0, member: 'x' }, { score: 1700000000000, member: 'y' })

    expect(await client.hgetall('hash')).toEqual(['a', '1', 'b', 'OK'])
    expect(await client.hmget('hash', 'a', 'missing')).toEqual(['1', null])
    expect(await client.zrange('zset', 0, -1, { withScores: true })).toEqual(['x', '0', 'y', '1700000000000'])
    expect(await client.zscore('zset', 'y')).toBe('1700000000000')
  })

  test('objects, where the client makes them of flat arrays', async () => {
    const parsing = new Redis({ url: shared.bridge.url, token: REST_TOKEN, responseEncoding })
    await parsing.hset('object', { a: 1, b: 'OK', c: { d: [] } })

    expect(await parsing.hgetall('object')).toEqual({ a: 1, b: 'OK', c: { d: [] } })
    expect(await parsing.hmget('object', 'a', 'missing')).toEqual({ a: 1, missing: null })
  })

  test('the results of a pipeline and of a transaction', async () => {
    const script = "return {'OK', 1}"
    const pipeline = client.pipeline().set('p', '1').get('p').incr('p').get('missing').eval(script, [], [])
    const transaction = client.multi().set('p', '1').get('p').incr('p').get('missing').eval(script, [], [])

    expect(await pipeline.exec()).toEqual(['OK', '1', 2, null, ['OK', 1]])
    expect(await transaction.exec()).toEqual(['OK', '1', 2, null, ['OK', 1]])
  })

  test('EVALSHA of what SCRIPT LOAD has answered, and NOSCRIPT', async () => {
    const sha = await client.scriptLoad('return ARGV[1]')

    expect(await client.evalsha(sha, [], ['x'])).toBe('x')
    await expect(client.evalsha('f'.repeat(40), [], [])).rejects.toThrow('NOSCRIPT No matching script')
  })

  test('a failing command inside a pipeline is an error in its place', async () => {
    const pipeline = client.pipeline().set('text', 'a').incr('text').get('text')

    expect(await pipeline.exec({ keepErrors: true })).toEqual([
      { result: 'OK', error: undefined },
      { result: undefined, error: 'ERR value is not an integer or out of range' },
      { result: 'a', error: undefined },
    ])
  })

  test('a wrong token', async () => {
    const stranger = new Redis({
      url: shared.bridge.url,
      token: 'wrong',
      responseEncoding,
      retry: { retries: 0 },
    })

    await expect(stranger.get('text')).rejects.toThrow(/^WRONGPASS invalid or missing auth token/)
  })
})
