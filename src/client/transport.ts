/**
 * One request to the API and its response, and the repetition of requests.
 *
 * Every attempt ends: with the API's response, by its own timeout, or when the caller aborts, even if `fetch` ignores
 * its signal. A response that is not the API's own (a proxy's page, a redirect) is an error, never a success. The
 * caller decides what may be repeated, and for how long.
 */
import { backoffMs, type Clock, sleep, systemClock } from './clock.ts'
import { EchoMQError, type ErrorCode, type ErrorDetails, mustBeWithin, mustMatch } from './errors.ts'
import { MAX_TIMER_MS, RETRY_AFTER_CAP_MS } from './limits.ts'

export type Transport = {
  readonly clock: Clock
  readonly timeoutMs: number
  /**
   * Sends a request once.
   *
   * @param path Begins with `/v1/`, encoded.
   * @param expects A field that every successful response has.
   * @param body JSON text: made once, so that a repeated request is the same. Without it the request is a GET.
   * @param attemptMs How long the attempt may take; default the client's `timeoutMs`.
   * @throws {EchoMQError} for everything but a successful response; the reason of the signal when it is aborted.
   */
  send<Answer>(
    path: string,
    expects: string,
    body?: string,
    signal?: AbortSignal,
    attemptMs?: number,
  ): Promise<Answer>
  /**
   * Repeats an attempt until it succeeds, with backoff in between. Only for what is safe to repeat.
   *
   * @param wake Ends the wait between two attempts, and nothing else.
   * @param again Whether to try again after this many failures; default as the client's `retry` allows.
   */
  repeat<Answer>(
    attempt: () => Promise<Answer>,
    wake?: AbortSignal,
    again?: (failures: number) => boolean,
  ): Promise<Answer>
}

export type EchoMQOptions = {
  /** The address of the deployment; a path before `/v1` is kept. */
  readonly url: string
  /** An API token. */
  readonly token: string
  /** Replaces the platform's `fetch`: for a service binding, a proxy, a test. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** How long one attempt may take, in milliseconds, without the wait of a claim; default 10,000. */
  readonly timeoutMs?: number | undefined
  /** How often a verb repeats its request after a retryable failure; default 3. */
  readonly retry?: number | undefined
  /** The header `User-Agent`. Ignored in browsers, which send their own. */
  readonly userAgent?: string | undefined
  /** Another clock, for tests. */
  readonly clock?: Clock | undefined
}

/** The API's description of an error, for a whole request or for one item of a batch. */
export type ProblemBody = {
  readonly code: ErrorCode
  readonly detail?: string
} & Omit<ErrorDetails, 'cause' | 'retryAfterMs'>

/** The code for a response that is not the API's own: a code with the same meaning, or else `network`. */
function foreignCode(status: number): ErrorCode {
  if (status === 401) return 'unauthorized'
  if (status === 403) return 'forbidden'
  if (status === 429) return 'overloaded'
  return status >= 500 ? 'upstream' : 'network'
}

/** The error for a problem that the API described. */
export function problemError(
  line: string,
  { code, detail = '', reason, state, errors, requestId }: ProblemBody = { code: 'internal' },
  details?: ErrorDetails,
): EchoMQError {
  const why = reason ? ` (${reason})` : ''
  const field = errors?.[0]
  const what = field ? `${field.path} ${field.message}` : detail
  return new EchoMQError(code, `${line}: ${code}${why}: ${what}`, {
    requestId,
    reason,
    state,
    errors,
    ...details,
  })
}

/**
 * The delay that `Retry-After` asks for, in milliseconds; undefined when it is absent or malformed.
 *
 * A date is compared with the response's own `Date`, because the machine's clock may be wrong.
 */
function retryAfterMs(headers: Headers, epochMs: number): number | undefined {
  const text = String(headers.get('retry-after'))
  // `Date.parse` accepts almost anything; HTTP dates end in GMT.
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : /GMT$/.test(text)
      ? Date.parse(text) - (Date.parse(String(headers.get('date'))) || epochMs)
      : 0
  return ms > 0 ? Math.min(ms, RETRY_AFTER_CAP_MS) : undefined
}

/** Query parameters; the detour through JSON drops the undefined ones. */
export function queryOf(parameters: object): string {
  return `?${new URLSearchParams(JSON.parse(JSON.stringify(parameters)))}`
}

/** @throws {EchoMQError} `misconfigured`, without the wrong value. */
export function createTransport(options: EchoMQOptions): Transport {
  const { url, token, timeoutMs = 10_000, retry = 3, userAgent, clock = systemClock } = options
  // Called as a method of the global object: some platforms reject any other call.
  const { fetch = (address, init) => globalThis.fetch(address, init) } = options
  // Checked here, because a platform's own error would quote the header.
  mustMatch('url', url, /^https?:\/\/[^\s?#@]+$/, 'misconfigured')
  mustMatch('token', token, /^[!-~]+$/, 'misconfigured')
  mustBeWithin('timeoutMs', timeoutMs, 1, MAX_TIMER_MS)
  const sentHeaders: Record<string, string> = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    // In a browser the header would need a preflight request and is ignored.
    ...(userAgent && !('document' in globalThis) && { 'user-agent': userAgent }),
  }

  return {
    clock,
    timeoutMs,

    async send<Answer>(
      path: string,
      expects: string,
      body?: string,
      signal?: AbortSignal,
      attemptMs = timeoutMs,
    ) {
      signal?.throwIfAborted()
      const address = url.replace(/\/+$/, '') + path
      const attempt = new AbortController()
      const exchange = async (): Promise<Answer> => {
        const response = await fetch(address, {
          headers: sentHeaders,
          ...(body && { method: 'POST', body }),
          signal: attempt.signal,
          // A redirected POST becomes a GET, and its response would answer another question.
          redirect: 'manual',
        })
        const { ok, status, headers } = response
        // As an object, whatever arrived: without JSON, or with a bare value, it has none of the fields.
        const answer = Object(await response.json().catch(() => undefined))
        if (ok && answer[expects] !== undefined) return answer
        // The text of a foreign response is dropped: it may contain anything.
        const isProblem = !ok && typeof answer.code === 'string'
        const problem = isProblem
          ? answer
          : { code: foreignCode(status), detail: `${status}, not of the API` }
        throw problemError(path, problem, { status, retryAfterMs: retryAfterMs(headers, clock.epochMs()) })
      }
      try {
        // The timeout is not left to `fetch`: a heartbeat that hangs would lose its jobs.
        const timeUp = sleep(clock, attemptMs, signal, attempt.signal)
        const answer = await Promise.race([exchange(), timeUp])
        if (answer === undefined) throw new EchoMQError('timeout', `${address}: no answer`)
        return answer
      } catch (cause) {
        if (signal?.aborted) throw signal.reason
        throw cause instanceof EchoMQError
          ? cause
          : new EchoMQError('network', `${address}: no answer`, { cause })
      } finally {
        attempt.abort()
      }
    },

    async repeat(attempt, wake, again = (failures) => failures <= retry) {
      for (let failures = 1; ; failures++) {
        try {
          return await attempt()
        } catch (error) {
          if (!(error instanceof EchoMQError && error.retryable && again(failures))) throw error
          await sleep(clock, backoffMs(clock, failures, error), wake)
        }
      }
    },
  }
}
