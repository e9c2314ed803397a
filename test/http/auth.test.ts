import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseEnv } from '../../src/env.ts'
import { allows, authenticate, type Grant } from '../../src/http/auth.ts'
import { newToken, readTokens, SCOPES, type Scope, tokenEntry } from '../../src/protocol/tokens.ts'

describe('a bearer token', () => {
  const token = 'emq_T-._~+/9=='
  const tokens = [entryOf(token)]

  test.each([[`Bearer ${token}`], [`bearer ${token}`], [`BEARER  ${token}`], [`bEaReR     ${token}`]])(
    'authenticate accepts the header %j (fault 47)',
    async (header) => {
      expect(await authenticate(received(header), tokens)).toMatchObject({ name: 'web' })
    },
  )

  test.each([
    [`Bearer\t${token}`],
    [`Bearer \t${token}`],
    [`xBearer ${token}`],
    [`Bearerx ${token}`],
    [`Bearer${token}`],
    [`Bearer ${token} extra`],
    [`Bearer ${token},`],
    ['Bearer'],
    ['Bearer '],
    [''],
    [token],
    [`Basic ${token}`],
    [`Bearer "${token}"`],
    [`Bearer ${'x'.repeat(100_000)}`],
    [`Bearer ${' '.repeat(100_000)}${token}`],
    [`Bearer ${token.toUpperCase()}`],
    ['Bearer \u00e9'],
  ])('authenticate rejects the header %.30j (fault 47)', async (header) => {
    expect(await authenticate(received(header), tokens)).toBeUndefined()
  })

  test('authenticate rejects two headers and values that no header can contain', async () => {
    expect(await authenticate(received(`Bearer ${token}`, `Bearer ${token}`), tokens)).toBeUndefined()
    for (const raw of [
      `Bearer ${token}\n`,
      `\nBearer ${token}`,
      `Bearer ${token} `,
      `Bearer\u00a0${token}`,
    ]) {
      expect(await authenticate(raw, tokens), JSON.stringify(raw)).toBeUndefined()
    }
  })

  test('authenticate rejects every caller without a header or without configured tokens', async () => {
    expect(await authenticate(null, tokens)).toBeUndefined()
    expect(await authenticate(undefined, tokens)).toBeUndefined()
    expect(await authenticate(`Bearer ${token}`, [])).toBeUndefined()
    for (const secret of [undefined, '', '   ', '[]']) {
      const { settings } = parseEnv({ EMQ_TOKENS: secret })
      expect(await authenticate(`Bearer ${token}`, settings.tokens)).toBeUndefined()
      expect(await authenticate('Bearer ', settings.tokens)).toBeUndefined()
    }
  })

  test('authenticate finds a token at any place of the list, even among others of the same name', async () => {
    const listed = Array.from({ length: 5 }, (_, index) => ({
      ...entryOf(`t${index}`, 'rotated'),
      queues: [`q${index}`],
    }))
    for (const index of listed.keys()) {
      expect(await authenticate(`Bearer t${index}`, listed)).toEqual({
        name: 'rotated',
        scopes: ['produce'],
        queues: [`q${index}`],
      })
    }
    expect(await authenticate('Bearer t5', listed)).toBeUndefined()
  })

  test('authenticate rejects a token whose digest differs in one character or in length', async () => {
    const { sha256: digest, ...entry } = entryOf('t')
    for (const other of [
      '',
      digest.slice(0, 63),
      `${digest}0`,
      digest.replace(/.$/, (c) => (c === '0' ? '1' : '0')),
    ]) {
      expect(await authenticate('Bearer t', [{ ...entry, sha256: other }])).toBeUndefined()
    }
  })
})

describe('a grant', () => {
  const grant = (...scopes: Scope[]): Grant => ({ name: 'x', scopes, queues: ['emails', 'orders.*'] })
  const IMPLIED: Record<Scope, readonly Scope[]> = {
    produce: ['produce'],
    consume: ['consume'],
    observe: ['observe'],
    'observe:payload': ['observe', 'observe:payload'],
    operate: SCOPES,
  }

  test.each(SCOPES)('a grant of %s allows exactly the scopes that it implies', (scope) => {
    expect(SCOPES.filter((wanted) => allows(grant(scope), wanted))).toEqual(
      SCOPES.filter((wanted) => IMPLIED[scope].includes(wanted)),
    )
  })

  test('a grant of several scopes allows what any of them allows', () => {
    fc.assert(
      fc.property(fc.subarray([...SCOPES]), fc.constantFrom(...SCOPES), (scopes, wanted) => {
        expect(allows(grant(...scopes), wanted)).toBe(scopes.some((scope) => IMPLIED[scope].includes(wanted)))
      }),
    )
  })

  test('a grant allows only its queues', () => {
    for (const queue of ['emails', 'orders.eu', 'orders.']) {
      expect(allows(grant('operate'), 'produce', queue), queue).toBe(true)
    }
    for (const queue of ['emails2', 'orders', 'Emails', '', '*']) {
      expect(allows(grant('operate'), 'produce', queue), queue).toBe(false)
    }
    expect(allows(grant('consume'), 'produce', 'emails')).toBe(false)
    expect(allows({ name: 'x', scopes: ['operate'], queues: [] }, 'produce', 'emails')).toBe(false)
  })
})

describe('a new token', () => {
  test('a new token is a prefix and 256 random bits in base64url', () => {
    const made = Array.from({ length: 100 }, newToken)
    expect(new Set(made).size).toBe(100)
    for (const token of made) expect(token).toMatch(/^emq_[A-Za-z0-9_-]{43}$/)
  })

  test('the entry of a new token is valid in EMQ_TOKENS and authenticates the token', async () => {
    const token = newToken()
    const grant: Grant = { name: 'web', scopes: ['produce'], queues: ['orders.*'] }
    const entry = await tokenEntry(token, grant)
    expect(entry.sha256).toBe(sha256(token))
    expect(readTokens(JSON.stringify([entry]))).toEqual({ value: [entry] })
    expect(await authenticate(`Bearer ${token}`, [entry])).toEqual(grant)
    expect(JSON.stringify(entry)).not.toContain(token)
  })
})

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function entryOf(token: string, name = 'web') {
  return { name, sha256: sha256(token), scopes: ['produce'] as const, queues: ['emails'] }
}

/** The value of the header as `Headers` returns it. */
function received(...values: string[]): string | null {
  const headers = new Headers()
  for (const value of values) headers.append('Authorization', value)
  return headers.get('Authorization')
}
