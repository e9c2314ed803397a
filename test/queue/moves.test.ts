/**
 * Every move from every state, twice in a row: its reply, and everything that Redis stores of the queue after it. A move
 * that is not legal from a state changes no key.
 *
 * The tables below are the expectation; `support/effects.ts` defines what each of their words changes.
 */
import { describe, expect, test } from 'vitest'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import * as effects from './support/effects.ts'
import type { Hand } from './support/hand.ts'
import { build, LATER_MS, STATES, type StateName } from './support/states.ts'
import { look, type Readable, type World, wipe } from './support/world.ts'

const redis = bareRedis()

const DELAY_MS = 50_000
const LEASE_MS = 70_000
const ERROR = 'it broke'

/** Moves of a claimed job, with the newest token. */
const BY_TOKEN = table(`
  state                                         | complete   | retry      | last retry | fail       | release    | delayed release | extend
  no row                                        | gone       | gone       | gone       | gone       | gone       | gone            | gone
  a ghost in pending                            | gone       | gone       | gone       | gone       | gone       | gone            | gone
  a ghost in active                             | gone       | gone       | gone       | gone       | gone       | gone            | gone
  a ghost in schedule                           | gone       | gone       | gone       | gone       | gone       | gone            | gone
  a ghost in dead                               | gone       | gone       | gone       | gone       | gone       | gone            | gone
  half a row in active                          | dropped    | gone       | gone       | gone       | gone       | gone            | gone
  half a row in schedule                        | dropped    | gone       | gone       | gone       | gone       | gone            | gone
  half a row in no set                          | dropped    | gone       | gone       | gone       | gone       | gone            | gone
  pending, never claimed                        | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
  pending after a release                       | released   | released   | released   | released   | released   | released        | released
  pending after a retry                         | released   | released   | released   | released   | released   | released        | released
  pending after a first lapse                   | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed          | lapsed
  pending after a redrive                       | released   | released   | released   | released   | released   | released        | released
  pending after a redrive from a lapse          | released   | released   | released   | released   | released   | released        | released
  pending past its startBy                      | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
  active by its first claim                     | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active by a claim in time for its startBy     | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active by a second claim                      | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active again after a lapse                    | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active again after a redrive                  | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active with a lapsed lease                    | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active with a second lapsed lease             | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  active with a lapsed lease and a spent budget | completed  | scheduled  | dead       | dead       | pending    | scheduled       | extended
  scheduled by a delay                          | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
  scheduled by a delay and due                  | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
  scheduled past its startBy                    | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
  scheduled by a retry                          | released   | released   | released   | released   | released   | released        | released
  scheduled by a retry and due                  | released   | released   | released   | released   | released   | released        | released
  scheduled by a release                        | released   | released   | released   | released   | released   | released        | released
  scheduled by a second lapse                   | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed          | lapsed
  scheduled by a second lapse and due           | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed          | lapsed
  dead by a retry                               | released   | released   | released   | released   | released   | released        | released
  dead by a fail                                | released   | released   | released   | released   | released   | released        | released
  dead by a fail before its startBy             | released   | released   | released   | released   | released   | released        | released
  dead by a lapse                               | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed          | lapsed
  dead by its startBy                           | superseded | superseded | superseded | superseded | superseded | superseded      | superseded
`)

