/**
 * The last sweep of a queue in this isolate, for claims without a limit: the contract's script reads neither `paused`
 * nor the settings, and sweeps nothing.
 *
 * A report is used for one second, counted from before its sweep was sent, so a pause stops claims within that time.
 * One sweep runs at a time, and all claims that arrive meanwhile share it. A report that more jobs are due is used by
 * the claims that waited for it; the next claim sweeps again.
 */

/** What a claim without a limit must know of its queue. */
export type ClaimRules = {
  readonly paused: boolean
  /** Whether the queue has a limit of active jobs. */
  readonly capped: boolean
  readonly leaseMs: number
  /** Whether the sweep left due jobs behind. */
  readonly more: boolean
}

export type RememberedSweep = {
  /** The report of a sweep that is recent enough for a claim that arrives now. */
  current(sweep: () => Promise<ClaimRules>): Promise<ClaimRules>
  /** Makes the next claim sweep: this isolate has just changed the queue. */
  forget(): void
}

const BELIEVED_MS = 1_000
/** A sweep whose request was aborted may never end. Claims wait no longer than this for the sweep of another claim. */
const LONGEST_SWEEP_MS = 5_000

type Sweep = { sentAt: number; readonly report: Promise<ClaimRules> }

export function createRememberedSweep(now: () => number): RememberedSweep {
  let running: Sweep | undefined
  let latest: { sentAt: number; readonly report: ClaimRules } | undefined

  function begin(sweep: () => Promise<ClaimRules>): Sweep {
    const begun: Sweep = {
      sentAt: now(),
      report: sweep().then(
        (report) => {
          // An abandoned sweep that ends late must not replace a newer one.
          if (running === begun) latest = { sentAt: begun.sentAt, report }
          end()
          return report
        },
        (error: unknown) => {
          end()
          throw error
        },
      ),
    }
    const end = (): void => {
      if (running === begun) running = undefined
    }
    running = begun
    return begun
  }

  return {
    async current(sweep) {
      const arrivedAt = now()
      // A clock that was set back must not make an old report young.
      const isRecent = ({ sentAt }: { sentAt: number }): boolean =>
        arrivedAt >= sentAt && arrivedAt - sentAt < BELIEVED_MS
      if (latest !== undefined && isRecent(latest) && !latest.report.more) return latest.report
      const old = running
      if (old === undefined) return begin(sweep).report
      const report = await within(LONGEST_SWEEP_MS, old.report)
      if (report !== undefined && isRecent(old)) return report
      // That sweep was sent too early to show a pause since. One that began meanwhile is shared.
      if (running === old) running = undefined
      return (running ?? begin(sweep)).report
    },

    forget() {
      for (const known of [latest, running]) if (known !== undefined) known.sentAt = Number.NEGATIVE_INFINITY
    },
  }
}

/** The outcome of the work; undefined when it fails or takes longer. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  return Promise.race([work.catch(() => undefined), timeout]).finally(() => clearTimeout(timer))
}
