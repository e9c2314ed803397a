/**
 * Exact JSON: reads bytes without losing a digit, and writes stored bytes without changing one.
 *
 * A payload is stored as the exact slice of the text that contains it: numbers keep their digits, strings their
 * escapes. What readers resolve differently (a key given twice, half of a surrogate pair, bytes that are not UTF-8, a
 * byte order mark) is rejected, never repaired. So is, outside of raw members, a number that JSON.parse would round to
 * an integer. A flaw inside an element of a list can be kept with that element, so that the others can be used.
 *
 * The scanner does not recurse, and allocates nothing for whitespace and escapes. Other JSON visitors build every token
 * character by character: five megabytes of spaces cost them a second and more memory than an isolate has.
 */

/** Deeper nesting is rejected: no job needs it, and readers in other languages recurse. */
export const MAX_NESTING = 512

/** The source text of a JSON value. */
export class JsonText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** A flaw that JSON.parse accepts; `path` names the member, and never anything inside a raw member. */
export type Flaw = { readonly message: string; readonly path?: string }

/** An element with a flaw: it must not be used. */
export class FlawedElement {
  /** What JSON.parse read. */
  readonly value: unknown
  /** Its path begins inside the element. */
  readonly flaw: Flaw
  constructor(value: unknown, flaw: Flaw) {
    this.value = value
    this.flaw = flaw
  }
}

/** What the caller expects of a text. */
export type JsonShape = {
  /** Paths of the members that are returned as `JsonText`; `*` stands for an index. */
  readonly raw: readonly (readonly string[])[]
  /** Top-level lists with their maximum lengths. A flawed element below that is returned as a `FlawedElement`. */
  readonly lists: Readonly<Record<string, number>>
  /** What may be outside of raw members: levels, elements of one list, and keys. More is rejected before it is parsed. */
  readonly outside?: { readonly nesting: number; readonly elements: number; readonly keys: number }
}

/** What was read, or why the text was rejected. */
export type JsonReading = { readonly ok: true; readonly value: unknown } | ({ readonly ok: false } & Flaw)

// Keeps a byte order mark: a request with one is rejected, and stored text must not lose it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of UTF-8 bytes, or undefined when they are not UTF-8. */
export const toUtf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

const parseJson = (text: string): { value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return undefined
  }
}

/** Whether a text is one JSON value. */
export const isJsonText = (text: string): boolean => parseJson(text) !== undefined

const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const UPPER_E = 0x45
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const LOWER_E = 0x65
const LETTER_U = 0x75
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** An object or array that the scanner is inside of. */
type Container = {
  /** The keys of an object so far; undefined before its first key, and for an array. */
  keys: Set<string> | undefined
  /** The current member: a key, or an index. */
  member: string | number
  /** Where the value of a raw member begins. */
  valueStart: number | undefined
  /** Whether the next string is a key. */
  awaitsKey: boolean
}

type Path = readonly (string | number)[]

type Scan = {
  /** Why the text is too costly to parse; the walk ended there. */
  readonly excess?: Flaw
  /** The first flaw outside of list elements. */
  readonly flaw: Flaw | undefined
  /** The first flaw of each element, by its path. */
  readonly elementFlaws: ReadonlyMap<string, Flaw>
  readonly rawTexts: readonly { readonly path: Path; readonly source: string }[]
}

/** The code unit of a `\uXXXX` at a position, or undefined if there is none. */
const escapedUnit = (text: string, at: number): number | undefined =>
  text.charCodeAt(at) === BACKSLASH && text.charCodeAt(at + 1) === LETTER_U
    ? Number.parseInt(text.slice(at + 2, at + 6), 16)
    : undefined

/**
 * The end of the string that begins at a quote (after its closing quote), and whether all surrogate pairs are whole.
 * Only escapes can break one: in a text decoded from UTF-8 all other pairs are whole.
 */
const scanString = (text: string, start: number): { end: number; isWellFormed: boolean } => {
  let isWellFormed = true
  let at = start + 1
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return { end: at + 1, isWellFormed }
    if (code !== BACKSLASH) {
      at += 1
      continue
    }
    const unit = escapedUnit(text, at)
    if (unit === undefined) {
      at += 2
    } else if (unit < 0xd800 || unit > 0xdfff) {
      at += 6
    } else {
      const next = escapedUnit(text, at + 6)
      const isPair = unit < 0xdc00 && next !== undefined && next >= 0xdc00 && next <= 0xdfff
      if (!isPair) isWellFormed = false
      at += isPair ? 12 : 6
    }
  }
  return { end: text.length, isWellFormed }
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

