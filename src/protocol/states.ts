/**
 * The states of a job and the moves between them, as data. `docs/states.md` draws the same table, and a test compares
 * the two. A job is in exactly one of four sets, and its row names the state that belongs to that set.
 */

/** Each state with the key of its set. */
export const SET_OF_STATE = {
  /**
   * A consumer may claim the job. Score 0 for every job, so the order is the order of the ids, oldest first. Enqueue,
   * promote, reschedule to now, release, the first lapse and redrive move a job in. Claim moves it out; so do an
   * expired `startBy` and the operator's remove and purge.
   */
  pending: 'pending',
  /**
   * A consumer owns the job until its lease lapses; the score is that deadline in server ms. Only claim moves a job in,
   * and it mints the fencing token. The holder moves the job out: complete, retry, fail or release. After a lapse the
   * reaper moves it out.
   */
  active: 'active',
  /**
   * The job waits for its run-at, which is the score in ms. Enqueue with a delay or a time, retry, release with a delay
   * and every lapse after the first move a job in. Promote moves it out when it is due; so do reschedule to now, an
   * expired `startBy`, remove and purge.
   */
  scheduled: 'schedule',
  /**
   * The job is a dead letter: its budget is used up, its consumer failed it, or no consumer started it before its
   * `startBy`. Score 0. Retry, fail, reap and expire move a job in. Only an operator moves it out: redrive, remove or
   * purge.
   */
  dead: 'dead',
} as const

export type JobState = keyof typeof SET_OF_STATE
export type StateSet = (typeof SET_OF_STATE)[JobState]

export const JOB_STATES = ['pending', 'active', 'scheduled', 'dead'] as const satisfies readonly JobState[]
export const STATE_SETS = JOB_STATES.map((state) => SET_OF_STATE[state])

/** Whether a word is a state. The word in a row may be unknown: other clients write rows too. */
export const isJobState = (word: string | undefined): word is JobState =>
  JOB_STATES.some((state) => state === word)

/** Before a job is enqueued, and after it is completed or deleted: no row. */
type Place = JobState | 'none'

/** Each move: from where to where. A move that is missing here is rejected and changes nothing. */
export const MOVES: Readonly<Record<string, readonly { readonly from: Place; readonly to: Place }[]>> = {
  enqueue: [
    { from: 'none', to: 'pending' },
    { from: 'none', to: 'scheduled' },
  ],
  claim: [{ from: 'pending', to: 'active' }],
  complete: [{ from: 'active', to: 'none' }],
  retry: [
    { from: 'active', to: 'scheduled' },
    { from: 'active', to: 'dead' },
  ],
  fail: [{ from: 'active', to: 'dead' }],
  release: [
    { from: 'active', to: 'pending' },
    { from: 'active', to: 'scheduled' },
  ],
  extend: [{ from: 'active', to: 'active' }],
  reap: [
    { from: 'active', to: 'pending' },
    { from: 'active', to: 'scheduled' },
    { from: 'active', to: 'dead' },
  ],
  promote: [{ from: 'scheduled', to: 'pending' }],
  expire: [
    { from: 'pending', to: 'dead' },
    { from: 'scheduled', to: 'dead' },
  ],
  reschedule: [
    { from: 'scheduled', to: 'scheduled' },
    { from: 'scheduled', to: 'pending' },
  ],
  redrive: [{ from: 'dead', to: 'pending' }],
  remove: [
    { from: 'pending', to: 'none' },
    { from: 'active', to: 'none' },
    { from: 'scheduled', to: 'none' },
    { from: 'dead', to: 'none' },
  ],
  purge: [
    { from: 'pending', to: 'none' },
    { from: 'scheduled', to: 'none' },
    { from: 'dead', to: 'none' },
  ],
}
