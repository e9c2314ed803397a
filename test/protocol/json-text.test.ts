import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  FlawedElement,
  isJsonText,
  JsonText,
  MAX_NESTING,
  payloadMembers,
  readJson,
  toUtf8,
} from '../../src/protocol/json-text.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)
const SHAPE = { raw: [['payload'], ['jobs', '*', 'payload']], lists: { jobs: 1000, items: 1000 } }
const read = (text: string) => readJson(bytesOf(text), SHAPE)
const refusal = (text: string) => {
  const reading = read(text)
  return reading.ok ? undefined : [reading.message, reading.path]
}
/** The source text of the member `payload`; undefined if there is none. */
const rawOf = (value: unknown) => {
  const payload =
    typeof value === 'object' && value !== null && 'payload' in value ? value.payload : undefined
  return payload instanceof JsonText ? payload.text : undefined
}
const payloadTextOf = (text: string) => {
  const reading = read(text)
  return reading.ok ? rawOf(reading.value) : reading.message
}
/** The elements of the list `jobs` or `items`. */
const elementsOf = (text: string): unknown[] => {
  const reading = read(text)
  const { jobs, items } = (reading.ok ? reading.value : {}) as { jobs?: unknown[]; items?: unknown[] }
  return jobs ?? items ?? []
}
/** A value with the members at the raw paths read as plain JSON. */
const plain = (value: unknown): unknown =>
  value instanceof JsonText
    ? JSON.parse(value.text)
    : Array.isArray(value)
      ? value.map(plain)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
        : value

const DUPLICATE = 'A key is given twice.'
const HALF = 'A string contains half of a surrogate pair.'
const ROUNDED = 'A number that is not an integer would be rounded to one.'

// Random documents, as source text: JSON.stringify would write none of the spellings that matter here.

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 2 })
const integer = fc.oneof(fc.constantFrom('0', '-0', '9007199254740993'), fc.bigInt().map(String))
const number = fc
  .tuple(integer, fc.constantFrom('', '.0', '.10', '.000'), fc.constantFrom('', 'e3', 'E+0', 'e-07', 'e400'))
  .map((parts) => parts.join(''))

/** A character in one of the ways to write it. */
const character = fc
  .tuple(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }), fc.nat(2))
  .map(([text, style]) => {
    const escaped = [...text].flatMap((point) =>
      Array.from({ length: point.length }, (_, at) => point.charCodeAt(at).toString(16).padStart(4, '0')),
    )
    if (style === 0) return escaped.map((hex) => `\\u${hex}`).join('')
    if (style === 1) return escaped.map((hex) => `\\u${hex.toUpperCase()}`).join('')
    return JSON.stringify(text).slice(1, -1)
  })
const string = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: character },
      fc.constantFrom('\\/', '\\\\', '\\"', '\\n', '{', ',', ':', ']', '\u2028'),
    ),
    { maxLength: 6 },
  )
  .map((parts) => `"${parts.join('')}"`)
const keyText = fc.oneof(string, fc.constantFrom('"payload"', '"jobs"', '"__proto__"', '"pay\\u006coad"'))

const decode = (token: string) => JSON.parse(token) as string

const object = (value: fc.Arbitrary<string>) =>
  fc
    .tuple(
      fc.uniqueArray(fc.tuple(keyText, value, space, space), {
        maxLength: 5,
        selector: ([key]) => decode(key),
      }),
      space,
    )
    .map(([members, blank]) => {
      const texts = members.map(
        ([key, text, before, after]) => `${before}${key}${after}:${before}${text}${after}`,
      )
      return `{${blank}${texts.join(',')}}`
    })
const array = (value: fc.Arbitrary<string>) =>
  fc
    .tuple(fc.array(fc.tuple(space, value, space), { maxLength: 5 }), space)
    .map(([elements, blank]) => `[${blank}${elements.map((parts) => parts.join('')).join(',')}]`)

const documentsOf = (numbers: fc.Arbitrary<string>) =>
  fc.letrec<{ document: string }>((tie) => ({
    document: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(numbers, string, fc.constantFrom('true', 'false', 'null')),
      object(tie('document')),
      array(tie('document')),
    ),
  })).document
/** What may be a payload, and what may stand beside one. */
const value = documentsOf(number)
const plainValue = documentsOf(integer)

