/**
 * Faults on demand, one request at a time: what can go wrong between a client and the service.
 *
 * A fault affects the next `times` requests, or the next whose path or body contains `match`. One request can meet
 * several: a delay, then a hang-up or a canned answer, else its execution, then a dropped reply.
 */

import { setTimeout } from 'node:timers/promises'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { MiddlewareHandler } from 'hono'

/** Default: the next request. `times` may be Infinity. */
export type Target = { readonly times?: number | undefined; readonly match?: string | undefined }

export type CannedAnswer = {
  readonly status: number
  readonly body: string
  readonly contentType?: string | undefined
}

/** The faults that a test can ask for. */
export type FaultControls = {
  /** Executes the next requests, then closes the connection instead of replying. */
  dropReply(target?: Target): void
  /** Closes the connection of the next requests without executing them. */
  hangUp(target?: Target): void
  /** Answers the next requests without executing them. */
  answer(answer: CannedAnswer, target?: Target): void
  /** Delays the next requests. */
  delay(ms: number, target?: Target): void
}

export type Faults = FaultControls & {
  readonly middleware: MiddlewareHandler<{ Bindings: HttpBindings }>
  /** Removes all pending faults. */
  clear(): void
}

type Fault = {
  readonly kind: keyof FaultControls
  readonly match: string
  left: number
  readonly ms?: number
  readonly answer?: CannedAnswer
}

/** Statuses of responses without a body. */
const BODILESS = [204, 205, 304]

export function createFaults(): Faults {
  const faults: Fault[] = []

  function add(
    kind: Fault['kind'],
    { times = 1, match = '' }: Target = {},
    more: Pick<Fault, 'ms' | 'answer'> = {},
  ): void {
    faults.push({ kind, match, left: times, ...more })
  }

  function take(kind: Fault['kind'], request: string): Fault | undefined {
    const fault = faults.find((one) => one.kind === kind && one.left > 0 && request.includes(one.match))
    if (fault !== undefined) fault.left -= 1
    return fault
  }

  return {
    async middleware(c, next) {
      // As bytes, because the API after this must get the body exactly as it was sent.
      const request = `${c.req.path}\n${Buffer.from(await c.req.arrayBuffer()).toString()}`
      function hangUp(): Response {
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
