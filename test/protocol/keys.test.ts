/** Names and keys: which names are valid, what patterns match, and the keys of a queue. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  GLOBAL_KEYS,
  isClaimId,
  isIdempotencyKey,
  isQueueName,
  isQueuePattern,
  isWirePattern,
  isWireVersion,
  keyspace,
  queueMatches,
  wireMatches,
} from '../../src/protocol/keys.ts'

const ALPHANUMERIC = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const queueNames = fc
  .tuple(
    fc.constantFrom(...ALPHANUMERIC),
    fc.string({ unit: fc.constantFrom(...ALPHANUMERIC, '.', '_', '-'), maxLength: 127 }),
  )
  .map(([first, rest]) => first + rest)
  .filter((name) => name !== 'emq')

test.each(['emails', 'a', '0', 'orders.eu-1_x', 'EMQ', 'emq2', 'x'.repeat(128)])(
  'a queue may have the name %s',
  (name) => {
    expect(isQueueName(name)).toBe(true)
    expect(isQueuePattern(name)).toBe(true)
  },
)

test.each([
  'a}b',
  '{a}',
  'a:pending',
  '*',
  'q?',
  '[q]',
  'x'.repeat(300),
  'x'.repeat(129),
  'q1 ',
  ' q1',
  'q1\n',
  'q1\u0000',
  'a/b',
  '../q1',
  '.a',
  '-a',
  '_a',
  'qé',
  '',
  'emq',
])('46: a queue may not have the name %j', (name) => {
  expect(isQueueName(name)).toBe(false)
  expect(() => keyspace(name)).toThrow(RangeError)
})

test('a queue pattern is a name, or a prefix and a star at its end', () => {
  for (const pattern of ['*', 'orders.*', 'o*', 'emq*', `${'x'.repeat(128)}*`]) {
    expect(isQueuePattern(pattern), pattern).toBe(true)
  }
  for (const pattern of ['', '**', '*a', 'a*b', 'a**', 'a*\n', ' *', '.*', 'a?', 'emq', 'a:*', 'a}*']) {
    expect(isQueuePattern(pattern), pattern).toBe(false)
  }
})

test('a queue pattern matches by prefix or exactly, and only its star is special', () => {
  expect(queueMatches('*', 'emails')).toBe(true)
  expect(queueMatches('orders.*', 'orders.eu')).toBe(true)
  expect(queueMatches('orders.*', 'orders.')).toBe(true)
  expect(queueMatches('orders.*', 'ordersXeu')).toBe(false)
  expect(queueMatches('orders.*', 'orders')).toBe(false)
  expect(queueMatches('emails', 'emails')).toBe(true)
  expect(queueMatches('emails', 'emails2')).toBe(false)
  expect(queueMatches('emails', 'Emails')).toBe(false)
  expect(queueMatches('a.b', 'aXb')).toBe(false)
})

test('a queue pattern agrees with its definition for all names', () => {
  fc.assert(
    fc.property(queueNames, queueNames, fc.nat(128), (queue, other, length) => {
      expect(queueMatches(queue, other)).toBe(queue === other)
      expect(queueMatches(`${queue.slice(0, length)}*`, queue)).toBe(true)
      expect(queueMatches(`${queue}*`, other)).toBe(other.startsWith(queue))
    }),
  )
})

test('an idempotency key has 1 to 255 and a claimId 1 to 128 characters of the names', () => {
  for (const [isName, length] of [
    [isIdempotencyKey, 255],
    [isClaimId, 128],
  ] as const) {
    expect(isName('A:z0._-')).toBe(true)
    expect(isName('x'.repeat(length))).toBe(true)
    for (const text of ['', 'x'.repeat(length + 1), 'a b', 'a\n', 'é', 'a}b', 'a/b', 'a\u0000']) {
      expect(isName(text), JSON.stringify(text)).toBe(false)
    }
  }
})

test('a wire version ends in no dot, and a wire pattern may end in a dot or a star', () => {
  expect(isWireVersion('echomq:3.0.0')).toBe(true)
  for (const text of ['', 'echomq:3.', 'echomq:3*', 'echomq 3', 'echomq:3\n', 'x'.repeat(129)]) {
    expect(isWireVersion(text), text).toBe(false)
  }
  for (const text of ['echomq:3.0.0', 'echomq:3.', 'echomq:3.*', 'echomq:*', '3']) {
    expect(isWirePattern(text), text).toBe(true)
  }
  for (const text of ['', '*', '.', 'echomq:**', '*:3', 'echomq: 3.', 'echomq:3.\n']) {
    expect(isWirePattern(text), text).toBe(false)
  }
})

test('a wire pattern matches a version exactly or by prefix', () => {
  expect(wireMatches('echomq:3.0.0', 'echomq:3.0.0')).toBe(true)
  expect(wireMatches('echomq:3.0.0', 'echomq:3.0.01')).toBe(false)
  expect(wireMatches('echomq:3.', 'echomq:3.0.0')).toBe(true)
  expect(wireMatches('echomq:3.', 'echomq:30.0.0')).toBe(false)
  expect(wireMatches('echomq:3*', 'echomq:30.0.0')).toBe(true)
  expect(wireMatches('echomq:3*', 'echomq:2.9.9')).toBe(false)
})

test('the keys of a queue are the documented ones', () => {
  const keys = keyspace('emails')
  expect(keys).toMatchObject({
    pending: 'emq:{emails}:pending',
    active: 'emq:{emails}:active',
    schedule: 'emq:{emails}:schedule',
    dead: 'emq:{emails}:dead',
    meta: 'emq:{emails}:meta',
    completed: 'emq:{emails}:metrics:completed',
    failed: 'emq:{emails}:metrics:failed',
    ghosts: 'emq:{emails}:metrics:ghosts',
    startBy: 'emq:{emails}:start-by',
    jobPrefix: 'emq:{emails}:job:',
  })
  expect(keys.job('JOB0KHTOWnGLuC')).toBe('emq:{emails}:job:JOB0KHTOWnGLuC')
  expect(keys.idempotency('order-7')).toBe('emq:{emails}:de:order-7')
  expect(keys.claim('c-1')).toBe('emq:{emails}:claim:c-1')
  expect(GLOBAL_KEYS).toEqual({
    version: '{emq}:version',
    queues: '{emq}:queues',
    maintenance: '{emq}:maintenance',
  })
})

test('all keys of a queue have one hash tag, and no two queues share one', () => {
  fc.assert(
    fc.property(queueNames, queueNames, (queue, other) => {
      const { job, idempotency, batch, claim, ...fixed } = keyspace(queue)
      const keys = [...Object.values(fixed), job('x'), idempotency('x'), claim('x')]
      expect(new Set([...keys, batch('x')].map(hashTag))).toEqual(new Set([queue]))
      // A batch and a job share the names of idempotency keys.
      expect(batch('x')).toBe(idempotency('x'))
      expect(new Set(keys).size).toBe(keys.length)
      if (queue !== other) expect(keys).not.toContain(keyspace(other).pending)
    }),
  )
})

/** The part of a key that Redis Cluster hashes: the text in the first braces. */
function hashTag(key: string): string | undefined {
  return /\{([^}]+)\}/.exec(key)?.[1]
}