/** Moves of one job by its id. */
const BY_ID = table(`
  state                                         | enqueue   | delayed enqueue | redrive  | reschedule  | reschedule to now | remove
  no row                                        | enqueued  | scheduled       | gone     | gone        | gone              | gone
  a ghost in pending                            | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  a ghost in active                             | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  a ghost in schedule                           | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  a ghost in dead                               | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  half a row in active                          | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  half a row in schedule                        | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  half a row in no set                          | enqueued  | scheduled       | gone     | gone        | gone              | cleared
  pending, never claimed                        | duplicate | duplicate       | state    | state       | state             | removed
  pending after a release                       | duplicate | duplicate       | state    | state       | state             | removed
  pending after a retry                         | duplicate | duplicate       | state    | state       | state             | removed
  pending after a first lapse                   | duplicate | duplicate       | state    | state       | state             | removed
  pending after a redrive                       | duplicate | duplicate       | state    | state       | state             | removed
  pending after a redrive from a lapse          | duplicate | duplicate       | state    | state       | state             | removed
  pending past its startBy                      | duplicate | duplicate       | state    | state       | state             | removed
  active by its first claim                     | duplicate | duplicate       | state    | state       | state             | locked
  active by a claim in time for its startBy     | duplicate | duplicate       | state    | state       | state             | locked
  active by a second claim                      | duplicate | duplicate       | state    | state       | state             | locked
  active again after a lapse                    | duplicate | duplicate       | state    | state       | state             | locked
  active again after a redrive                  | duplicate | duplicate       | state    | state       | state             | locked
  active with a lapsed lease                    | duplicate | duplicate       | state    | state       | state             | removed
  active with a second lapsed lease             | duplicate | duplicate       | state    | state       | state             | removed
  active with a lapsed lease and a spent budget | duplicate | duplicate       | state    | state       | state             | removed
  scheduled by a delay                          | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a delay and due                  | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled past its startBy                    | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a retry                          | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a retry and due                  | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a release                        | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a second lapse                   | duplicate | duplicate       | state    | rescheduled | pending           | removed
  scheduled by a second lapse and due           | duplicate | duplicate       | state    | rescheduled | pending           | removed
  dead by a retry                               | duplicate | duplicate       | redriven | state       | state             | removed
  dead by a fail                                | duplicate | duplicate       | redriven | state       | state             | removed
  dead by a fail before its startBy             | duplicate | duplicate       | redriven | state       | state             | removed
  dead by a lapse                               | duplicate | duplicate       | redriven | state       | state             | removed
  dead by its startBy                           | duplicate | duplicate       | redriven | state       | state             | removed
`)

/** Moves of whatever jobs a queue has. A dash: no change. */
const BY_QUEUE = table(`
  state                                         | core claim | batch claim       | promote  | reap      | sweep     | purge pending | purge scheduled | purge dead | list
  no row                                        | -          | -                 | -        | -         | -         | -             | -               | -          | -
  a ghost in pending                            | half       | dropped           | -        | -         | -         | purged        | -               | -          | -
  a ghost in active                             | -          | dropped           | -        | dropped   | dropped   | -             | -               | -          | -
  a ghost in schedule                           | -          | dropped           | dropped  | -         | dropped   | -             | purged          | -          | -
  a ghost in dead                               | -          | -                 | -        | -         | -         | -             | -               | purged     | -
  half a row in active                          | -          | dropped           | -        | dropped   | dropped   | -             | -               | -          | -
  half a row in schedule                        | -          | dropped           | dropped  | -         | dropped   | -             | purged          | -          | -
  half a row in no set                          | -          | -                 | -        | -         | -         | -             | -               | -          | -
  pending, never claimed                        | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending after a release                       | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending after a retry                         | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending after a first lapse                   | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending after a redrive                       | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending after a redrive from a lapse          | claimed    | claimed           | -        | -         | -         | purged        | -               | -          | -
  pending past its startBy                      | claimed    | expired           | -        | -         | expired   | purged        | -               | -          | -
  active by its first claim                     | -          | -                 | -        | -         | -         | -             | -               | -          | -
  active by a claim in time for its startBy     | -          | -                 | -        | -         | -         | -             | -               | -          | -
  active by a second claim                      | -          | -                 | -        | -         | -         | -             | -               | -          | -
  active again after a lapse                    | -          | -                 | -        | -         | -         | -             | -               | -          | -
  active again after a redrive                  | -          | -                 | -        | -         | -         | -             | -               | -          | -
  active with a lapsed lease                    | -          | pending, claimed  | -        | pending   | pending   | -             | -               | -          | -
  active with a second lapsed lease             | -          | scheduled         | -        | scheduled | scheduled | -             | -               | -          | -
  active with a lapsed lease and a spent budget | -          | dead              | -        | dead      | dead      | -             | -               | -          | -
  scheduled by a delay                          | -          | -                 | -        | -         | -         | -             | purged          | -          | -
  scheduled by a delay and due                  | -          | promoted, claimed | promoted | -         | promoted  | -             | purged          | -          | -
  scheduled past its startBy                    | -          | -                 | -        | -         | expired   | -             | purged          | -          | -
  scheduled by a retry                          | -          | -                 | -        | -         | -         | -             | purged          | -          | -
  scheduled by a retry and due                  | -          | promoted, claimed | promoted | -         | promoted  | -             | purged          | -          | -
  scheduled by a release                        | -          | -                 | -        | -         | -         | -             | purged          | -          | -
  scheduled by a second lapse                   | -          | -                 | -        | -         | -         | -             | purged          | -          | -
  scheduled by a second lapse and due           | -          | promoted, claimed | promoted | -         | promoted  | -             | purged          | -          | -
  dead by a retry                               | -          | -                 | -        | -         | -         | -             | -               | purged     | -
  dead by a fail                                | -          | -                 | -        | -         | -         | -             | -               | purged     | -
  dead by a fail before its startBy             | -          | -                 | -        | -         | -         | -             | -               | purged     | -
  dead by a lapse                               | -          | -                 | -        | -         | -         | -             | -               | purged     | -
  dead by its startBy                           | -          | -                 | -        | -         | -         | -             | -               | purged     | -
`)

