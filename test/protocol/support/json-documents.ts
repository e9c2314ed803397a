/** Random JSON documents as source text, in spellings that JSON.stringify does not write. */
import fc from 'fast-check'

export const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 2 })
export const integer = fc.oneof(fc.constantFrom('0', '-0', '9007199254740993'), fc.bigInt().map(String))
export const number = fc
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

export const decode = (token: string) => JSON.parse(token) as string

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
/** A payload, and a value outside of payloads. */
export const value = documentsOf(number)
export const plainValue = documentsOf(integer)

/** An object with a payload at a random place among other members. */
export const withPayload = fc
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

/** Whether the text of a number is an integer, computed exactly. */
export const isInteger = (text: string): boolean => {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(text) ?? []
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
export const anyNumber = fc
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
