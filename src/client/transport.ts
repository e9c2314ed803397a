/**
 * One request to the API and its answer, and the repeating of requests.
 *
 * Every attempt ends: with the API's answer, by its own timeout, or when the caller aborts, even if `fetch` ignores
 * its signal. What is no answer of the API (a proxy's page, a redirect) is an error, never a success. What may be
 * repeated and for how long is the caller's decision.
 */
import { backoffMs, retryAfterMs } from './backoff.ts'
import { type Clock, sleep, systemClock } from './clock.ts'
import { EchoMQError, type ErrorCode, type ErrorDetails } from './errors.ts'
import { MAX_TIMER_MS } from './limits.ts'
import { mustBeWithin, mustMatch } from './rules.ts'

export type Transport = {
  readonly clock: Clock
  readonly timeoutMs: number
  /**
   * Sends a request once.
   *
   * @param path From `/v1/` on, encoded.
   * @param expects A field that every good answer has.
   * @param body JSON text: made once, so that a repeated request says the same. Without it the request is a GET.
   * @param timeoutMs How long the attempt may take; default the client's.
   * @throws {EchoMQError} for everything but a good answer; the signal's reason when that is aborted.
   */
  send<Answer>(
    path: string,
    expects: string,
    body?: string,
    signal?: AbortSignal,
    timeoutMs?: number,
  ): Promise<Answer>
  /**
   * Does something until it succeeds, with backoff between the attempts. For what may safely be repeated only.
   *
   * @param wake Ends the wait between two attempts, and nothing else.
   * @param again Whether to go on after so many failures; default as `retry` allows.
   */
  repeat<Answer>(
    attempt: () => Promise<Answer>,
    wake?: AbortSignal,
    again?: (failures: number) => boolean,
  ): Promise<Answer>
}

export type EchoMQOptions = {
  /** Where the deployment is; a path in front of `/v1` is kept. */
  readonly url: string
  /** An API token. */
  readonly token: string
  /** Instead of the platform's `fetch`: for a service binding, a proxy, a test. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** How long one attempt may take, in milliseconds, the wait of a claim apart; default 10,000. */
  readonly timeoutMs?: number | undefined
  /** How often a verb's request is sent again after a failure that may pass, or a collision of ids; default 3. */
  readonly retry?: number | undefined
  /** The header `User-Agent`. Ignored in browsers, which have their own. */
  readonly userAgent?: string | undefined
  /** Another clock, for tests. */
  readonly clock?: Clock | undefined
}

/** What the API says in an error, alone or for one item of many. */
export type ProblemBody = {
  readonly code: ErrorCode
  readonly detail?: string
} & Omit<ErrorDetails, 'cause' | 'retryAfterMs'>

/** The code of an answer that is not the API's own: what means the same, else that it is no answer. */
const foreignCode = (status: number): ErrorCode => {
  if (status === 401) return 'unauthorized'
  if (status === 403) return 'forbidden'
  if (status === 429) return 'overloaded'
  return status >= 500 ? 'upstream' : 'network'
}

/** The error for a problem that the API described. */
export const problemError = (line: string, problem: ProblemBody, details?: ErrorDetails): EchoMQError => {
  const { code, detail = '', reason, state, errors, requestId } = problem
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

/** @throws {EchoMQError} `misconfigured`, without quoting what it was given. */
export const createTransport = (options: EchoMQOptions): Transport => {
  const { url, token, timeoutMs = 10_000, retry = 3, userAgent, clock = systemClock } = options
  // Called through the global object: elsewhere `fetch` refuses to work on some platforms.
  const { fetch = (address, init) => globalThis.fetch(address, init) } = options
  // Checked here, because a platform quotes the header that it refuses.
  mustMatch('url', url, /^https?:\/\/[^\s?#@]+$/, 'misconfigured')
  mustMatch('token', token, /^[!-~]+$/, 'misconfigured')
  mustBeWithin('timeoutMs', timeoutMs, 1, MAX_TIMER_MS)
  const sentHeaders: Record<string, string> = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  }
  // A browser has a name of its own, and would ask the server whether it may send another.
  if (userAgent && !('document' in globalThis)) sentHeaders['user-agent'] = userAgent

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
          method: body ? 'POST' : 'GET',
          headers: sentHeaders,
          body: body ?? null,
          signal: attempt.signal,
          // A redirected POST becomes a GET, which would be answered with something else than was asked.
          redirect: 'manual',
        })
        const { ok, status, headers } = response
        // Whatever came, as an object: what is no JSON, or a mere value, has none of the fields.
        const answer = Object(await response.json().catch(() => undefined))
        if (ok && answer[expects] !== undefined) return answer
        // Nothing of an answer that is not the API's is passed on: it may say anything.
        const isProblem = !ok && typeof answer.code === 'string'
        const problem = isProblem
          ? answer
          : { code: foreignCode(status), detail: `${status}, not of the API` }
        throw problemError(path, problem, { status, retryAfterMs: retryAfterMs(headers, clock.epochMs()) })
      }
      try {
        // Not left to `fetch` and its signal: a heartbeat that hangs would lose its jobs.
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