/** The outcome of a second run, by the outcome of the first one; a rejected move is rejected again. */
const REPEATS = {
  token: (word: string) => {
    if (word === 'extended') return word
    return word === 'completed' || word === 'dropped' ? 'gone' : 'released'
  },
  id: (word: string) => {
    if (word === 'rescheduled') return word
    if (word === 'removed' || word === 'cleared') return 'gone'
    return word === 'redriven' || word === 'pending' ? 'state' : 'duplicate'
  },
  queue: () => '-',
}

/** The words of the tables as test names say them. */
const PHRASES: Readonly<Record<string, string>> = {
  gone: 'finds no job',
  superseded: 'is rejected as superseded',
  released: 'is rejected as released',
  lapsed: 'is rejected as lapsed',
  duplicate: 'returns a duplicate',
  state: 'is rejected because of the state',
  locked: 'is rejected because of the lease',
  '-': 'changes nothing',
  completed: 'completes the job',
  extended: 'extends the lease',
  enqueued: 'enqueues the job',
  redriven: 'redrives the job',
  rescheduled: 'changes the due time',
  removed: 'removes the job',
  cleared: 'removes the ghost',
  dropped: 'removes and counts the ghost',
  half: 'claims the ghost and leaves a half row',
  claimed: 'claims the job',
  promoted: 'promotes the job',
  pending: 'makes the job pending',
  scheduled: 'schedules the job',
  dead: 'makes the job dead',
  expired: 'expires the job',
  purged: 'deletes the job',
  'pending, claimed': 'reaps and claims the job',
  'promoted, claimed': 'promotes and claims the job',
}

const REFUSED = new Set(['gone', 'superseded', 'released', 'lapsed', 'duplicate', 'state', 'locked', '-'])

/** A way to make a move: the column of a table, the effect of each word in it, and the reply. */
type Form = {
  readonly name: string
  readonly column: string
  readonly run: (hand: Hand, id: string, token: string) => Promise<Readable>
  readonly effect: (word: string) => effects.Effect
  readonly reply: (word: string, was: Was) => Readable
}

type Was = { readonly id: string; readonly before: World; readonly after: World; readonly now: number }

const stale = (script: string, word: string): Readable => ({
  error: `EMQSTALE ${script} token mismatch${word === 'superseded' ? '' : ` (${word})`}`,
})

const settled = (word: string, done: Readable): Readable => {
  if (word === 'gone' || word === 'dropped') return ['gone', 0]
  return REFUSED.has(word) ? ['stale', word] : done
}

const effectsOf =
  (known: Readonly<Record<string, effects.Effect>>): Form['effect'] =>
  (word) => {
    const effect = REFUSED.has(word) ? effects.nothing : known[word]
    if (effect === undefined) throw new Error(`The word "${word}" has no effect here.`)
    return effect
  }

const completeEffects = effectsOf({ completed: effects.completed, dropped: effects.dropped })

