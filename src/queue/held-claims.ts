/**
 * The waiting claims of one queue in this isolate, by claimId. A caller that repeats a claim under its claimId has given
 * up on the first request, and not every platform reports a caller that hung up: the older request must stop claiming.
 */
import type { QueueContext } from './context.ts'

export type HeldClaims = Map<string, symbol>

/** Holds a claim that waits; a newer one under the same claimId ends its wait. */
export function hold({ memory: { held } }: QueueContext, claimId: string | undefined) {
  const mine = Symbol('claim')
  if (claimId !== undefined) held.set(claimId, mine)
  return {
    isNewest: (): boolean => claimId === undefined || held.get(claimId) === mine,
    end(): void {
      if (claimId !== undefined && held.get(claimId) === mine) held.delete(claimId)
    },
  }
}
