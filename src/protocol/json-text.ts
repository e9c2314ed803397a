/**
 * Exact JSON: what the bytes of a request say, without losing a digit, and what stored bytes are, without
 * touching one.
 *
 * A payload is stored as the very slice of the body that holds it, so numbers keep their digits, strings their
 * escapes and arrays their emptiness. What JSON leaves open and readers resolve differently (a key given twice,
 * half a surrogate pair, bytes that are not UTF-8, a byte order mark) is refused, never repaired, and so is, outside of
 * payloads, a number that JSON.parse would round to an integer. In a list of jobs or items it is told of the one that
 * holds it, so that the others need not be refused with it.
 *
 * The scanner is ours for two reasons: it walks without recursion, and it allocates nothing for whitespace and
 * escapes. The visitors at hand build every token character by character: five megabytes of spaces cost them a
 * second and more memory than an isolate has.
 */

import { MAX_ITEMS_PER_SETTLE, MAX_JOBS_PER_ENQUEUE } from './limits.ts'

/** Nesting beyond this is refused: no job needs it, and readers in other languages recurse. */
export const MAX_NESTING = 512

/** What must be refused although JSON.parse takes it; `path` names the member, never something inside of a payload. */
export type Finding = { readonly message: string; readonly path?: string }

/** A body that was read, or why it was refused. */
export type JsonReading =
  | {
      readonly ok: true
      readonly value: unknown
      /** The source text of the member `payload` of the top-level object. */
      readonly payloadText?: string
      /** The same of each element of a top-level array `jobs`, by index. */
      readonly jobPayloadTexts?: readonly (string | undefined)[]
      /** What was found in elements of a top-level array `jobs` or `items`, by index: those must not be used. */
      readonly elementFindings?: ReadonlyMap<number, Finding>
    }
  | ({ readonly ok: false } & Finding)

// A byte order mark is kept: it must be seen to be refused, and stored text must come back whole.
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
  /** The keys of an object so far; undefined before its first and for an array. */
  keys: Set<string> | undefined
  /** The member that the scanner is in: a key, or an index. */
  member: string | number
  /** Where the value of the member begins, while it is one whose text is wanted. */
  valueStart: number | undefined
  /** Whether the next string is a key. */
  awaitsKey: boolean
}

type Scan = {
  readonly isTooDeep: boolean
  /** The first finding in the body, but for those in elements of a list. */
  readonly finding: Finding | undefined
  /** The first finding in each element. */
  readonly elementFindings: ReadonlyMap<number, Finding>
  readonly payloadText: string | undefined
  readonly jobPayloadTexts: ReadonlyMap<number, string>
}

/** The path of the member that is being scanned, for the caller's eyes: it ends at a payload. */
const pathOf = (open: readonly Container[]): string | undefined => {
  const path: string[] = []
  for (const { member } of open) {
    // A key of the caller's own making is not repeated to it when it is not a plain name.
    if (typeof member === 'string' && !/^\w{1,64}$/.test(member)) break
    path.push(String(member))
    if (member === 'payload') break
  }
  return path.length === 0 ? undefined : path.join('.')
}

/** How many containers the payload that is being scanned stands in: 1 for that of the body, 3 for that of a job; else 0. */
const payloadDepth = ([body, list, job]: readonly Container[]): number => {
  if (body?.member === 'payload') return 1
  const isJob = body?.member === 'jobs' && typeof list?.member === 'number'
  return isJob && job?.member === 'payload' ? 3 : 0
}

/** Longer lists are refused as a whole, so of what stands behind this nothing need be told apart. */
const MAX_ELEMENTS = Math.max(MAX_JOBS_PER_ENQUEUE, MAX_ITEMS_PER_SETTLE)

/** The index of the element of a top-level array `jobs` or `items` that is being scanned. */
const elementOf = ([body, list]: readonly Container[]): number | undefined => {
  if (body?.member !== 'jobs' && body?.member !== 'items') return undefined
  const index = list?.member
  return typeof index === 'number' && index < MAX_ELEMENTS ? index : undefined
}

/** The code unit of a `\uXXXX` at a position, or undefined when none stands there. */
const escapedUnit = (text: string, at: number): number | undefined =>
  text.charCodeAt(at) === BACKSLASH && text.charCodeAt(at + 1) === LETTER_U
    ? Number.parseInt(text.slice(at + 2, at + 6), 16)
    : undefined

/**
 * The end of the string that begins at a quote (behind its closing quote), and whether its escapes leave half a
 * surrogate pair. Only escapes can: in a text decoded from UTF-8 all other pairs are whole.
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

/** The end of the number that begins at a position, and whether it is an integer to its last digit, as 5.0 and 1e3 are. */
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

/** The string of a quoted token; of one that is not valid, which JSON.parse is about to refuse, the token. */
const unquote = (token: string): string =>
  token.includes('\\') ? String(parseJson(token)?.value ?? token) : token.slice(1, -1)

/**
 * Walks a text that may be JSON once. On a text that is not JSON it ends, too, and its findings mean nothing,
 * except for the depth, which guards JSON.parse as well.
 */