/** The end of the number that begins at a position, and whether it is an integer, as 5.0 and 1e3 are. */
const scanNumber = (text: string, start: number): { end: number; isInteger: boolean } => {
  let isZero = true
  let zerosAtEnd = 0
  let decimals = 0
  let isBehindPoint = false
  let at = text.charCodeAt(start) === MINUS ? start + 1 : start
  for (; ; at += 1) {
    const code = text.charCodeAt(at)
    if (code === POINT) {
      isBehindPoint = true
      continue
    }
    if (!isDigit(code)) break
    zerosAtEnd = code === ZERO ? zerosAtEnd + 1 : 0
    if (code !== ZERO) isZero = false
    if (isBehindPoint) decimals += 1
  }
  const behind = text.charCodeAt(at)
  if (behind !== LOWER_E && behind !== UPPER_E)
    return { end: at, isInteger: isZero || zerosAtEnd >= decimals }
  let end = at + 1
  while (/[-+\d]/.test(text.charAt(end))) end += 1
  const exponent = Number(text.slice(at + 1, end))
  return { end, isInteger: isZero || zerosAtEnd + exponent >= decimals }
}

/** The string of a quoted token; the token itself if it is not valid, which JSON.parse will reject. */
const unquote = (token: string): string =>
  token.includes('\\') ? String(parseJson(token)?.value ?? token) : token.slice(1, -1)

/**
 * Walks a text once. If the text is not JSON, the walk ends as well, and only `excess` means something: it protects
 * JSON.parse.
 */
const scan = (text: string, { raw, lists, outside }: JsonShape): Scan => {
  const open: Container[] = []
  let flaw: Flaw | undefined
  const elementFlaws = new Map<string, Flaw>()
  const rawTexts: { path: Path; source: string }[] = []

  /** The path of the raw member that the scanner is in. */
  const rawPath = () =>
    raw.find((path) =>
      path.every((step, depth) => {
        const member = open[depth]?.member
        return step === '*' ? typeof member === 'number' : step === member
      }),
    )

  /** The list element that the scanner is in. */
  const elementPath = (): string | undefined => {
    const [list, index] = [open[0]?.member, open[1]?.member]
    const isElement = typeof list === 'string' && typeof index === 'number' && index < (lists[list] ?? 0)
    return isElement ? `${list}.${index}` : undefined
  }

  const report = (message: string): void => {
    const element = elementPath()
    if (element === undefined ? flaw : elementFlaws.has(element)) return
    const members = open.slice(element === undefined ? 0 : 2, rawPath()?.length).map(({ member }) => member)
    // A key of the caller is only repeated if it is a plain name.
    const end = members.findIndex((member) => !/^\w{1,64}$/.test(String(member)))
    const path = (end < 0 ? members : members.slice(0, end)).join('.')
    const found = path === '' ? { message } : { message, path }
    if (element === undefined) flaw = found
    else elementFlaws.set(element, found)
  }

  /** The depth of the object whose raw member the scanner is in; 0 outside of raw members. */
  let rawDepth = 0

  const endMember = (container: Container, end: number): void => {
    if (container.valueStart === undefined) return
    // `trim` knows more whitespace than JSON, but only JSON whitespace can surround a value.
    const source = text.slice(container.valueStart, end).trim()
    rawTexts.push({ path: open.map(({ member }) => member), source })
    container.valueStart = undefined
    rawDepth = 0
  }

  const exceeds = (message: string): Scan => {
    const [top] = open
    const path = String(top?.member ?? '')
    const excess = /^[a-z]\w{0,63}$/i.test(path) ? { message, path } : { message }
    return { excess, flaw, elementFlaws, rawTexts }
  }

  let keys = 0
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    const container = open.at(-1)
    switch (code) {
      case QUOTE: {
        const { end, isWellFormed } = scanString(text, at)
        if (container?.awaitsKey) {
          if (rawDepth === 0) keys += 1
          if (outside && keys > outside.keys)
            return exceeds(`The body has more than ${outside.keys} keys outside of payloads.`)
          const key = unquote(text.slice(at, end))
          container.member = key
          container.awaitsKey = false
          if (container.keys?.has(key)) report('A key is given twice.')
          container.keys = (container.keys ?? new Set()).add(key)
        }
        if (!isWellFormed) report('A string contains half of a surrogate pair.')
        at = end
        continue
      }
      case OPEN_BRACE:
      case OPEN_BRACKET: {
        const deepest = rawDepth === 0 ? (outside?.nesting ?? MAX_NESTING) : MAX_NESTING
        if (open.length === deepest) return exceeds(`The body is nested deeper than ${deepest} levels.`)
        const isObject = code === OPEN_BRACE
        open.push({
          keys: undefined,
          member: isObject ? '' : 0,
          valueStart: undefined,
          awaitsKey: isObject,
        })
        break
      }
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        if (container) endMember(container, at)
        open.pop()
        break
      case COMMA:
        if (!container) break
        endMember(container, at)
        if (typeof container.member === 'number') {
          container.member += 1
          if (rawDepth === 0 && container.member === outside?.elements)
            return exceeds(`A list has more than ${outside.elements} elements.`)
        } else container.awaitsKey = true
        break
      case COLON:
        if (container && rawDepth === 0 && open.length === rawPath()?.length) {
          container.valueStart = at + 1
          rawDepth = open.length
        }
        break
      default:
        if ((isDigit(code) || code === MINUS) && rawDepth === 0) {
          const { end, isInteger } = scanNumber(text, at)
          // A fraction that stays one, and a number that is too large, are for a schema to reject.
          if (!isInteger && Number.isInteger(Number(text.slice(at, end))))
            report('A number that is not an integer would be rounded to one.')
          at = end
          continue
        }
    }
    at += 1
  }
  return { flaw, elementFlaws, rawTexts }
}