const retryForms = (column: string, limit: number): Form[] => {
  const forms: Form[] = (['', '0.5'] as const).map((jitter) => ({
    name: jitter === '' ? column : `${column} in the extended form`,
    column,
    run: (hand, id, token) =>
      hand.retry(id, token, DELAY_MS, limit, ERROR, jitter === '' ? undefined : jitter),
    effect: effectsOf({
      scheduled: effects.retried(DELAY_MS, ERROR, jitter !== ''),
      dead: effects.retriedToDeath(ERROR, jitter !== ''),
    }),
    reply: (word) => {
      if (word === 'gone') return { error: 'EMQSTALE job gone' }
      if (REFUSED.has(word)) return stale('retry', word)
      return jitter === '' ? word : [word, word === 'scheduled' ? DELAY_MS : 0]
    },
  }))
  return [
    ...forms,
    {
      name: `settle by ${column}`,
      column,
      run: (hand, id, token) =>
        hand.settle([{ action: 'retry', id, token, ms: DELAY_MS, maxAttempts: limit, error: ERROR }]),
      effect: effectsOf({
        scheduled: effects.retried(DELAY_MS, ERROR, true),
        dead: effects.retriedToDeath(ERROR, true),
      }),
      reply: (word) => settled(word, [word, word === 'scheduled' ? DELAY_MS : 0]),
    },
  ]
}

const TOKEN_FORMS: readonly Form[] = [
  {
    name: 'complete',
    column: 'complete',
    run: (hand, id, token) => hand.complete(id, token),
    effect: completeEffects,
    reply: (word) => {
      if (word === 'completed') return 1
      return word === 'gone' || word === 'dropped' ? 0 : stale('complete', word)
    },
  },
  {
    name: 'settle by complete',
    column: 'complete',
    run: (hand, id, token) => hand.settle([{ action: 'complete', id, token }]),
    effect: completeEffects,
    reply: (word) => settled(word, ['completed', 0]),
  },
  ...retryForms('retry', 0),
  ...retryForms('last retry', 1),
  {
    name: 'settle by fail',
    column: 'fail',
    run: (hand, id, token) => hand.settle([{ action: 'fail', id, token, error: ERROR }]),
    effect: effectsOf({ dead: effects.retriedToDeath(ERROR, true) }),
    reply: (word) => settled(word, ['dead', 0]),
  },
  {
    name: 'settle by release',
    column: 'release',
    run: (hand, id, token) => hand.settle([{ action: 'release', id, token, ms: 0 }]),
    effect: effectsOf({ pending: effects.released(0) }),
    reply: (word) => settled(word, ['pending', 0]),
  },
  {
    name: 'settle by delayed release',
    column: 'delayed release',
    run: (hand, id, token) => hand.settle([{ action: 'release', id, token, ms: DELAY_MS }]),
    effect: effectsOf({ scheduled: effects.released(DELAY_MS) }),
    reply: (word) => settled(word, ['scheduled', DELAY_MS]),
  },
  {
    name: 'settle by extend',
    column: 'extend',
    run: (hand, id, token) => hand.settle([{ action: 'extend', id, token, ms: LEASE_MS }]),
    effect: effectsOf({ extended: effects.extended(LEASE_MS) }),
    reply: (word) => settled(word, ['extended', LEASE_MS]),
  },
]

const isState = (was: Was): Readable => ({ error: `EMQSTATE job is ${was.before.rows[was.id]?.['state']}` })

const rescheduleForm = (column: string, delayMs: number, effect: effects.Effect): Form => ({
  name: column,
  column,
  run: (hand, id) => hand.reschedule(id, { delayMs }),
  effect: effectsOf({ rescheduled: effect, pending: effect }),
  reply: (word, was) => {
    if (word === 'gone') return ['gone', 0]
    if (word === 'state') return isState(was)
    return word === 'pending' ? ['pending', 0] : ['scheduled', was.after.schedule[was.id] ?? null]
  },
})

