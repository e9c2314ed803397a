/** The JSON scanner: payloads as slices of their source, flaws with their paths, and stored payloads in answers. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  FlawedElement,
  isJsonText,
  JsonText,
  MAX_NESTING,
  payloadMembers,
  readJson,
  toUtf8,
} from '../../src/protocol/json-text.ts'
import {
  anyNumber,
  decode,
  isInteger,
  plainValue,
  space,
  value,
  withPayload,
} from './support/json-documents.ts'

const SHAPE = { raw: [['payload'], ['jobs', '*', 'payload']], lists: { jobs: 1000, items: 1000 } }
const DUPLICATE = 'A key is given twice.'
const TOO_DEEP = 'The body is nested deeper than 512 levels.'
const HALF = 'A string contains half of a surrogate pair.'
const ROUNDED = 'A number that is not an integer would be rounded to one.'

test('a body returns its payload as the exact slice of the source', () => {
  fc.assert(
    fc.property(withPayload, ({ payload, text }) => {
      const reading = read(text)
      expect(reading.ok && plain(reading.value)).toEqual(JSON.parse(text))
      expect(payloadTextOf(text)).toBe(payload)
    }),
    { numRuns: 500 },
  )
})

test('a body with a list of jobs returns the payload of each as a slice of the source', () => {
  fc.assert(
    fc.property(fc.array(withPayload, { maxLength: 6 }), space, (jobs, blank) => {
      const elements = elementsOf(
        `{"jobs"${blank}:[${jobs.map((job) => job.text).join(`${blank},`)}${blank}]}`,
      )
      expect(elements.map(rawOf)).toEqual(jobs.map((job) => job.payload))
    }),
  )
})

test('any JSON text is read as JSON.parse reads it', () => {
  const payload = value.map((text) => `{"payload":${text}}`)
  fc.assert(
    fc.property(fc.oneof(payload, plainValue), (text) => {
      const reading = read(text)
      expect(reading.ok && plain(reading.value)).toEqual(JSON.parse(text))
    }),
    { numRuns: 500 },
  )
})

test('a text that is not JSON is rejected without an exception', () => {
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

test('18: a payload keeps the digits of its numbers', () => {
  expect(payloadTextOf('{"payload":{"n":9007199254740993,"f":1.0,"e":1e400}}')).toBe(
    '{"n":9007199254740993,"f":1.0,"e":1e400}',
  )
  for (const text of ['-0', '0.10', '1E5', '123456789012345678901234567890']) {
    expect(payloadTextOf(`{"payload": ${text} }`)).toBe(text)
  }
})

test('19: a payload keeps empty arrays, nulls and the order of keys', () => {
  const payload = '{"a":[],"o":{},"n":null,"s":[1,null,2],"2":0,"1":0}'
  expect(payloadTextOf(`{"payload":${payload}}`)).toBe(payload)
})

test('21: a payload keeps every string, and half of a surrogate pair is rejected', () => {
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

test('half of a surrogate pair is what isWellFormed rejects', () => {
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

test('bytes that are not UTF-8 are rejected', () => {
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]) {
    const body = Uint8Array.from([0x22, ...bytes, 0x22])
    expect(readJson(body)).toEqual({ ok: false, message: 'The body is not UTF-8.' })
  }
})

test.each([
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
])('39: the body %j is rejected: %s', (text, message) => {
  expect(read(text)).toEqual({ ok: false, message })
})

test('39: a body that is not an object has no payload', () => {
  for (const text of ['null', '[]', '"x"', '5', '[{"payload":1}]', '"{\\"payload\\":1}"']) {
    expect(read(text)).toEqual({ ok: true, value: JSON.parse(text) })
  }
})

test('only the top level and the elements of jobs have payloads', () => {
  for (const text of ['{"items":[{"payload":1}],"x":{"payload":2}}', '{"jobs":{"payload":1}}'])
    expect(read(text)).toEqual({ ok: true, value: JSON.parse(text) })
  expect(elementsOf('{"jobs":[[{"payload":1}],{"x":{"payload":2}},7,{"payload":[{"payload":3}]}]}')).toEqual([
    [{ payload: 1 }],
    { x: { payload: 2 } },
    7,
    { payload: new JsonText('[{"payload":3}]') },
  ])
  expect(payloadTextOf('{"payload":{"payload":{"payload":1},"jobs":[{"payload":2}]}}')).toBe(
    '{"payload":{"payload":1},"jobs":[{"payload":2}]}',
  )
})

test.each([
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
])('a key given twice is rejected: %s', (text, path) => {
  expect(refusal(text)).toEqual([DUPLICATE, path])
})

test('a key given twice is found at any depth', () => {
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

test('equal keys in two objects, and keys in another case or normal form, are not duplicates', () => {
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

test('a fraction that JSON.parse rounds to an integer is rejected outside of payloads', () => {
  fc.assert(
    fc.property(anyNumber, space, (text, blank) => {
      const isRounded = !isInteger(text) && Number.isInteger(JSON.parse(text))
      expect(refusal(`{"n":${text}${blank}}`)).toEqual(isRounded ? [ROUNDED, 'n'] : undefined)
      expect(refusal(`{"n":[${text}${blank},0]}`)).toEqual(isRounded ? [ROUNDED, 'n.0'] : undefined)
      expect(refusal(text)).toEqual(isRounded ? [ROUNDED, undefined] : undefined)
      for (const payload of [text, `[${text}]`, `{"n":${text},"jobs":[${text}]}`]) {
        expect(payloadTextOf(`{"payload":${payload}${blank},"x":1}`)).toBe(payload)
        expect(elementsOf(`{"jobs":[{"payload":${payload}}]}`)).toEqual([{ payload: new JsonText(payload) }])
      }
    }),
    { numRuns: 1000 },
  )
})

test.each([
  ...['1.00000000000000000001', '0.99999999999999999999', '1e-400', '-1e-400', '5e-99999999999999999999'],
  ...['9007199254740991.4', '12345678901234567890.5'],
])('a fraction that is rounded to an integer is rejected: %s', (text) => {
  expect(refusal(`{"delayMs":${text}}`)).toEqual([ROUNDED, 'delayMs'])
})

test.each([
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
])('a number that is not rounded to an integer is left to the schema: %s', (text) => {
  expect(refusal(`{"delayMs":${text}}`)).toBeUndefined()
})

test.each([
  ['{"jobs":[{},{"payload":{"a":1,"a":1}}]}', [1, DUPLICATE, 'payload']],
  ['{"jobs":[{},{},{"id":"x","id":"y"}]}', [2, DUPLICATE, 'id']],
  ['{"items":[{"error":"\\ud83d"}]}', [0, HALF, 'error']],
  ['{"items":[{"\\ud83d":1}]}', [0, HALF, undefined]],
  ['{"\\u0069tems":["\\ud83d"]}', [0, HALF, undefined]],
  ['{"jobs":[[["\\ud83d"]]]}', [0, HALF, '0.0']],
  ['{"items":[{"token":1e-400}]}', [0, ROUNDED, 'token']],
  ['{"jobs":[0,1e-400]}', [1, ROUNDED, undefined]],
] as const)(
  'a flaw in one element of a list is reported for that element: %s',
  (text, [index, message, path]) => {
    expect(flaws(text)).toEqual([[index, { message, ...(path !== undefined && { path }) }]])
  },
)

test('each element of a list reports its first flaw', () => {
  const text = '{"items":[{"a":"\\ud800","a":1},{},{"b":1,"b":"\\ud800"}]}'
  expect(flaws(text)).toEqual([
    [0, { message: HALF, path: 'a' }],
    [2, { message: DUPLICATE, path: 'b' }],
  ])
  expect(elementsOf(text)[0]).toMatchObject({ value: { a: 1 } })
  expect(flaws('{"items":[{"a":1},{}]}')).toEqual([])
})

test('a flawed element does not hide flaws elsewhere, text that is not JSON, or deep nesting', () => {
  const flawed = '{"items":[{"a":1,"a":1}]'
  expect(flaws(`${flawed},"claim":{"claimId":"\\ud800"}}`)).toBe(HALF)
  expect(flaws(`${flawed},"items":[]}`)).toBe(DUPLICATE)
  expect(flaws(flawed)).toBe('The body is not JSON.')
  expect(flaws(`${flawed},"x":${'['.repeat(MAX_NESTING)}}`)).toBe(TOO_DEEP)
})

test('a flaw behind the thousandth element rejects the body', () => {
  const listOf = (length: number) => `{"jobs":[${'"\\ud800",'.repeat(length - 1)}"\\ud800"]}`
  expect(flaws(listOf(1000))).toHaveLength(1000)
  expect(flaws(listOf(1001))).toBe(HALF)
})

test('a key named __proto__ is an own member and changes no prototype', () => {
  const reading = read('{"__proto__":{"payload":1,"polluted":true},"constructor":{"prototype":{}}}')
  if (!reading.ok) throw new Error(reading.message)
  expect(Object.keys(reading.value as object)).toEqual(['__proto__', 'constructor'])
  expect(Object.getPrototypeOf(reading.value)).toBe(Object.prototype)
  expect('polluted' in {}).toBe(false)
})

test('a key named __proto__ stays in a payload', () => {
  expect(payloadTextOf('{"payload":{"__proto__":{"a":1}}}')).toBe('{"__proto__":{"a":1}}')
})

test('nesting is accepted up to 512 levels and rejected beyond', () => {
  expect(payloadTextOf(`{"payload":${nested(MAX_NESTING - 1)}}`)).toBe(nested(MAX_NESTING - 1))
  expect(refusal(`{"payload":${nested(MAX_NESTING)}}`)?.[0]).toBe(TOO_DEEP)
  expect(refusal(`{"a":`.repeat(MAX_NESTING + 1))?.[0]).toBe(TOO_DEEP)
})

test('brackets in strings and brackets side by side are not nesting', () => {
  expect(refusal(`["${'['.repeat(2000)}"]`)).toBeUndefined()
  expect(refusal(`[${'[],'.repeat(2000)}0]`)).toBeUndefined()
})

test('5 MiB of brackets are rejected', () => {
  expect(refusal('['.repeat(5 * 1024 * 1024))?.[0]).toBe(TOO_DEEP)
})

const SIZE = 5 * 1024 * 1024

// Quadratic time would exceed the time limit of the runner by far.
test.each([
  ['spaces', `0${' '.repeat(SIZE)}`],
  ['escapes', `"${'\\n'.repeat(SIZE / 2)}"`],
  ['escaped pairs', `"${'\\ud83e\\udef6'.repeat(SIZE / 12)}"`],
  ['quotes', `"${'\\"'.repeat(SIZE / 2)}"`],
  ['numbers', `[${'1,'.repeat(SIZE / 2)}0]`],
  ['long numbers', `[${'1.0e0,'.repeat(SIZE / 6)}0]`],
  ['a long number', `1${'0'.repeat(SIZE)}1.0e0`],
  ['keys', `{${Array.from({ length: SIZE / 12 }, (_, at) => `"k${at}":1`).join()}}`],
])('5 MiB of %s are read in linear time', (_, payload) => {
  const body = bytesOf(`{"payload":${payload}}`)
  const reading = readJson(body, SHAPE)
  expect(reading.ok && rawOf(reading.value)).toBe(payload.trim())
  expect(read(`{"other":${payload}}`).ok).toBe(true)
})

test('a stored payload that is JSON is returned unchanged', () => {
  fc.assert(
    fc.property(value, space, space, (text, before, after) => {
      const stored = before + text + after
      expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"payload":${stored}`)
      expect(answer(bytesOf(stored))).toEqual({ payload: JSON.parse(text) })
      expect(answer(bytesOf(stored), 'text')).toEqual({ text: stored })
    }),
  )
})

test('a stored payload of another client is returned as JSON only if enqueue would accept it', () => {
  for (const stored of ['"\u2028"', '[\n1\n]\n'])
    expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"payload":${stored}`)
  for (const stored of ['{"a":1,"a":2}', '"\\ud800"', '['.repeat(2000) + ']'.repeat(2000)])
    expect(payloadMembers(bytesOf(stored), 'json')).toBe(`"text":${JSON.stringify(stored)}`)
})

test('17, 22: a stored payload that is not JSON is returned as text, and any text on request', () => {
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
  for (const text of ['00123', 'dmFsdWU=', 'OK', '', ' ', '{', '\ufeff1', '\u0000', '"\n"', "'", '\u2028']) {
    expect(answer(bytesOf(text))).toEqual({ text })
  }
})

test('a stored payload that is not UTF-8 is returned as base64', () => {
  const notUtf8 = fc.uint8Array({ maxLength: 40 }).map((tail) => Uint8Array.from([0xff, ...tail]))
  fc.assert(
    fc.property(notUtf8, fc.constantFrom('json' as const, 'text' as const), (bytes, as) => {
      expect(answer(bytes, as)).toEqual({ base64: Buffer.from(bytes).toString('base64') })
    }),
  )
  const large = new Uint8Array(300_000).fill(0xff)
  expect(answer(large)).toEqual({ base64: Buffer.from(large).toString('base64') })
})

test('every stored payload can be decoded from its answer', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const { text, base64 } = answer(bytes, 'text')
      const back = base64 === undefined ? Buffer.from(String(text)) : Buffer.from(String(base64), 'base64')
      expect([...back]).toEqual([...bytes])
      expect(base64 === undefined).toBe(toUtf8(bytes) !== undefined)
    }),
  )
})

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function read(text: string) {
  return readJson(bytesOf(text), SHAPE)
}

function refusal(text: string) {
  const reading = read(text)
  return reading.ok ? undefined : [reading.message, reading.path]
}

/** The source text of the member `payload`; undefined if there is none. */
function rawOf(value: unknown): string | undefined {
  const payload =
    typeof value === 'object' && value !== null && 'payload' in value ? value.payload : undefined
  return payload instanceof JsonText ? payload.text : undefined
}

function payloadTextOf(text: string): string | undefined {
  const reading = read(text)
  return reading.ok ? rawOf(reading.value) : reading.message
}

/** The elements of the list `jobs` or `items`. */
function elementsOf(text: string): unknown[] {
  const reading = read(text)
  const { jobs, items } = (reading.ok ? reading.value : {}) as { jobs?: unknown[]; items?: unknown[] }
  return jobs ?? items ?? []
}

/** The flaws of the elements of a list with their indexes, or the message that rejects the body. */
function flaws(text: string) {
  const reading = read(text)
  if (!reading.ok) return reading.message
  return elementsOf(text).flatMap((element, index) =>
    element instanceof FlawedElement ? [[index, element.flaw]] : [],
  )
}

/** A value with the members at the raw paths read as plain JSON. */
function plain(value: unknown): unknown {
  if (value instanceof JsonText) return JSON.parse(value.text)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
}

function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels)
}

function answer(bytes: Uint8Array, as: 'json' | 'text' = 'json') {
  return JSON.parse(`{${payloadMembers(bytes, as)}}`) as Record<string, unknown>
}
