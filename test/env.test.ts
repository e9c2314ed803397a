import { describe, expect, test } from 'vitest'
import { parseEnv } from '../src/env.ts'
import { DEFAULT_LIMITS } from '../src/protocol/limits.ts'
import { readTokens, type TokenEntry } from '../src/protocol/tokens.ts'
import { DEV_TOKENS, devTokensSecret } from '../src/stack/dev-tokens.ts'

const SHA256 = 'ab'.repeat(32)
const ENTRY: TokenEntry = { name: 'web', sha256: SHA256, scopes: ['produce'], queues: ['emails', 'orders.*'] }
const GOOD = {
  UPSTASH_REDIS_REST_URL: 'https://eu1-abc.upstash.io',
  UPSTASH_REDIS_REST_TOKEN: 'AXsecret==',
  EMQ_TOKENS: JSON.stringify([ENTRY]),
}

describe('the environment', () => {
  test('parseEnv needs Redis and tokens and has a default for everything else', () => {
    expect(parseEnv(GOOD)).toEqual({
      ok: true,
      settings: {
        redis: { url: 'https://eu1-abc.upstash.io', token: 'AXsecret==' },
        tokens: [ENTRY],
        queues: [],
        wireClaim: undefined,
        wireAccept: ['echomq:2.', 'echomq:3.'],
        allowedOrigins: [],
        limits: DEFAULT_LIMITS,
      },
    })
  })

  test('192: parseEnv rejects the public development tokens outside of the local stack', () => {
    for (const token of Object.values(DEV_TOKENS)) {
      const secret = JSON.stringify(
        JSON.parse(devTokensSecret()).filter(({ name }: TokenEntry) => name === token),
      )
      const env = parseEnv({ ...GOOD, EMQ_TOKENS: secret })
      expect(env.settings.tokens).toEqual([])
      expect(env.ok ? [] : env.problems).toEqual([
        'EMQ_TOKENS lists a public development token, which only the local stack accepts',
      ])
      expect(parseEnv({ ...GOOD, EMQ_TOKENS: secret, EMQ_LOCAL_STACK: '1' }).ok).toBe(true)
    }
  })

  test('135: parseEnv merges EMQ_TOKENS_2 and further secrets, and one problem makes all tokens unusable', () => {
    const second = { ...ENTRY, sha256: 'cd'.repeat(32) }
    const third = { ...ENTRY, sha256: 'ef'.repeat(32) }
    const more = (EMQ_TOKENS_2: TokenEntry, EMQ_TOKENS_3: unknown) =>
      parseEnv({
        ...GOOD,
        EMQ_TOKENS_2: JSON.stringify([EMQ_TOKENS_2]),
        EMQ_TOKENS_3: typeof EMQ_TOKENS_3 === 'string' ? EMQ_TOKENS_3 : JSON.stringify([EMQ_TOKENS_3]),
      })
    expect(more(second, third)).toMatchObject({ ok: true, settings: { tokens: [ENTRY, second, third] } })
    expect(more(second, '')).toMatchObject({ ok: true, settings: { tokens: [ENTRY, second] } })
    expect(more(second, '[]')).toMatchObject({
      problems: ['EMQ_TOKENS_3 lists no token'],
      settings: { tokens: [] },
    })
    expect(more(ENTRY, third)).toMatchObject({
      problems: ['EMQ_TOKENS_2 lists a token of another variable again'],
      settings: { tokens: [] },
    })
  })

  test('parseEnv of no bindings fails and names the missing ones', () => {
    const env = parseEnv({})
    expect(env.ok ? [] : env.problems).toEqual([
      'UPSTASH_REDIS_REST_URL is missing',
      'UPSTASH_REDIS_REST_TOKEN is missing',
      'EMQ_TOKENS is missing',
    ])
    expect(env.settings).toMatchObject({ redis: undefined, tokens: [], allowedOrigins: [] })
  })

  test('parseEnv keeps valid Redis settings without tokens, and valid tokens without Redis', () => {
    const withoutTokens = parseEnv({ ...GOOD, EMQ_TOKENS: '', EMQ_ALLOWED_ORIGINS: 'https://a.example' })
    expect(withoutTokens.ok).toBe(false)
    expect(withoutTokens.settings).toMatchObject({
      redis: { url: 'https://eu1-abc.upstash.io' },
      tokens: [],
      allowedOrigins: ['https://a.example'],
    })
    const withoutRedis = parseEnv({ ...GOOD, UPSTASH_REDIS_REST_TOKEN: '' })
    expect(withoutRedis.ok).toBe(false)
    expect(withoutRedis.settings).toMatchObject({ redis: undefined, tokens: [ENTRY] })
  })

  test('parseEnv ignores blank optional variables and unknown ones', () => {
    expect(
      settingsOf({
        EMQ_QUEUES: '',
        EMQ_WIRE_CLAIM: '',
        EMQ_WIRE_ACCEPT: '',
        EMQ_ALLOWED_ORIGINS: '',
        EMQ_MAX_BODY_BYTES: '',
        EMQ_OF_THE_FUTURE: 'x',
        SERVICE: {},
      }),
    ).toEqual(settingsOf({}))
  })

  test('parseEnv never repeats a malformed value', () => {
    const secret = 'sEcReT-1'
    const variables = [
      ...Object.keys(GOOD),
      'EMQ_QUEUES',
      'EMQ_WIRE_CLAIM',
      'EMQ_WIRE_ACCEPT',
      'EMQ_ALLOWED_ORIGINS',
      'EMQ_MAX_PAYLOAD_BYTES',
      'EMQ_MAX_BODY_BYTES',
      'EMQ_REDIS_TIMEOUT_MS',
    ]
    for (const variable of variables) {
      for (const wrong of [`${secret} \n`, `[{"name": "${secret}", "${secret}": 1}]`, [secret], { secret }]) {
        const problems = problemsOf({ [variable]: wrong })
        expect(problems.join(), variable).toMatch(new RegExp(`^${variable} `))
        expect(problems.join(), variable).not.toContain(secret)
      }
    }
  })
})