const ID_FORMS: readonly Form[] = [
  {
    name: 'core enqueue',
    column: 'enqueue',
    run: (hand, id) => hand.enqueue(id),
    effect: effectsOf({ enqueued: effects.enqueuedByTwoKeys }),
    reply: (word) => (word === 'enqueued' ? 1 : 0),
  },
  {
    name: 'enqueue',
    column: 'enqueue',
    run: (hand, id) => hand.enqueueMany([{ id }]),
    effect: effectsOf({ enqueued: effects.enqueued }),
    reply: (word, { id }) => [word, id],
  },
  {
    name: 'delayed enqueue',
    column: 'delayed enqueue',
    run: (hand, id) => hand.enqueueMany([{ id, delayMs: DELAY_MS }]),
    effect: effectsOf({ scheduled: effects.enqueuedFor(DELAY_MS) }),
    reply: (word, { id }) => [word, id],
  },
  {
    name: 'redrive',
    column: 'redrive',
    run: (hand, id) => hand.redrive(id),
    effect: effectsOf({ redriven: effects.redriven }),
    reply: (word, was) => {
      if (word === 'state') return isState(was)
      return word === 'redriven' ? 1 : 0
    },
  },
  {
    name: 'redrive of many',
    column: 'redrive',
    run: (hand) => hand.redriveMany(),
    effect: effectsOf({ redriven: effects.redriven }),
    reply: (word, { id, before }) => [word === 'redriven' ? 1 : 0, id in before.dead ? id : '', 0],
  },
  {
    name: 'dry redrive of many',
    column: 'redrive',
    run: (hand) => hand.redriveMany({ dryRun: true }),
    effect: () => effects.nothing,
    reply: (_, { id, before }) => {
      const isDead = before.rows[id]?.['state'] === 'dead'
      return [isDead ? 1 : 0, id in before.dead ? id : '', 0]
    },
  },
  rescheduleForm('reschedule', LATER_MS * 2, effects.rescheduled(LATER_MS * 2)),
  rescheduleForm('reschedule to now', 0, effects.promoted),
  {
    name: 'remove',
    column: 'remove',
    run: (hand, id) => hand.remove(id),
    effect: effectsOf({ removed: effects.removed, cleared: effects.removed }),
    reply: (word) => {
      if (word === 'locked') return { error: 'EMQLOCK job is held by a live lease' }
      return word === 'removed' ? 1 : 0
    },
  },
]

/** Milliseconds until the next job is due or the next lease lapses. */
const waitIn = ({ schedule, active }: World, now: number): number => {
  const heads = [...Object.values(schedule), ...Object.values(active)]
  return heads.length === 0 ? -1 : Math.max(0, Math.min(...heads) - now)
}

/** What a claim returns of the budget, and the headers, which no job here has. */
const budgetOf = ({ rows }: World, id: string): Readable[] => {
  const { attempts = 0, base = 0, max_attempts: limit = 5 } = rows[id] ?? {}
  return [Number(attempts) - Number(base), Number(limit), '']
}

const reapEffects: Record<string, effects.Effect> = {
  pending: effects.lapsedToPending,
  scheduled: effects.lapsedToScheduled(LATER_MS),
  dead: effects.lapsedToDeath,
  dropped: effects.dropped,
}
const batchClaimed = effects.both(effects.claimed(LEASE_MS), effects.unindexed)

const has = (word: string, ...parts: string[]): number => (parts.some((part) => word.includes(part)) ? 1 : 0)

const purgeForm = (column: string, set: 'pending' | 'schedule' | 'dead'): Form => ({
  name: column,
  column,
  run: (hand) => hand.purge(set),
  effect: effectsOf({ purged: effects.removed }),
  reply: (word) => [has(word, 'purged'), 0],
})

