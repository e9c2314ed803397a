/**
 * The name of a request, in its answer and in the log: the caller's own where it sent a sane one, so that it can
 * find its request again, else a fresh one. What is not sane is not repeated anywhere.
 */

// Without the flag `m`, `$` is the very end in JavaScript: a trailing newline does not match.
const SANE = /^[A-Za-z0-9._:-]{1,128}$/

/** The request id of a request with these headers. */
export const requestIdOf = (headers: Headers): string => {
  const sent = headers.get('X-Request-Id')
  return sent !== null && SANE.test(sent) ? sent : crypto.randomUUID()
}
