/**
 * The id of a request, in its response and in the log: the caller's id if it is well-formed, else a new one. An
 * ill-formed id is never repeated.
 */

// Without the flag `m`, `$` matches only at the end of the text: a trailing newline does not match.
const WELL_FORMED = /^[A-Za-z0-9._:-]{1,128}$/

/** The id of a request with these headers. */
export const requestIdOf = (headers: Headers): string => {
  const sent = headers.get('X-Request-Id')
  return sent !== null && WELL_FORMED.test(sent) ? sent : crypto.randomUUID()
}