/** An object with a payload at a random place among other members. */
const withPayload = fc
  .record({
    payload: fc.option(value, { nil: undefined }),
    key: fc.constantFrom('"payload"', '"pay\\u006coad"', '"\\u0070ayload"'),
    others: fc.uniqueArray(fc.tuple(string, plainValue), { maxLength: 3, selector: ([key]) => decode(key) }),
    at: fc.nat(3),
    spaces: fc.tuple(space, space, space, space),
  })
  .filter(({ others }) => others.every(([key]) => !['payload', 'jobs'].includes(decode(key))))
  .map(({ payload, key, others, at, spaces: [a, b, c, d] }) => {
    const members = others.map(([name, text]) => `${name}:${text}`)
    if (payload !== undefined) members.splice(at, 0, `${key}${b}:${c}${payload}${d}`)
    return { payload, text: `${a}{${a}${members.join(`${b},${c}`)}}${d}` }
  })

describe('a body', () => {
  it('gives the payload as the exact slice of its source', () => {
    fc.assert(
      fc.property(withPayload, ({ payload, text }) => {
        const reading = read(text)
        expect(reading.ok && plain(reading.value)).toEqual(JSON.parse(text))
        expect(payloadTextOf(text)).toBe(payload)
      }),
      { numRuns: 500 },
    )
  })

  it('gives the payload of each job of a list', () => {
    fc.assert(
      fc.property(fc.array(withPayload, { maxLength: 6 }), space, (jobs, blank) => {
        const elements = elementsOf(
          `{"jobs"${blank}:[${jobs.map((job) => job.text).join(`${blank},`)}${blank}]}`,
        )
        expect(elements.map(rawOf)).toEqual(jobs.map((job) => job.payload))
      }),
    )
  })

  it('takes any JSON, and its value is what JSON.parse says', () => {
    const payload = value.map((text) => `{"payload":${text}}`)
    fc.assert(
      fc.property(fc.oneof(payload, plainValue), (text) => {
        const reading = read(text)
        expect(reading.ok && plain(reading.value)).toEqual(JSON.parse(text))
      }),
      { numRuns: 500 },
    )
  })

  it('is never read out of what is not JSON, and is never thrown at', () => {
    const broken = fc
      .tuple(
        fc.oneof(
          value,
          withPayload.map(({ text }) => text),
        ),
        fc.nat(),
        fc.nat(1),
        fc.string({ maxLength: 2 }),
      )
      .map(([text, at, cut, insert]) => {
        const place = at % (text.length + 1)
        return text.slice(0, place) + insert + text.slice(place + cut)
      })
    fc.assert(
      fc.property(broken, (text) => {
        const wellFormed = text.toWellFormed()
        const isJson = ['read', DUPLICATE, HALF, ROUNDED].includes(refusal(wellFormed)?.[0] ?? 'read')
        expect(isJson).toBe(isJsonText(wellFormed))
      }),
      {
        numRuns: 500,
        examples: [['"\\'], ['"\\u'], ['"\\ud800'], ['{"a\\x":1'], ['}'], [','], [':'], ['{"a"']],
      },
    )
  })

  it('keeps the digits of numbers (fault 18)', () => {
    expect(payloadTextOf('{"payload":{"n":9007199254740993,"f":1.0,"e":1e400}}')).toBe(
      '{"n":9007199254740993,"f":1.0,"e":1e400}',
    )
    for (const text of ['-0', '0.10', '1E5', '123456789012345678901234567890']) {
      expect(payloadTextOf(`{"payload": ${text} }`)).toBe(text)
    }
  })

  it('keeps empty arrays, nulls and the order of keys (fault 19)', () => {
    const payload = '{"a":[],"o":{},"n":null,"s":[1,null,2],"2":0,"1":0}'
    expect(payloadTextOf(`{"payload":${payload}}`)).toBe(payload)
  })

  it('keeps every text that is one, and refuses halves of pairs (fault 21)', () => {
    for (const text of [
      '"😀"',
      '"\\ud83e\\udef6"',
      '"\\uD83E\\uDEF6"',
      '"\\u0000"',
      '"\\u2028"',
      '"\u2028"',
      '"\\\\ud800"',
    ]) {
      expect(payloadTextOf(`{"payload":${text}}`)).toBe(text)
    }
    for (const text of [
      '"\\ud800"',
      '"\\uDFFF"',
      '"\\udef6\\ud83e"',
      '"\\ud83e\\ud83e\\udef6"',
      '"\\ud83e\\udef6\\udef6"',
      '"\\ud83ex\\udef6"',
      '"\\ud83e\\n"',
      '"\\\\\\ud800"',
    ]) {
      expect(refusal(`{"payload":${text}}`), text).toEqual([HALF, 'payload'])
      expect(refusal(`{"payload":[{"a":${text}}]}`), text).toEqual([HALF, 'payload'])
      expect(refusal(`{"payload":{${text}:1}}`), text).toEqual([HALF, 'payload'])
      expect(refusal(`{"id":${text}}`), text).toEqual([HALF, 'id'])
    }
  })

  it('agrees with the language on what is half a pair', () => {
    const units = fc.array(
      fc.constantFrom('\\ud83e', '\\udef6', '\\uDBFF', '\\u0041', 'x', '😀', '\\\\', '\\n'),
    )
    fc.assert(
      fc.property(units, (parts) => {
        const token = `"${parts.join('')}"`
        expect(read(token).ok).toBe(decode(token).isWellFormed())
      }),
      { numRuns: 500 },
    )
  })

  it('refuses bytes that are not UTF-8', () => {
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]) {
      const body = Uint8Array.from([0x22, ...bytes, 0x22])
      expect(readJson(body)).toEqual({ ok: false, message: 'The body is not UTF-8.' })
    }
  })

  it.each([
    ['', 'The body is empty.'],
    ['{', 'The body is not JSON.'],
    ['{"payload":1}garbage', 'The body is not JSON.'],
    ['{"payload":1,}', 'The body is not JSON.'],
    ['{"payload":01}', 'The body is not JSON.'],
    ["{'payload':1}", 'The body is not JSON.'],
    ['{"payload":1}//', 'The body is not JSON.'],
    ['{"payload":NaN}', 'The body is not JSON.'],
    ['{"a":1,"a":1', 'The body is not JSON.'],
    [' ', 'The body is not JSON.'],
    ['\u00a01', 'The body is not JSON.'],
    ['\ufeff{}', 'The body begins with a byte order mark.'],
  ])('is refused as %j (fault 39)', (text, message) => {
    expect(read(text)).toEqual({ ok: false, message })
  })

  it('has no payload where it is no object (fault 39)', () => {
    for (const text of ['null', '[]', '"x"', '5', '[{"payload":1}]', '"{\\"payload\\":1}"']) {
      expect(read(text)).toEqual({ ok: true, value: JSON.parse(text) })
    }
  })

  it('takes a payload from the top and from jobs only', () => {
    for (const text of ['{"items":[{"payload":1}],"x":{"payload":2}}', '{"jobs":{"payload":1}}'])
      expect(read(text)).toEqual({ ok: true, value: JSON.parse(text) })
    expect(
      elementsOf('{"jobs":[[{"payload":1}],{"x":{"payload":2}},7,{"payload":[{"payload":3}]}]}'),
    ).toEqual([[{ payload: 1 }], { x: { payload: 2 } }, 7, { payload: new JsonText('[{"payload":3}]') }])
    expect(payloadTextOf('{"payload":{"payload":{"payload":1},"jobs":[{"payload":2}]}}')).toBe(
      '{"payload":{"payload":1},"jobs":[{"payload":2}]}',
    )
  })
})

