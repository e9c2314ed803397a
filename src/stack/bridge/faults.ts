/**
 * Faults on demand: what can go wrong between a client and the service, one request at a time.
 *
 * Each fault meets the next `times` requests, or only those among them whose path or body contains `match`. A
 * request can meet several: it is delayed first, then hung up on or answered in Redis's stead, else executed, and
 * then its reply may be dropped.
 */

import { setTimeout } from 'node:timers/promises'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { MiddlewareHandler } from 'hono'

/** Default: the next request, whatever is in it. `times` may be Infinity. */
export type Target = { readonly times?: number | undefined; readonly match?: string | undefined }

export type CannedAnswer = {
  readonly status: number
  readonly body: string
  readonly contentType?: string | undefined
}

export type Faults = {
  readonly middleware: MiddlewareHandler<{ Bindings: HttpBindings }>
  /** Executes the request, then closes the connection instead of answering. */
  dropReply(target?: Target): void
  /** Closes the connection without executing. */
  hangUp(target?: Target): void
  /** Answers this without executing. */
  answer(answer: CannedAnswer, target?: Target): void
  /** Waits before anything else happens. */
  delay(ms: number, target?: Target): void
  /** Takes back every fault that has not happened yet. */
  clear(): void
}

type Kind = 'delay' | 'hangUp' | 'answer' | 'dropReply'
type Fault = {
  readonly kind: Kind
  readonly match: string
  left: number
  readonly ms: number
  readonly answer?: CannedAnswer
}

/** Statuses whose answers can have no body. */
const BODILESS = [204, 205, 304]

export function createFaults(): Faults {
  const faults: Fault[] = []

  function add(
    kind: Kind,
    { times = 1, match = '' }: Target = {},
    more: Partial<Pick<Fault, 'ms' | 'answer'>> = {},
  ): void {
    faults.push({ kind, match, left: times, ms: 0, ...more })
  }

  function take(kind: Kind, request: string): Fault | undefined {
    const fault = faults.find((one) => one.kind === kind && one.left > 0 && request.includes(one.match))
    if (fault !== undefined) fault.left -= 1
    return fault
  }

  return {
    async middleware(c, next) {
      // As bytes first: what comes after us must get the body as it was sent.
      const request = `${c.req.path}\n${Buffer.from(await c.req.arrayBuffer()).toString()}`
      const hangUp = (): Response => {
        c.env.incoming.socket.destroy()
        return RESPONSE_ALREADY_SENT
      }

      const delay = take('delay', request)
      if (delay !== undefined) await setTimeout(delay.ms)

      if (take('hangUp', request) !== undefined) return hangUp()

      const answer = take('answer', request)?.answer
      if (answer !== undefined) {
        const headers = { 'content-type': answer.contentType ?? 'application/json' }
        const body = BODILESS.includes(answer.status) ? null : answer.body
        return new Response(body, { status: answer.status, headers })
      }

      const drop = take('dropReply', request)
      await next()
      return drop === undefined ? undefined : hangUp()
    },
    dropReply: (target) => add('dropReply', target),
    hangUp: (target) => add('hangUp', target),
    answer: (answer, target) => add('answer', target, { answer }),
    delay: (ms, target) => add('delay', target, { ms }),
    clear: () => faults.splice(0),
  }
}
