/** What is said of an error: its own text, and what is known of where it came from. */
import { plain } from './output.ts'

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** What the last of an error's causes says, such as `connect ECONNREFUSED 127.0.0.1:8787`: the client says "no answer". */
export function causeOf(error: unknown): string | undefined {
  let last: unknown = Object(error).cause
  if (last === undefined) return undefined
  for (let cause = last; cause !== undefined; cause = Object(cause).cause) last = cause
  // A host with several addresses fails with one error for each.
  const [first = last] = last instanceof AggregateError ? last.errors : []
  return plain(messageOf(first)) || undefined
}