describe('UPSTASH_REDIS_REST_URL', () => {
  test('UPSTASH_REDIS_REST_URL is an http or https URL with or without a final slash (fault 63)', () => {
    for (const [given, url] of [
      ['https://x.upstash.io/', 'https://x.upstash.io'],
      ['http://127.0.0.1:8079', 'http://127.0.0.1:8079'],
      ['https://proxy.example/redis//', 'https://proxy.example/redis'],
    ] as const) {
      expect(settingsOf({ UPSTASH_REDIS_REST_URL: given }).redis?.url).toBe(url)
    }
  })

  test.each([
    ' https://x.upstash.io',
    'https://x.upstash.io ',
    'https://x.upstash.io\n',
    'https://x.up stash.io',
    'x.upstash.io',
    'redis://x.upstash.io:6379',
    'rediss://default:pw@x.upstash.io:6379',
    'https://user:pw@x.upstash.io',
    'https://x.upstash.io/?token=1',
    'https://x.upstash.io/#a',
    'https://',
    '   ',
    7,
  ])('UPSTASH_REDIS_REST_URL rejects %j (fault 63)', (url) => {
    const problems = problemsOf({ UPSTASH_REDIS_REST_URL: url })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^UPSTASH_REDIS_REST_URL must /)
  })
})

describe('UPSTASH_REDIS_REST_TOKEN', () => {
  test.each([' AX', 'AX ', 'AX\n', 'A X', 'AÄ', '\u0000', 7])(
    'UPSTASH_REDIS_REST_TOKEN rejects %j',
    (token) => {
      expect(problemsOf({ UPSTASH_REDIS_REST_TOKEN: token })).toEqual([
        'UPSTASH_REDIS_REST_TOKEN must be printable ASCII without spaces',
      ])
    },
  )
})

