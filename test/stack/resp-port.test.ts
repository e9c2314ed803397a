/**
 * The Redis port over plain RESP keeps the contract of the port: one reply a command, bytes as they are.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { RedisError } from '../../src/queue/redis.ts'
import { createRespPort, type RespPort } from '../../src/stack/resp-port.ts'
import { sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const bytes = (text: string) => new TextEncoder().encode(text)

let port: RespPort
beforeAll(async () => {
  port = await createRespPort(shared.redis.url)
})
afterAll(() => port.close())

test('send returns every kind of reply', async () => {
  const script = "return {1, 'a', false, {redis.error_reply('EMQSTALE x')}}"

  expect(
    await port.send([
      ['SET', 'k', 'v'],
      ['GET', 'k'],
      ['GET', 'missing'],
      ['INCRBY', 'n', 41],
      ['EVAL', script, 0],
      ['HGETALL', 'missing'],
    ]),
  ).toEqual([bytes('OK'), bytes('v'), null, 41, [1, bytes('a'), null, [new RedisError('EMQSTALE x')]], []])
})

test('a command that Redis rejects does not affect the others', async () => {
  expect(await port.send([['LPUSH', 'k2', 'x'], ['INCR', 'k2'], ['NOPE'], ['LLEN', 'k2']])).toEqual([
    1,
    new RedisError('WRONGTYPE Operation against a key holding the wrong kind of value'),
    new RedisError("ERR unknown command 'NOPE', with args beginning with: "),
    1,
  ])
})

test('send returns bytes that are not UTF-8 unchanged', async () => {
  const script = 'return string.char(0, 255, 254)'

  expect(await port.send([['EVAL', script, 0]])).toEqual([new Uint8Array([0, 255, 254])])
})
