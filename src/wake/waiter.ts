/** The side of one waiting claim: it counts the wake-ups that arrive and reports after which of them it claimed. */
import type { Report } from './bell.ts'
import type { Registration, Ring } from './wake.ts'

/** Where a waiting claim reports to. */
export type Counter = {
  report(report: Report): void
  /** `wakeUp`: the last wake-up after which it claimed; undefined when it left without a claim. */
  leave(wakeUp: number | undefined, dueInMs?: number): void
}

export type Waiter = {
  readonly registration: Registration
  /** A wake-up arrived. */
  wake(wakeUp: number): void
  /** The connection broke. */
  lose(): void
}

/** @param signal Aborted when the caller hangs up: the claim leaves at once. */
export function createWaiter(signal: AbortSignal, counter: Counter): Waiter {
  let arrived = 0
  let answered = 0
  let isLost = false
  let hasLeft = false
  let finish: ((ring: Ring) => void) | undefined

  function leave(wakeUp: number | undefined, dueInMs?: number): void {
    if (hasLeft) return
    hasLeft = true
    signal.removeEventListener('abort', hangUp)
    finish?.('time over')
    if (!isLost) counter.leave(wakeUp, dueInMs)
  }
  const hangUp = (): void => leave(undefined)
  signal.addEventListener('abort', hangUp)
  if (signal.aborted) queueMicrotask(hangUp)

  return {
    wake(wakeUp) {
      arrived = wakeUp
      finish?.('woken')
    },
    lose() {
      isLost = true
      finish?.('lost')
    },
    registration: {
      claiming() {
        answered = arrived
      },
      wait(atMostMs, { dueInMs, paused }) {
        if (isLost) return Promise.resolve('lost')
        if (hasLeft) return Promise.resolve('time over')
        counter.report({ wakeUp: answered, dueInMs, paused })
        if (arrived > answered) return Promise.resolve('woken')
        return new Promise((resolve) => {
          const timer = setTimeout(() => finish?.('time over'), atMostMs)
          finish = (ring) => {
            clearTimeout(timer)
            finish = undefined
            resolve(ring)
          }
        })
      },
      end(found) {
        leave(found === undefined ? undefined : answered, found?.dueInMs)
      },
    },
  }
}