const QUEUE_FORMS: readonly Form[] = [
  {
    name: 'core claim',
    column: 'core claim',
    run: (hand) => hand.claim(LEASE_MS),
    effect: effectsOf({ claimed: effects.claimed(LEASE_MS), half: effects.claimed(LEASE_MS) }),
    reply: (word, { id, after }) => {
      if (word === '-') return []
      return [id, word === 'half' ? null : 'payload', Number(after.rows[id]?.['attempts'])]
    },
  },
  {
    name: 'batch claim',
    column: 'batch claim',
    run: (hand) => hand.claimMany(10, LEASE_MS),
    effect: effectsOf({
      ...reapEffects,
      claimed: batchClaimed,
      expired: effects.expired,
      'pending, claimed': effects.both(effects.lapsedToPending, batchClaimed),
      'promoted, claimed': effects.both(effects.promoted, batchClaimed),
    }),
    reply: (word, { id, after, now }) =>
      has(word, 'claimed')
        ? [
            ...['ok', waitIn(after, now), id, 'payload', after.rows[id]?.['attempts'] ?? null, LEASE_MS],
            ...budgetOf(after, id),
          ]
        : ['ok', waitIn(after, now)],
  },
  {
    name: 'promote',
    column: 'promote',
    run: (hand) => hand.promote(),
    effect: effectsOf({ promoted: effects.promoted, dropped: effects.droppedUncounted }),
    reply: (word) => has(word, 'promoted'),
  },
  {
    name: 'promote in the extended form',
    column: 'promote',
    run: (hand) => hand.promote(100, true),
    effect: effectsOf({ promoted: effects.promoted, dropped: effects.dropped }),
    reply: (word) => [has(word, 'promoted'), has(word, 'dropped'), 0],
  },
  {
    name: 'reap',
    column: 'reap',
    run: (hand) => hand.reap(),
    effect: effectsOf(reapEffects),
    reply: (word) => (word === '-' ? 0 : 1),
  },
  {
    name: 'reap in the extended form',
    column: 'reap',
    run: (hand) => hand.reap(100, '0.5'),
    effect: effectsOf(reapEffects),
    reply: (word) => [word === '-' ? 0 : 1, has(word, 'dead'), has(word, 'dropped'), 0],
  },
  {
    name: 'sweep',
    column: 'sweep',
    run: (hand) => hand.sweep(),
    effect: effectsOf({ ...reapEffects, promoted: effects.promoted, expired: effects.expired }),
    reply: (word, { before, after, now }) => {
      const busy = Object.keys({ ...after.pending, ...after.active }).length > 0
      const due = Object.values(after.schedule)
      const lapsed =
        Object.keys(before.active).length > 0 && has(word, 'pending', 'scheduled', 'dead', 'dropped')
      const next = due.length === 0 ? -1 : Math.min(...due)
      return [
        now,
        has(word, 'promoted'),
        lapsed ? 1 : 0,
        has(word, 'dead', 'expired'),
        has(word, 'dropped'),
        0,
        busy ? now : next,
        Object.keys(after.pending).length,
      ]
    },
  },
  purgeForm('purge pending', 'pending'),
  purgeForm('purge scheduled', 'schedule'),
  purgeForm('purge dead', 'dead'),
  ...(['pending', 'active', 'schedule', 'dead'] as const).map(
    (set): Form => ({
      name: `list of ${set}`,
      column: 'list',
      run: (hand) => hand.list(set),
      effect: () => effects.nothing,
      reply: (_, { id, before: { rows, ...sets } }) => {
        // A row without a payload is not a job.
        const row = rows[id]?.['payload'] === undefined ? {} : rows[id]
        const fields = ['state', 'attempts', 'max_attempts', 'lapses', 'start_by', 'last_error', 'payload']
        const score = sets[set][id]
        return score === undefined
          ? [0]
          : [0, id, String(score), ...fields.map((field) => row[field] ?? null)]
      },
    }),
  ),
]

/** Wrong tokens. Tokens are compared as strings, so another spelling of the right number is wrong. */
const WRONG_TOKENS: readonly ((attempts: number) => string)[] = [
  (attempts) => String(attempts - 1),
  () => '0',
  (attempts) => String(attempts + 1),
  (attempts) => `0${attempts}`,
  () => '',
]

let ids = 0
const freshId = (): string => `JOB${String(++ids).padStart(11, '0')}`

/** What a census finds after the core enqueue of an id that is a ghost in a set of which it has no key. */
function duplicateEntryOf(form: Form, state: string, id: string): string[] {
  if (form.name !== 'core enqueue') return []
  const set = /ghost in (active|schedule|dead)|half a row in (active|schedule)/.exec(state)
  const where = set?.[1] ?? set?.[2]
  return where === undefined ? [] : [`${id} is in pending and ${where.replace('schedule', 'scheduled')}`]
}

/** A job in a state, in a queue of its own. */
async function bring(state: StateName): Promise<{ hand: Hand; id: string; attempts: number }> {
  const hand = redis.fresh()
  const id = freshId()
  await build(state, hand, id)
  const { world } = await look(redis.port, hand.queue)
  return { hand, id, attempts: Number(world.rows[id]?.['attempts'] ?? 0) }
}

/** Makes a move, and compares its reply and the whole world after it with what a word of the tables means. */
async function expectMove(form: Form, word: string, hand: Hand, id: string, token: string): Promise<void> {
  const { world: before, now: from } = await look(redis.port, hand.queue)
  const answer = await form.run(hand, id, token)
  const { world, now: to } = await look(redis.port, hand.queue)
  const effect = form.effect(word)
  const after = effect(before, id, { now: from, share: 0 })
  const latest = effect(before, id, { now: to, share: 1 })
  expect(effects.withTimesOf(world, after, latest)).toEqual(after)
  const reply = form.reply(word, { id, before, after: world, now: from })
  expect(withTimes(answer, reply, to - from)).toEqual(reply)
}

