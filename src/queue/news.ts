/**
 * What a verb did to a queue that waiting claims should know. One table says it for every verb; a verb that is not listed
 * makes no job claimable. News are hints: they may be lost, and they may promise too much.
 */
import type { QueueContext } from './context.ts'
import type * as verbs from './verbs.ts'

/** What an operation did to a queue that waiting claims should know. */
export type News = {
  /** Jobs that became claimable. */
  readonly jobs?: number | undefined
  /** A job becomes due, or a lease lapses, so many milliseconds from now. */
  readonly dueInMs?: number | undefined
  /** The queue was paused (true) or resumed (false). */
  readonly paused?: boolean | undefined
}

type Verbs = typeof verbs
type Outcome<Verb extends keyof Verbs> = Awaited<ReturnType<Verbs[Verb]>>
type Given<Verb extends keyof Verbs> = Verbs[Verb] extends (context: never, ...given: infer Given) => unknown
  ? Given
  : never

type NewsTable = {
  readonly [Verb in keyof Verbs]?: (
    outcome: Outcome<Verb>,
    context: QueueContext,
    ...given: Given<Verb>
  ) => News | undefined
}

const NEWS: NewsTable = {
  enqueueMany(results, { now }, jobs) {
    const stored = results.map((result) => (result.ok ? result.value.status : undefined))
    const delays = jobs.flatMap(({ delayMs, runAt }, nth) =>
      stored[nth] === 'scheduled' ? [delayMs ?? Number(runAt) - now()] : [],
    )
    return { jobs: stored.filter((status) => status === 'enqueued').length, dueInMs: soonest(delays) }
  },
  settle({ results }) {
    const settled = results.flatMap((result) => (result.ok ? [result.value] : []))
    return {
      jobs: settled.filter(({ status }) => status === 'pending').length,
      dueInMs: soonest(settled.flatMap((job) => (job.status === 'scheduled' ? [job.delayMs] : []))),
    }
  },
  retry: ofSettled,
  release: ofSettled,
  promote: ({ promoted }) => ({ jobs: promoted }),
  reap: ({ reaped }) => ({ jobs: reaped }),
  sweep: ({ pending }) => ({ jobs: pending }),
  redrive: (result) => (result.ok ? { jobs: 1 } : undefined),
  redriveMany: ({ redriven }, _, { dryRun }) => (dryRun ? undefined : { jobs: redriven }),
  reschedule(result, { now }, _, when) {
    if (!result.ok) return undefined
    if (result.value.status === 'pending') return { jobs: 1 }
    return { dueInMs: 'delayMs' in when ? when.delayMs : when.runAt - now() }
  },
  audit: ({ repaired }) => ({ jobs: repaired }),
  pause: () => ({ paused: true }),
  resume: ({ pending }) => ({ paused: false, jobs: pending }),
}

function ofSettled(result: Outcome<'release'>): News | undefined {
  if (!result.ok) return undefined
  const job = result.value
  if (job.status === 'pending') return { jobs: 1 }
  return job.status === 'scheduled' ? { dueInMs: job.delayMs } : undefined
}

const soonest = (delays: readonly number[]): number | undefined =>
  delays.length === 0 ? undefined : Math.max(0, Math.min(...delays))

/** The news of a verb that has succeeded; undefined when waiting claims need not know. */
export function newsOf(
  verb: keyof Verbs,
  outcome: unknown,
  context: QueueContext,
  given: readonly unknown[],
): News | undefined {
  const read = NEWS[verb] as
    | ((outcome: unknown, context: QueueContext, ...given: readonly unknown[]) => News | undefined)
    | undefined
  const news = read?.(outcome, context, ...given)
  const isNothing = !news?.jobs && news?.dueInMs === undefined && news?.paused === undefined
  return isNothing ? undefined : news
}