describe('EMQ_TOKENS', () => {
  const tokens = (...entries: unknown[]) => readTokens(JSON.stringify(entries))

  test('EMQ_TOKENS lists entries, of which several may have one name', () => {
    const second = {
      ...ENTRY,
      sha256: 'CD'.repeat(32),
      scopes: ['observe:payload', 'operate'],
      queues: ['*'],
    }
    expect(tokens(ENTRY, second)).toEqual({ value: [ENTRY, { ...second, sha256: 'cd'.repeat(32) }] })
  })

  test.each([
    ['   ', /JSON array/],
    ['{', /JSON array/],
    ['null', /JSON array/],
    [JSON.stringify(ENTRY), /JSON array/],
    [[ENTRY], /JSON array/],
    [7, /JSON array/],
    ['[{"name":"a","name":"b"}]', /JSON array .* each key given once/],
    ['[]', /lists no token/],
    [null, /is missing/],
  ])('EMQ_TOKENS rejects %j', (secret, problem) => {
    expect(readTokens(secret)).toEqual({ problem: expect.stringMatching(problem) })
  })

  test.each([
    [null, /must be an object/],
    [[], /must be an object/],
    [{ ...ENTRY, scope: 'produce' }, /no others/],
    [{ ...ENTRY, name: '' }, /"name"/],
    [{ ...ENTRY, name: 'a\nb' }, /"name"/],
    [{ ...ENTRY, name: 'x'.repeat(129) }, /"name"/],
    [{ ...ENTRY, name: 7 }, /"name"/],
    [{ ...ENTRY, sha256: 'ab' }, /"sha256"/],
    [{ ...ENTRY, sha256: `${SHA256}\n` }, /"sha256"/],
    [{ ...ENTRY, sha256: undefined }, /"sha256"/],
    [{ ...ENTRY, scopes: [] }, /"scopes"/],
    [{ ...ENTRY, scopes: ['admin'] }, /"scopes"/],
    [{ ...ENTRY, scopes: 'produce' }, /"scopes"/],
    [{ ...ENTRY, scopes: [['produce']] }, /"scopes"/],
    [{ ...ENTRY, queues: [] }, /"queues"/],
    [{ ...ENTRY, queues: ['a*b'] }, /"queues"/],
    [{ ...ENTRY, queues: ['emq'] }, /"queues"/],
    [{ ...ENTRY, queues: undefined }, /"queues"/],
  ])('EMQ_TOKENS is rejected as a whole for the entry %j', (entry, problem) => {
    const read = tokens({ ...ENTRY, sha256: 'cd'.repeat(32) }, entry)
    expect(read).toEqual({ problem: expect.stringMatching(problem) })
    expect(read).toEqual({ problem: expect.stringMatching(/^entry 2 /) })
    expect(parseEnv({ ...GOOD, EMQ_TOKENS: JSON.stringify([entry]) }).settings.tokens).toEqual([])
  })

  test('EMQ_TOKENS rejects the same digest twice, even in another case', () => {
    expect(tokens(ENTRY, { ...ENTRY, name: 'other', sha256: SHA256.toUpperCase() })).toEqual({
      problem: 'entry 2 lists the token of an earlier entry again',
    })
  })
})

describe('EMQ_QUEUES', () => {
  test('EMQ_QUEUES lists queue names and removes duplicates', () => {
    expect(settingsOf({ EMQ_QUEUES: 'emails,orders.eu,emails' }).queues).toEqual(['emails', 'orders.eu'])
  })

  test.each([
    'a}b',
    '{a}',
    'a:pending',
    '*',
    'q?',
    '[q]',
    'x'.repeat(300),
    'q1 ',
    ' q1',
    'q1,',
    'q1\n',
    'emq',
    ' ',
  ])('EMQ_QUEUES rejects %j (fault 46)', (name) => {
    expect(problemsOf({ EMQ_QUEUES: `q0,${name}` })).toEqual([
      expect.stringMatching(/^EMQ_QUEUES entry [23] is not a queue name/),
    ])
  })
})