describe('a key given twice', () => {
  it.each([
    ['{"payload":1,"payload":1}', 'payload'],
    ['{"payload":1,"pay\\u006coad":2}', 'payload'],
    ['{"a":1,"\\u0061":1}', 'a'],
    ['{"payload":{"a":1,"a":2}}', 'payload'],
    ['{"payload":[[{"a":[],"b":{},"a":2}]]}', 'payload'],
    ['{"jobs":{"1":{"a":1,"a":1}}}', 'jobs.1.a'],
    ['{"jobs":[],"jobs":[]}', 'jobs'],
    ['[{"jobs":[{"a":1,"a":1}]}]', '0.jobs.0.a'],
    ['{"claim":{"items":[{"a":1,"a":1}]}}', 'claim.items.0.a'],
    ['{"payload":{"__proto__":1,"__proto__":2}}', 'payload'],
    ['{"payload":{"":1,"":2}}', 'payload'],
    ['{"claim":{"limit":1,"limit":1}}', 'claim.limit'],
    ['[{"a":1,"a":1}]', '0.a'],
    ['{"not a name":{"a":1,"a":1}}', undefined],
    ['{"":1,"":1}', undefined],
  ])('is refused: %s', (text, path) => {
    expect(refusal(text)).toEqual([DUPLICATE, path])
  })

  it('is found wherever it stands', () => {
    const holed = fc.letrec<{ doc: string }>((tie) => ({
      doc: fc.oneof(
        { maxDepth: 6, withCrossShrink: true },
        fc.constant('{"k":1,"\\u006b":2}'),
        fc.tuple(plainValue, tie('doc'), plainValue).map((parts) => `[${parts.join(',')}]`),
        fc.tuple(plainValue, tie('doc')).map(([before, doc]) => `{"x":${before},"y" : ${doc},"z":0}`),
      ),
    })).doc
    fc.assert(
      fc.property(holed, (text) => {
        expect(refusal(text)?.[0]).toBe(DUPLICATE)
      }),
    )
  })

  it('is none in two objects, nor in another case or normal form', () => {
    for (const text of [
      '[{"a":1},{"a":1}]',
      '{"a":{"a":{"a":1}}}',
      '{"a":1,"A":1}',
      '{"é":1,"e\u0301":1}',
      '{"a":"a"}',
    ]) {
      expect(refusal(text), text).toBeUndefined()
    }
  })
})

