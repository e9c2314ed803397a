/**
 * What the client refuses before anything is sent. The error names what was given and the rule that it breaks, and
 * never the value: that may be a secret or a payload.
 */
import { EchoMQError, type ErrorCode } from './errors.ts'

/** @throws {EchoMQError} unless the rule is kept. */
export const must = (isKept: boolean, name: string, rule: string, code: ErrorCode = 'invalid'): void => {
  if (!isKept) throw new EchoMQError(code, `${name} must ${rule}`)
}

/** @throws {EchoMQError} for another text, and for none. */
export const mustMatch = (name: string, text: string | undefined, rule: RegExp, code?: ErrorCode): void =>
  must(rule.test(text ?? ''), name, `match ${rule}`, code)

/** @throws {EchoMQError} for what is no integer from `least` to `most`. */
export const mustBeWithin = (name: string, value: number, least: number, most: number): void =>
  must(
    Number.isInteger(value) && value >= least && value <= most,
    name,
    `be an integer from ${least} to ${most}`,
  )