const scan = (text: string): Scan => {
  const open: Container[] = []
  let finding: Finding | undefined
  const elementFindings = new Map<number, Finding>()
  let payloadText: string | undefined
  const jobPayloadTexts = new Map<number, string>()

  const find = (message: string): void => {
    const element = elementOf(open)
    if (element === undefined ? finding : elementFindings.has(element)) return
    // Within an element, as what a schema says of it.
    const path = pathOf(element === undefined ? open : open.slice(2))
    const found = path === undefined ? { message } : { message, path }
    if (element === undefined) finding = found
    else elementFindings.set(element, found)
  }

  const endMember = (container: Container, end: number): void => {
    if (container.valueStart === undefined) return
    // JSON knows less whitespace than `trim`, but nothing else can stand around a value.
    const valueText = text.slice(container.valueStart, end).trim()
    const job = open[1]?.member
    if (open.length === 1) payloadText = valueText
    else if (typeof job === 'number') jobPayloadTexts.set(job, valueText)
    container.valueStart = undefined
  }

  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    const container = open.at(-1)
    switch (code) {
      case QUOTE: {
        const { end, isWellFormed } = scanString(text, at)
        if (container?.awaitsKey) {
          const key = unquote(text.slice(at, end))
          container.member = key
          container.awaitsKey = false
          if (container.keys?.has(key)) find('A key is given twice.')
          container.keys = (container.keys ?? new Set()).add(key)
        }
        if (!isWellFormed) find('A text holds half of a surrogate pair.')
        at = end
        continue
      }
      case OPEN_BRACE:
      case OPEN_BRACKET: {
        if (open.length === MAX_NESTING)
          return { isTooDeep: true, finding, elementFindings, payloadText, jobPayloadTexts }
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
        if (typeof container.member === 'number') container.member += 1
        else container.awaitsKey = true
        break
      case COLON:
        if (container && open.length === payloadDepth(open)) container.valueStart = at + 1
        break
      default:
        if ((isDigit(code) || code === MINUS) && payloadDepth(open) === 0) {
          const { end, isInteger } = scanNumber(text, at)
          // What is read as the fraction it is, or as too large, is for a schema to refuse.
          if (!isInteger && Number.isInteger(Number(text.slice(at, end))))
            find('A number that is no integer would be read as one.')
          at = end
          continue
        }
    }
    at += 1
  }
  return { isTooDeep: false, finding, elementFindings, payloadText, jobPayloadTexts }
}

const jobCountOf = (value: unknown): number | undefined => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const jobs = Object.getOwnPropertyDescriptor(value, 'jobs')?.value as unknown
  return Array.isArray(jobs) ? jobs.length : undefined
}

/**
 * Reads the bytes of a request's body as JSON, with the exact source text of the payloads in it.
 *
 * Keys named `__proto__` are ordinary own members of `value`, as JSON.parse makes them.
 *
 * @example
 * readJson(new TextEncoder().encode('{"payload": 1.0}'))
 * // { ok: true, value: { payload: 1 }, payloadText: '1.0' }
 */
export const readJson = (bytes: Uint8Array): JsonReading => {
  if (bytes.length === 0) return { ok: false, message: 'The body is empty.' }
  const text = toUtf8(bytes)
  if (text === undefined) return { ok: false, message: 'The body is not UTF-8.' }
  if (text.startsWith('\ufeff')) return { ok: false, message: 'The body begins with a byte order mark.' }

  const scanned = scan(text)
  if (scanned.isTooDeep) {
    return { ok: false, message: `The body is nested deeper than ${MAX_NESTING} levels.` }
  }
  const parsed = parseJson(text)
  // The engine's own message quotes the body: it stays here.
  if (parsed === undefined) return { ok: false, message: 'The body is not JSON.' }
  if (scanned.finding) return { ok: false, ...scanned.finding }

  const { value } = parsed
  const { elementFindings, payloadText, jobPayloadTexts } = scanned
  const jobCount = jobCountOf(value)
  return {
    ok: true,
    value,
    ...(payloadText !== undefined && { payloadText }),
    ...(jobCount !== undefined && {
      jobPayloadTexts: Array.from({ length: jobCount }, (_, index) => jobPayloadTexts.get(index)),
    }),
    ...(elementFindings.size > 0 && { elementFindings }),
  }
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

/**
 * Stored bytes as the member of a JSON answer, ready to be put between its braces: `"payload":` and the bytes as
 * they are when they are JSON, else `"text":`, else (they are not UTF-8) `"base64":`.
 *
 * @param as With `text`, everything that is UTF-8 comes as `"text":`, also what is JSON.
 */
export const payloadMembers = (bytes: Uint8Array, as: 'json' | 'text'): string => {
  const text = toUtf8(bytes)
  if (text === undefined) return `"base64":"${toBase64(bytes)}"`
  if (as === 'json' && isJsonText(text)) return `"payload":${text}`
  return `"text":${JSON.stringify(text)}`
}