describe('a number', () => {
  /** Exactly, by whole numbers: an integer when the digits, as many as there are behind the point, are zeros. */
  const isInteger = (text: string): boolean => {
    const [, whole = '', fraction = '', exponent = '0'] =
      /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(text) ?? []
    const digits = BigInt(whole + fraction)
    const behind = BigInt(fraction.length) - BigInt(exponent)
    return behind <= 0n || digits % 10n ** behind === 0n
  }
  const digits = fc.oneof(
    fc.stringMatching(/^[0-9]{1,30}$/),
    fc
      .tuple(fc.nat(99), fc.nat(30), fc.nat(99))
      .map(([head, zeros, tail]) => `${head}${'0'.repeat(zeros)}${tail}`),
    fc.nat(30).map((nines) => '9'.repeat(nines + 1)),
  )
  const anyNumber = fc
    .record({
      sign: fc.constantFrom('', '-'),
      whole: digits.map((text) => text.replace(/^0+(?=\d)/, '')),
      fraction: fc.option(digits, { nil: undefined }),
      exponent: fc.option(fc.tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.nat(60)), {
        nil: undefined,
      }),
    })
    .map(({ sign, whole, fraction, exponent }) =>
      [sign, whole, fraction === undefined ? '' : `.${fraction}`, ...(exponent ?? [])].join(''),
    )

  it('that JSON.parse makes an integer, and that is none, is refused outside of payloads', () => {
    fc.assert(
      fc.property(anyNumber, space, (text, blank) => {
        const isRounded = !isInteger(text) && Number.isInteger(JSON.parse(text))
        expect(refusal(`{"n":${text}${blank}}`)).toEqual(isRounded ? [ROUNDED, 'n'] : undefined)
        expect(refusal(`{"n":[${text}${blank},0]}`)).toEqual(isRounded ? [ROUNDED, 'n.0'] : undefined)
        expect(refusal(text)).toEqual(isRounded ? [ROUNDED, undefined] : undefined)
        for (const payload of [text, `[${text}]`, `{"n":${text},"jobs":[${text}]}`]) {
          expect(payloadTextOf(`{"payload":${payload}${blank},"x":1}`)).toBe(payload)
          expect(elementsOf(`{"jobs":[{"payload":${payload}}]}`)).toEqual([
            { payload: new JsonText(payload) },
          ])
        }
      }),
      { numRuns: 1000 },
    )
  })

  it.each([
    ...['1.00000000000000000001', '0.99999999999999999999', '1e-400', '-1e-400', '5e-99999999999999999999'],
    ...['9007199254740991.4', '12345678901234567890.5'],
  ])('is refused: %s', (text) => {
    expect(refusal(`{"delayMs":${text}}`)).toEqual([ROUNDED, 'delayMs'])
  })

  it.each([
    '0',
    '-0',
    '5.0',
    '1e3',
    '1.5',
    '100e-2',
    '0e-400',
    '0.0E-5',
    '1e400',
    '9007199254740993',
    '0.1e1',
  ])('is for a schema to judge: %s', (text) => {
    expect(refusal(`{"delayMs":${text}}`)).toBeUndefined()
  })
})