describe('EMQ_WIRE_CLAIM and EMQ_WIRE_ACCEPT', () => {
  test('EMQ_WIRE_CLAIM is a version, and EMQ_WIRE_ACCEPT lists versions and prefixes', () => {
    expect(
      settingsOf({ EMQ_WIRE_CLAIM: 'echomq:3.0.0', EMQ_WIRE_ACCEPT: 'echomq:3.,echomq:2.1.0,echomq:4*' }),
    ).toMatchObject({ wireClaim: 'echomq:3.0.0', wireAccept: ['echomq:3.', 'echomq:2.1.0', 'echomq:4*'] })
  })

  test('EMQ_WIRE_CLAIM and EMQ_WIRE_ACCEPT reject everything else', () => {
    for (const claim of ['echomq:3.', 'echomq:3*', 'echomq:3.0.0 ', 'echomq 3', 3]) {
      expect(problemsOf({ EMQ_WIRE_CLAIM: claim })).toEqual([
        expect.stringMatching(/^EMQ_WIRE_CLAIM must be/),
      ])
    }
    for (const accept of ['*', 'echomq:3.,', ' echomq:3.', 'echomq:3.; echomq:2.', 3]) {
      expect(problemsOf({ EMQ_WIRE_ACCEPT: accept })).toEqual([expect.stringMatching(/^EMQ_WIRE_ACCEPT /)])
    }
  })

  test('EMQ_WIRE_CLAIM rejects a version that EMQ_WIRE_ACCEPT does not accept', () => {
    expect(problemsOf({ EMQ_WIRE_CLAIM: 'echomq:4.0.0' })).toEqual([
      'EMQ_WIRE_CLAIM must be a version that EMQ_WIRE_ACCEPT accepts',
    ])
    expect(problemsOf({ EMQ_WIRE_CLAIM: 'echomq:4.0.0', EMQ_WIRE_ACCEPT: '*' })).toHaveLength(1)
  })
})

describe('EMQ_ALLOWED_ORIGINS', () => {
  test('EMQ_ALLOWED_ORIGINS lists exact origins or is a star', () => {
    expect(settingsOf({ EMQ_ALLOWED_ORIGINS: '*' }).allowedOrigins).toEqual(['*'])
    expect(
      settingsOf({ EMQ_ALLOWED_ORIGINS: 'https://a.example,http://localhost:5173' }).allowedOrigins,
    ).toEqual(['https://a.example', 'http://localhost:5173'])
  })

  test.each([
    'https://a.example/',
    'https://a.example/x',
    'https://A.example',
    'https://a.example:443',
    'https://*.example',
    'https://a.example,*',
    'https://a.example, https://b.example',
    'null',
    'a.example',
    'file://',
    '*,*',
    7,
  ])('EMQ_ALLOWED_ORIGINS rejects %j', (origins) => {
    expect(problemsOf({ EMQ_ALLOWED_ORIGINS: origins })).toEqual([
      expect.stringMatching(/^EMQ_ALLOWED_ORIGINS /),
    ])
  })
})

describe('the limits', () => {
  test('limits are integers, as digits or as numbers', () => {
    const limits = {
      EMQ_MAX_PAYLOAD_BYTES: '1024',
      EMQ_MAX_BODY_BYTES: 2048,
      EMQ_REDIS_TIMEOUT_MS: '250',
      EMQ_MAX_WAITING: '5',
      EMQ_RELOOK_MS: 1000,
    }
    expect(settingsOf(limits).limits).toEqual({
      maxPayloadBytes: 1024,
      maxBodyBytes: 2048,
      redisTimeoutMs: 250,
      maxWaiting: 5,
      relookMs: 1000,
    })
  })

  test.each(['0', '-1', '1.5', '1e3', ' 10', '10\n', 'NaN', '9'.repeat(30), 0, 1.5, Number.NaN, true, []])(
    'limits reject %j',
    (value) => {
      for (const variable of [
        'EMQ_MAX_PAYLOAD_BYTES',
        'EMQ_MAX_BODY_BYTES',
        'EMQ_REDIS_TIMEOUT_MS',
        'EMQ_MAX_WAITING',
      ]) {
        expect(problemsOf({ [variable]: value })).toEqual([
          expect.stringMatching(new RegExp(`^${variable} must be an integer from 1 to \\d+$`)),
        ])
      }
    },
  )
})

function problemsOf(bindings: Record<string, unknown>) {
  const env = parseEnv({ ...GOOD, ...bindings })
  return env.ok ? [] : env.problems
}

function settingsOf(bindings: Record<string, unknown>) {
  const env = parseEnv({ ...GOOD, ...bindings })
  expect(env.ok ? [] : env.problems).toEqual([])
  return env.settings
}
