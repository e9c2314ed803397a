import { expect, test } from 'vitest'
import { randomName } from '../../src/client/ids.ts'
import { isClaimId, isIdempotencyKey } from '../../src/protocol/keys.ts'

test('random names are well-formed claim ids and idempotency keys, and differ', () => {
  const names = Array.from({ length: 1000 }, randomName)
  expect(names.every((name) => isClaimId(name) && isIdempotencyKey(name))).toBe(true)
  expect(new Set(names).size).toBe(1000)
})
