/** The closed table of errors: each code with its HTTP status and title. Nothing else chooses a status. */

/** A title names the kind of error. It is the same at every occurrence (RFC 9457). */
export const ERRORS = {
  invalid: { status: 400, title: 'The request is malformed' },
  unauthorized: { status: 401, title: 'No valid token' },
  forbidden: { status: 403, title: 'The token does not allow this' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  stale: { status: 409, title: 'The token is not the live token' },
  wrong_state: { status: 409, title: 'The job is in another state' },
  locked: { status: 409, title: 'A consumer owns the job' },
  gone: { status: 410, title: 'The job does not exist' },
  internal: { status: 500, title: 'Internal error' },
  too_large: { status: 413, title: 'Too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  wrong_kind: { status: 422, title: 'Not a job id' },
  overloaded: { status: 429, title: 'A limit is reached' },
  upstream: { status: 503, title: 'Redis failed' },
  misconfigured: { status: 503, title: 'The deployment is not configured' },
  wire_version: { status: 503, title: 'Wrong wire version' },
} as const satisfies Record<string, { readonly status: number; readonly title: string }>

export type ErrorCode = keyof typeof ERRORS
