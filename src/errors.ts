/**
 * The closed table of errors: every way in which a request is refused, with its HTTP status. Nothing else chooses
 * a status, and a code without a row here does not compile.
 */

export type ErrorCode =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'stale'
  | 'wrong_state'
  | 'locked'
  | 'gone'
  | 'internal'
  | 'too_large'
  | 'unsupported_media_type'
  | 'wrong_kind'
  | 'overloaded'
  | 'upstream'
  | 'misconfigured'
  | 'wire_version'

/** Titles say what kind of error it is and are the same at every occurrence (RFC 9457). */
export const ERRORS = {
  invalid: { status: 400, title: 'The request is malformed' },
  unauthorized: { status: 401, title: 'No valid token' },
  forbidden: { status: 403, title: 'The token does not allow this' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  stale: { status: 409, title: 'The token is not the live one' },
  wrong_state: { status: 409, title: 'The job is in another state' },
  locked: { status: 409, title: 'The job is held by a live lease' },
  gone: { status: 410, title: 'No such job any more' },
  internal: { status: 500, title: 'Internal error' },
  too_large: { status: 413, title: 'Too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  wrong_kind: { status: 422, title: 'The id is not of the kind JOB' },
  overloaded: { status: 429, title: 'A limit is reached' },
  upstream: { status: 503, title: 'Redis did not answer' },
  misconfigured: { status: 503, title: 'The deployment is not configured' },
  wire_version: { status: 503, title: 'The database bears another wire version' },
} as const satisfies Record<ErrorCode, { readonly status: number; readonly title: string }>