/** Replaces the member of a value at a path that the scanner has seen. */
const replace = (value: unknown, path: Path, change: (member: unknown) => unknown): void => {
  let holder = value as Record<string | number, unknown>
  for (const step of path.slice(0, -1)) holder = holder[step] as typeof holder
  const last = path.at(-1) ?? ''
  holder[last] = change(holder[last])
}

/**
 * Reads bytes as JSON.
 *
 * Keys named `__proto__` are ordinary own members of `value`, as JSON.parse makes them.
 *
 * @param shape Which members are returned as their source text, and which lists keep the flaws of their elements.
 *
 * @example
 * readJson(new TextEncoder().encode('{"payload": 1.0}'), { raw: [['payload']], lists: {} })
 * // { ok: true, value: { payload: JsonText { text: '1.0' } } }
 */
export const readJson = (bytes: Uint8Array, shape: JsonShape = { raw: [], lists: {} }): JsonReading => {
  if (bytes.length === 0) return { ok: false, message: 'The body is empty.' }
  const text = toUtf8(bytes)
  if (text === undefined) return { ok: false, message: 'The body is not UTF-8.' }
  if (text.startsWith('\ufeff')) return { ok: false, message: 'The body begins with a byte order mark.' }

  const { excess, flaw, elementFlaws, rawTexts } = scan(text, shape)
  if (excess !== undefined) return { ok: false, ...excess }
  const parsed = parseJson(text)
  // The engine's own message quotes the body.
  if (parsed === undefined) return { ok: false, message: 'The body is not JSON.' }
  if (flaw) return { ok: false, ...flaw }

  const { value } = parsed
  for (const { path, source } of rawTexts) replace(value, path, () => new JsonText(source))
  for (const [path, found] of elementFlaws)
    replace(value, path.split('.'), (element) => new FlawedElement(element, found))
  return { ok: true, value }
}

/** Bytes per call of `String.fromCharCode`, which takes only so many arguments. */
const BINARY_CHUNK = 8192

const toBase64 = (bytes: Uint8Array): string => {
  let binary = ''
  for (let at = 0; at < bytes.length; at += BINARY_CHUNK) {
    binary += String.fromCharCode(...bytes.subarray(at, at + BINARY_CHUNK))
  }
  return btoa(binary)
}

/** Whether an enqueue would accept the text as a `payload`: all readers understand it alike. */
function isPayload(text: string): boolean {
  if (!isJsonText(text)) return false
  const { excess, flaw } = scan(`{"payload":${text}}`, { raw: [['payload']], lists: {} })
  return excess === undefined && flaw === undefined
}

/**
 * Stored bytes as a member of a JSON object: `"payload":` and the bytes themselves if an enqueue would accept them as a payload, else `"text":`,
 * else (they are not UTF-8) `"base64":`.
 *
 * @param as With `text`, all UTF-8 is returned as `"text":`, JSON included.
 */
export const payloadMembers = (bytes: Uint8Array, as: 'json' | 'text'): string => {
  const text = toUtf8(bytes)
  if (text === undefined) return `"base64":"${toBase64(bytes)}"`
  if (as === 'json' && isPayload(text)) return `"payload":${text}`
  return `"text":${JSON.stringify(text)}`
}