describe('one element of a top-level list', () => {
  const flaws = (text: string) => {
    const reading = read(text)
    if (!reading.ok) return reading.message
    return elementsOf(text).flatMap((element, index) =>
      element instanceof FlawedElement ? [[index, element.flaw]] : [],
    )
  }

  it.each([
    ['{"jobs":[{},{"payload":{"a":1,"a":1}}]}', [1, DUPLICATE, 'payload']],
    ['{"jobs":[{},{},{"id":"x","id":"y"}]}', [2, DUPLICATE, 'id']],
    ['{"items":[{"error":"\\ud83d"}]}', [0, HALF, 'error']],
    ['{"items":[{"\\ud83d":1}]}', [0, HALF, undefined]],
    ['{"\\u0069tems":["\\ud83d"]}', [0, HALF, undefined]],
    ['{"jobs":[[["\\ud83d"]]]}', [0, HALF, '0.0']],
    ['{"items":[{"token":1e-400}]}', [0, ROUNDED, 'token']],
    ['{"jobs":[0,1e-400]}', [1, ROUNDED, undefined]],
  ] as const)('holds its findings for itself: %s', (text, [index, message, path]) => {
    expect(flaws(text)).toEqual([[index, { message, ...(path !== undefined && { path }) }]])
  })

  it('holds the first of several, as each of the others does', () => {
    const text = '{"items":[{"a":"\\ud800","a":1},{},{"b":1,"b":"\\ud800"}]}'
    expect(flaws(text)).toEqual([
      [0, { message: HALF, path: 'a' }],
      [2, { message: DUPLICATE, path: 'b' }],
    ])
    expect(elementsOf(text)[0]).toMatchObject({ value: { a: 1 } })
    expect(flaws('{"items":[{"a":1},{}]}')).toEqual([])
  })

  it('does not save a body that is wrong elsewhere, nor one that is no JSON or too deep', () => {
    const flawed = '{"items":[{"a":1,"a":1}]'
    expect(flaws(`${flawed},"claim":{"claimId":"\\ud800"}}`)).toBe(HALF)
    expect(flaws(`${flawed},"items":[]}`)).toBe(DUPLICATE)
    expect(flaws(flawed)).toBe('The body is not JSON.')
    expect(flaws(`${flawed},"x":${'['.repeat(MAX_NESTING)}}`)).toMatch(/nested deeper/)
  })

  it('holds them up to where a list may go: behind it they are those of the body', () => {
    const listOf = (length: number) => `{"jobs":[${'"\\ud800",'.repeat(length - 1)}"\\ud800"]}`
    expect(flaws(listOf(1000))).toHaveLength(1000)
    expect(flaws(listOf(1001))).toBe(HALF)
  })
})

describe('a key named __proto__', () => {
  it('is an own member like any other, and changes no prototype', () => {
    const reading = read('{"__proto__":{"payload":1,"polluted":true},"constructor":{"prototype":{}}}')
    if (!reading.ok) throw new Error(reading.message)
    expect(Object.keys(reading.value as object)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(reading.value)).toBe(Object.prototype)
    expect('polluted' in {}).toBe(false)
  })

  it('stays in a payload', () => {
    expect(payloadTextOf('{"payload":{"__proto__":{"a":1}}}')).toBe('{"__proto__":{"a":1}}')
  })
})

describe('nesting', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

  it('is taken to the limit and refused beyond it', () => {
    expect(payloadTextOf(`{"payload":${nested(MAX_NESTING - 1)}}`)).toBe(nested(MAX_NESTING - 1))
    expect(refusal(`{"payload":${nested(MAX_NESTING)}}`)?.[0]).toMatch(/nested deeper than 512/)
    expect(refusal(`{"a":`.repeat(MAX_NESTING + 1))?.[0]).toMatch(/nested deeper/)
  })

  it('counts levels, not brackets: not in texts, not side by side', () => {
    expect(refusal(`["${'['.repeat(2000)}"]`)).toBeUndefined()
    expect(refusal(`[${'[],'.repeat(2000)}0]`)).toBeUndefined()
  })

  it('is refused before it costs anything', () => {
    expect(refusal('['.repeat(5 * 1024 * 1024))?.[0]).toMatch(/nested deeper/)
  })
})