async function tryTwice(
  form: Form,
  state: StateName,
  word: string,
  repeatOf: (word: string) => string,
): Promise<void> {
  const { hand, id, attempts } = await bring(state)
  const before = await census(redis.port, hand.queue)
  await expectMove(form, word, hand, id, String(attempts))
  await expectMove(form, REFUSED.has(word) ? word : repeatOf(word), hand, id, String(attempts))
  if (before.length === 0 || !REFUSED.has(word))
    expect(await census(redis.port, hand.queue)).toEqual(
      word === 'half' ? halfOf(id) : duplicateEntryOf(form, state, id),
    )
  await wipe(redis.port, hand.queue)
}

async function tryWrongTokens(form: Form, state: StateName): Promise<void> {
  const { hand, id, attempts } = await bring(state)
  for (const tokenOf of WRONG_TOKENS) await expectMove(form, 'superseded', hand, id, tokenOf(attempts))
  await wipe(redis.port, hand.queue)
}

/** Without a row there is no token to compare: the reply is the same for every token. */
async function tryAnyToken(form: Form, state: StateName, word: string): Promise<void> {
  for (const tokenOf of WRONG_TOKENS) {
    const { hand, id, attempts } = await bring(state)
    await expectMove(form, word, hand, id, tokenOf(attempts))
    await wipe(redis.port, hand.queue)
  }
}

/** What a census finds after the core claim of a ghost: the next sweep removes it. */
const halfOf = (id: string): string[] => [`${id} is a row without a payload`]

/** A reply whose instants may differ by the time that the move took. */
function withTimes(actual: Readable, expected: Readable, tookMs: number): Readable {
  if (typeof actual === 'number' && typeof expected === 'number')
    return Math.abs(actual - expected) <= tookMs && Math.abs(expected) > 1000 ? expected : actual
  if (Array.isArray(actual) && Array.isArray(expected))
    return actual.map((one: Readable, nth) => withTimes(one, (expected as Readable[])[nth] ?? null, tookMs))
  return actual
}

const hasRow = (state: string): boolean => !/no row|ghost|half a row/.test(state)

for (const state of Object.keys(STATES) as StateName[]) {
  const wordsOf = (table: typeof BY_TOKEN, forms: readonly Form[]) =>
    forms.map((form) => [form, table.get(state)?.get(form.column) ?? 'missing'] as const)
  describe.concurrent(state, () => {
    for (const [form, word] of wordsOf(BY_TOKEN, TOKEN_FORMS)) {
      test(`${form.name} with the newest token ${PHRASES[word]} (${state})`, () =>
        tryTwice(form, state, word, REPEATS.token))
      if (hasRow(state))
        test(`${form.name} with any other token is rejected as superseded (${state})`, () =>
          tryWrongTokens(form, state))
      else
        test(`${form.name} with any token ${PHRASES[word]} (${state})`, () => tryAnyToken(form, state, word))
    }
    for (const [form, word] of wordsOf(BY_ID, ID_FORMS))
      test(`${form.name} ${PHRASES[word]} (${state})`, () => tryTwice(form, state, word, REPEATS.id))
    for (const [form, word] of wordsOf(BY_QUEUE, QUEUE_FORMS))
      test(`${form.name} ${PHRASES[word]} (${state})`, () => tryTwice(form, state, word, REPEATS.queue))
  })
}

test('the tables have a line for each state, a form for each column and a phrase for each word', () => {
  for (const [lines, forms] of [
    [BY_TOKEN, TOKEN_FORMS],
    [BY_ID, ID_FORMS],
    [BY_QUEUE, QUEUE_FORMS],
  ] as const) {
    expect([...lines.keys()].sort()).toEqual(Object.keys(STATES).sort())
    const columns = new Set([...lines.values()].flatMap((cells) => [...cells.keys()]))
    expect(columns).toEqual(new Set(forms.map(({ column }) => column)))
    const words = [...lines.values()].flatMap((cells) => [...cells.values()])
    expect(words.filter((word) => !(word in PHRASES))).toEqual([])
  }
})

/** A table in text: the first line names the columns, the first column the states. */
function table(text: string): Map<string, Map<string, string>> {
  const [head = [], ...lines] = text
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
  return new Map(
    lines.map(([state = '', ...cells]) => [
      state,
      new Map(cells.map((cell, nth) => [head[nth + 1] ?? '', cell])),
    ]),
  )
}
