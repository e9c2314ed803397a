/** Results of moves, as tests compare them. */
import type { Refusal, Result } from '../../../src/protocol/refusals.ts'

/** The value of a result, or its refusal. */
export const outcome = <T>(result: Result<T>): T | Refusal => (result.ok ? result.value : result.refusal)

/** The ids of results, in their order; empty for a refusal. */
export const idsOf = (results: readonly Result<{ readonly id: string }>[]): string[] =>
  results.map((result) => (result.ok ? result.value.id : ''))