describe('a large body', () => {
  const SIZE = 5 * 1024 * 1024

  // Work that grows with the square of the size would outlast the runner's own time limit by far.
  it.each([
    ['spaces', `0${' '.repeat(SIZE)}`],
    ['escapes', `"${'\\n'.repeat(SIZE / 2)}"`],
    ['escaped pairs', `"${'\\ud83e\\udef6'.repeat(SIZE / 12)}"`],
    ['quotes', `"${'\\"'.repeat(SIZE / 2)}"`],
    ['numbers', `[${'1,'.repeat(SIZE / 2)}0]`],
    ['long numbers', `[${'1.0e0,'.repeat(SIZE / 6)}0]`],
    ['a long number', `1${'0'.repeat(SIZE)}1.0e0`],
    ['keys', `{${Array.from({ length: SIZE / 12 }, (_, at) => `"k${at}":1`).join()}}`],
  ])('of %s is read in one walk', (_, payload) => {
    const body = bytesOf(`{"payload":${payload}}`)
    const reading = readJson(body, SHAPE)
    expect(reading.ok && rawOf(reading.value)).toBe(payload.trim())
    expect(read(`{"other":${payload}}`).ok).toBe(true)
  })
})

describe('stored bytes', () => {
  const answer = (bytes: Uint8Array, as: 'json' | 'text' = 'json') =>
    JSON.parse(`{${payloadMembers(bytes, as)}}`) as Record<string, unknown>

  it('that are JSON travel as they are', () => {
    fc.assert(
      fc.property(value, space, space, (text, before, after) => {
        const stored = before + text + after
        expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"payload":${stored}`)
        expect(answer(bytesOf(stored))).toEqual({ payload: JSON.parse(text) })
        expect(answer(bytesOf(stored), 'text')).toEqual({ text: stored })
      }),
    )
  })

  it('that another client wrote are a payload only if an enqueue would accept them as one', () => {
    for (const stored of ['"\u2028"', '[\n1\n]\n'])
      expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"payload":${stored}`)
    for (const stored of ['{"a":1,"a":2}', '"\\ud800"', '['.repeat(2000) + ']'.repeat(2000)])
      expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"text":${JSON.stringify(stored)}`)
  })

  it('that are text travel as text, and as such on demand (faults 17 and 22)', () => {
    for (const text of [
      '123',
      '00123',
      '1e3',
      'true',
      'null',
      '[1]',
      '{"a":1}',
      ' 1',
      'dmFsdWU=',
      'YmFy',
      'OK',
      'bar',
      '',
    ]) {
      expect(answer(bytesOf(text), 'text')).toEqual({ text })
    }
    for (const text of [
      '00123',
      'dmFsdWU=',
      'OK',
      '',
      ' ',
      '{',
      '\ufeff1',
      '\u0000',
      '"\n"',
      "'",
      '\u2028',
    ]) {
      expect(answer(bytesOf(text))).toEqual({ text })
    }
  })

  it('that are not UTF-8 travel as base64', () => {
    const notUtf8 = fc.uint8Array({ maxLength: 40 }).map((tail) => Uint8Array.from([0xff, ...tail]))
    fc.assert(
      fc.property(notUtf8, fc.constantFrom('json' as const, 'text' as const), (bytes, as) => {
        expect(answer(bytes, as)).toEqual({ base64: Buffer.from(bytes).toString('base64') })
      }),
    )
    const large = new Uint8Array(300_000).fill(0xff)
    expect(answer(large)).toEqual({ base64: Buffer.from(large).toString('base64') })
  })

  it('come back whole, whatever they are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        const { text, base64 } = answer(bytes, 'text')
        const back = base64 === undefined ? Buffer.from(String(text)) : Buffer.from(String(base64), 'base64')
        expect([...back]).toEqual([...bytes])
        expect(base64 === undefined).toBe(toUtf8(bytes) !== undefined)
      }),
    )
  })
})
