/**
 * Every move from every state: what it answers, and the whole world after it, twice in a row. A move that is not legal
 * from a state changes nothing at all, in any key.
 *
 * The tables below are the expectation; `support/effects.ts` says what each of their words does to the world.
 */
import { describe, expect, test } from 'vitest'
import { freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { bareRedis } from './support/bare.ts'
import * as effects from './support/effects.ts'
import { type Hand, handOn } from './support/hand.ts'
import { build, LATER_MS, STATES, type StateName } from './support/states.ts'
import { look, type Readable, type World, wipe } from './support/world.ts'

const redis = bareRedis()

const DELAY_MS = 50_000
const LEASE_MS = 70_000
const ERROR = 'it broke'

/** What a holder may do, with the newest token. */
const HOLDERS = table(`
  state                                          | complete   | retry      | retry out  | fail       | release    | release later | extend
  no row                                         | gone       | gone       | gone       | gone       | gone       | gone          | gone
  a ghost in pending                             | gone       | gone       | gone       | gone       | gone       | gone          | gone
  a ghost in active                              | gone       | gone       | gone       | gone       | gone       | gone          | gone
  a ghost in schedule                            | gone       | gone       | gone       | gone       | gone       | gone          | gone
  a ghost in dead                                | gone       | gone       | gone       | gone       | gone       | gone          | gone
  half a row in active                           | dropped    | gone       | gone       | gone       | gone       | gone          | gone
  half a row in schedule                         | dropped    | gone       | gone       | gone       | gone       | gone          | gone
  half a row in no set                           | dropped    | gone       | gone       | gone       | gone       | gone          | gone
  pending, never claimed                         | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
  pending after a release                        | released   | released   | released   | released   | released   | released      | released
  pending after a retry                          | released   | released   | released   | released   | released   | released      | released
  pending after a first lapse                    | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed        | lapsed
  pending after a redrive                        | released   | released   | released   | released   | released   | released      | released
  pending after a redrive from a lapse           | released   | released   | released   | released   | released   | released      | released
  pending past its startBy                       | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
  active by its first claim                      | completed  | retried    | buried     | failed     | given back | put back      | extended
  active by a claim in time for its startBy      | completed  | retried    | buried     | failed     | given back | put back      | extended
  active by a second claim                       | completed  | retried    | buried     | failed     | given back | put back      | extended
  active again after a lapse                     | completed  | retried    | buried     | failed     | given back | put back      | extended
  active again after a redrive                   | completed  | retried    | buried     | failed     | given back | put back      | extended
  active with a lapsed lease                     | completed  | retried    | buried     | failed     | given back | put back      | extended
  active with a second lapsed lease              | completed  | retried    | buried     | failed     | given back | put back      | extended
  active with a lapsed lease and a spent budget  | completed  | retried    | buried     | failed     | given back | put back      | extended
  scheduled by a delay                           | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
  scheduled by a delay and due                   | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
  scheduled past its startBy                     | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
  scheduled by a retry                           | released   | released   | released   | released   | released   | released      | released
  scheduled by a retry and due                   | released   | released   | released   | released   | released   | released      | released
  scheduled by a release                         | released   | released   | released   | released   | released   | released      | released
  scheduled by a second lapse                    | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed        | lapsed
  scheduled by a second lapse and due            | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed        | lapsed
  dead by a retry                                | released   | released   | released   | released   | released   | released      | released
  dead by a fail                                 | released   | released   | released   | released   | released   | released      | released
  dead by a fail before its startBy              | released   | released   | released   | released   | released   | released      | released
  dead by a lapse                                | completed  | lapsed     | lapsed     | lapsed     | lapsed     | lapsed        | lapsed
  dead by its startBy                            | superseded | superseded | superseded | superseded | superseded | superseded    | superseded
`)

/** What anybody may do who knows the id. */
const NAMED = table(`
  state                                          | enqueue    | enqueue later | redrive  | reschedule   | hurry     | remove
  no row                                         | enqueued   | scheduled     | gone     | gone         | gone      | gone
  a ghost in pending                             | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  a ghost in active                              | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  a ghost in schedule                            | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  a ghost in dead                                | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  half a row in active                           | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  half a row in schedule                         | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  half a row in no set                           | enqueued   | scheduled     | gone     | gone         | gone      | cleared
  pending, never claimed                         | duplicate  | duplicate     | state    | state        | state     | removed
  pending after a release                        | duplicate  | duplicate     | state    | state        | state     | removed
  pending after a retry                          | duplicate  | duplicate     | state    | state        | state     | removed
  pending after a first lapse                    | duplicate  | duplicate     | state    | state        | state     | removed
  pending after a redrive                        | duplicate  | duplicate     | state    | state        | state     | removed
  pending after a redrive from a lapse           | duplicate  | duplicate     | state    | state        | state     | removed
  pending past its startBy                       | duplicate  | duplicate     | state    | state        | state     | removed
  active by its first claim                      | duplicate  | duplicate     | state    | state        | state     | locked
  active by a claim in time for its startBy      | duplicate  | duplicate     | state    | state        | state     | locked
  active by a second claim                       | duplicate  | duplicate     | state    | state        | state     | locked
  active again after a lapse                     | duplicate  | duplicate     | state    | state        | state     | locked
  active again after a redrive                   | duplicate  | duplicate     | state    | state        | state     | locked
  active with a lapsed lease                     | duplicate  | duplicate     | state    | state        | state     | removed
  active with a second lapsed lease              | duplicate  | duplicate     | state    | state        | state     | removed
  active with a lapsed lease and a spent budget  | duplicate  | duplicate     | state    | state        | state     | removed
  scheduled by a delay                           | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a delay and due                   | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled past its startBy                     | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a retry                           | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a retry and due                   | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a release                         | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a second lapse                    | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  scheduled by a second lapse and due            | duplicate  | duplicate     | state    | rescheduled  | hurried   | removed
  dead by a retry                                | duplicate  | duplicate     | redriven | state        | state     | removed
  dead by a fail                                 | duplicate  | duplicate     | redriven | state        | state     | removed
  dead by a fail before its startBy              | duplicate  | duplicate     | redriven | state        | state     | removed
  dead by a lapse                                | duplicate  | duplicate     | redriven | state        | state     | removed
  dead by its startBy                            | duplicate  | duplicate     | redriven | state        | state     | removed
`)

/** What moves whatever it finds. A dash: nothing. */
const PUMPS = table(`
  state                                          | claim   | claim many       | promote  | reap      | sweep     | drain pending | drain scheduled | drain dead | list
  no row                                         | -       | -                | -        | -         | -         | -             | -               | -          | -
  a ghost in pending                             | half    | dropped          | -        | -         | -         | drained       | -               | -          | -
  a ghost in active                              | -       | dropped          | -        | dropped   | dropped   | -             | -               | -          | -
  a ghost in schedule                            | -       | dropped          | dropped  | -         | dropped   | -             | drained         | -          | -
  a ghost in dead                                | -       | -                | -        | -         | -         | -             | -               | drained    | -
  half a row in active                           | -       | dropped          | -        | dropped   | dropped   | -             | -               | -          | -
  half a row in schedule                         | -       | dropped          | dropped  | -         | dropped   | -             | drained         | -          | -
  half a row in no set                           | -       | -                | -        | -         | -         | -             | -               | -          | -
  pending, never claimed                         | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending after a release                        | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending after a retry                          | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending after a first lapse                    | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending after a redrive                        | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending after a redrive from a lapse           | claimed | claimed          | -        | -         | -         | drained       | -               | -          | -
  pending past its startBy                       | claimed | expired          | -        | -         | expired   | drained       | -               | -          | -
  active by its first claim                      | -       | -                | -        | -         | -         | -             | -               | -          | -
  active by a claim in time for its startBy      | -       | -                | -        | -         | -         | -             | -               | -          | -
  active by a second claim                       | -       | -                | -        | -         | -         | -             | -               | -          | -
  active again after a lapse                     | -       | -                | -        | -         | -         | -             | -               | -          | -
  active again after a redrive                   | -       | -                | -        | -         | -         | -             | -               | -          | -
  active with a lapsed lease                     | -       | back, claimed    | -        | back      | back      | -             | -               | -          | -
  active with a second lapsed lease              | -       | put off          | -        | put off   | put off   | -             | -               | -          | -
  active with a lapsed lease and a spent budget  | -       | died             | -        | died      | died      | -             | -               | -          | -
  scheduled by a delay                           | -       | -                | -        | -         | -         | -             | drained         | -          | -
  scheduled by a delay and due                   | -       | promoted, claimed| promoted | -         | promoted  | -             | drained         | -          | -
  scheduled past its startBy                     | -       | -                | -        | -         | expired   | -             | drained         | -          | -
  scheduled by a retry                           | -       | -                | -        | -         | -         | -             | drained         | -          | -
  scheduled by a retry and due                   | -       | promoted, claimed| promoted | -         | promoted  | -             | drained         | -          | -
  scheduled by a release                         | -       | -                | -        | -         | -         | -             | drained         | -          | -
  scheduled by a second lapse                    | -       | -                | -        | -         | -         | -             | drained         | -          | -
  scheduled by a second lapse and due            | -       | promoted, claimed| promoted | -         | promoted  | -             | drained         | -          | -
  dead by a retry                                | -       | -                | -        | -         | -         | -             | -               | drained    | -
  dead by a fail                                 | -       | -                | -        | -         | -         | -             | -               | drained    | -
  dead by a fail before its startBy              | -       | -                | -        | -         | -         | -             | -               | drained    | -
  dead by a lapse                                | -       | -                | -        | -         | -         | -             | -               | drained    | -
  dead by its startBy                            | -       | -                | -        | -         | -         | -             | -               | drained    | -
`)

/** What comes of a repeat, by what came of the first run; what is not named here comes again. */
const REPEATS: Readonly<Record<string, string>> = {
  completed: 'gone',
  retried: 'released',
  buried: 'released',
  failed: 'released',
  'given back': 'released',
  'put back': 'released',
  enqueued: 'duplicate',
  scheduled: 'duplicate',
  redriven: 'state',
  hurried: 'state',
  removed: 'gone',
  cleared: 'gone',
  half: '-',
  claimed: '-',
  promoted: '-',
  back: '-',
  'put off': '-',
  died: '-',
  expired: '-',
  drained: '-',
  'back, claimed': '-',
  'promoted, claimed': '-',
}

/** What comes of a repeat of a ghost's removal: a holder hears that it is gone, a pump finds nothing. */
const repeatOf = (word: string, isPump: boolean): string =>
  word === 'dropped' ? (isPump ? '-' : 'gone') : (REPEATS[word] ?? word)

const REFUSED = new Set(['gone', 'superseded', 'released', 'lapsed', 'duplicate', 'state', 'locked', '-'])

/** A way to make a move, and what it does and answers where a word stands in the tables. */
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
    if (effect === undefined) throw new Error(`nobody says what "${word}" does`)
    return effect
  }

const completeEffects = effectsOf({ completed: effects.completed, dropped: effects.dropped })

const retryForms = (column: string, limit: number): Form[] => {
  const forms: Form[] = (['', '0.5'] as const).map((jitter) => ({
    name: jitter === '' ? column : `${column}, told at length,`,
    column,
    run: (hand, id, token) =>
      hand.retry(id, token, DELAY_MS, limit, ERROR, jitter === '' ? undefined : jitter),
    effect: effectsOf({
      retried: effects.retried(DELAY_MS, ERROR, jitter !== ''),
      buried: effects.retriedToDeath(ERROR, jitter !== ''),
    }),
    reply: (word) => {
      if (word === 'gone') return { error: 'EMQSTALE job gone' }
      if (REFUSED.has(word)) return stale('retry', word)
      const state = word === 'retried' ? 'scheduled' : 'dead'
      return jitter === '' ? state : [state, word === 'retried' ? DELAY_MS : 0]
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
        retried: effects.retried(DELAY_MS, ERROR, true),
        buried: effects.retriedToDeath(ERROR, true),
      }),
      reply: (word) => settled(word, word === 'retried' ? ['scheduled', DELAY_MS] : ['dead', 0]),
    },
  ]
}

const HOLDER_FORMS: readonly Form[] = [
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
  ...retryForms('retry out', 1),
  {
    name: 'settle by fail',
    column: 'fail',
    run: (hand, id, token) => hand.settle([{ action: 'fail', id, token, error: ERROR }]),
    effect: effectsOf({ failed: effects.retriedToDeath(ERROR, true) }),
    reply: (word) => settled(word, ['dead', 0]),
  },
  {
    name: 'settle by release',
    column: 'release',
    run: (hand, id, token) => hand.settle([{ action: 'release', id, token, ms: 0 }]),
    effect: effectsOf({ 'given back': effects.released(0) }),
    reply: (word) => settled(word, ['pending', 0]),
  },
  {
    name: 'settle by release later',
    column: 'release later',
    run: (hand, id, token) => hand.settle([{ action: 'release', id, token, ms: DELAY_MS }]),
    effect: effectsOf({ 'put back': effects.released(DELAY_MS) }),
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
  effect: effectsOf({ rescheduled: effect, hurried: effect }),
  reply: (word, was) => {
    if (word === 'gone') return ['gone', 0]
    if (word === 'state') return isState(was)
    return word === 'hurried' ? ['pending', 0] : ['scheduled', was.after.schedule[was.id] ?? null]
  },
})

const NAMED_FORMS: readonly Form[] = [
  {
    name: 'the core enqueue',
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
    name: 'enqueue later',
    column: 'enqueue later',
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
    name: 'redrive of all',
    column: 'redrive',
    run: (hand) => hand.redriveMany(),
    effect: effectsOf({ redriven: effects.redriven }),
    reply: (word, { id, before }) => [word === 'redriven' ? 1 : 0, id in before.dead ? id : '', 0],
  },
  {
    name: 'a dry redrive of all',
    column: 'redrive',
    run: (hand) => hand.redriveMany({ dryRun: true }),
    effect: () => effects.nothing,
    reply: (_, { id, before }) => {
      const isDead = before.rows[id]?.['state'] === 'dead'
      return [isDead ? 1 : 0, id in before.dead ? id : '', 0]
    },
  },
  rescheduleForm('reschedule', LATER_MS * 2, effects.rescheduled(LATER_MS * 2)),
  rescheduleForm('hurry', 0, effects.promoted),
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

/** Milliseconds until something is due or lapses, as a world tells it. */
const waitIn = ({ schedule, active }: World, now: number): number => {
  const heads = [...Object.values(schedule), ...Object.values(active)]
  return heads.length === 0 ? -1 : Math.max(0, Math.min(...heads) - now)
}

/** What a claim tells of the budget, and the headers, which no job here has. */
const budgetOf = ({ rows }: World, id: string): Readable[] => {
  const { attempts = 0, base = 0, max_attempts: limit = 5 } = rows[id] ?? {}
  return [Number(attempts) - Number(base), Number(limit), '']
}

const reapEffects: Record<string, effects.Effect> = {
  back: effects.broughtBack,
  'put off': effects.putOff(LATER_MS),
  died: effects.lapsedToDeath,
  dropped: effects.dropped,
}
const batchClaimed = effects.both(effects.claimed(LEASE_MS), effects.unindexed)

const has = (word: string, ...parts: string[]): number => (parts.some((part) => word.includes(part)) ? 1 : 0)

const drainForm = (column: string, set: 'pending' | 'schedule' | 'dead'): Form => ({
  name: column,
  column,
  run: (hand) => hand.purge(set),
  effect: effectsOf({ drained: effects.drained }),
  reply: (word) => [has(word, 'drained'), 0],
})

const PUMP_FORMS: readonly Form[] = [
  {
    name: 'the core claim',
    column: 'claim',
    run: (hand) => hand.claim(LEASE_MS),
    effect: effectsOf({ claimed: effects.claimed(LEASE_MS), half: effects.claimed(LEASE_MS) }),
    reply: (word, { id, after }) => {
      if (word === '-') return []
      return [id, word === 'half' ? null : 'payload', Number(after.rows[id]?.['attempts'])]
    },
  },
  {
    name: 'a batch claim',
    column: 'claim many',
    run: (hand) => hand.claimMany(10, LEASE_MS),
    effect: effectsOf({
      ...reapEffects,
      claimed: batchClaimed,
      expired: effects.expired,
      'back, claimed': effects.both(effects.broughtBack, batchClaimed),
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
    name: 'promote, told at length,',
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
    name: 'reap, told at length,',
    column: 'reap',
    run: (hand) => hand.reap(100, '0.5'),
    effect: effectsOf(reapEffects),
    reply: (word) => [word === '-' ? 0 : 1, has(word, 'died'), has(word, 'dropped'), 0],
  },
  {
    name: 'sweep',
    column: 'sweep',
    run: (hand) => hand.sweep(),
    effect: effectsOf({ ...reapEffects, promoted: effects.promoted, expired: effects.expired }),
    reply: (word, { before, after, now }) => {
      const busy = Object.keys({ ...after.pending, ...after.active }).length > 0
      const due = Object.values(after.schedule)
      const lapsed = Object.keys(before.active).length > 0 && has(word, 'back', 'put off', 'died', 'dropped')
      const rests = due.length === 0 ? -1 : Math.min(...due)
      return [
        now,
        has(word, 'promoted'),
        lapsed ? 1 : 0,
        has(word, 'died', 'expired'),
        has(word, 'dropped'),
        0,
        busy ? now : rests,
        Object.keys(after.pending).length,
      ]
    },
  },
  drainForm('drain pending', 'pending'),
  drainForm('drain scheduled', 'schedule'),
  drainForm('drain dead', 'dead'),
  ...(['pending', 'active', 'schedule', 'dead'] as const).map(
    (set): Form => ({
      name: `a list of ${set}`,
      column: 'list',
      run: (hand) => hand.list(set),
      effect: () => effects.nothing,
      reply: (_, { id, before: { rows, ...sets } }) => {
        // A row without a payload is none.
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

/** Tokens as a holder may send them. They are compared as strings, so a right number that is written oddly is wrong. */
const WRONG_TOKENS: Readonly<Record<string, (attempts: number) => string>> = {
  'the token before': (attempts) => String(attempts - 1),
  'token 0': () => '0',
  'a token of the future': (attempts) => String(attempts + 1),
  'an oddly written token': (attempts) => `0${attempts}`,
  'an empty token': () => '',
}

let ids = 0
const freshId = (): string => `JOB${String(++ids).padStart(11, '0')}`

/** What a census says after the core enqueue of an id that stands as a ghost in a set it has no key of. */
function strayOf(form: Form, state: string, id: string): string[] {
  if (form.name !== 'the core enqueue') return []
  const set = /ghost in (active|schedule|dead)|half a row in (active|schedule)/.exec(state)
  const where = set?.[1] ?? set?.[2]
  return where === undefined ? [] : [`${id} is in pending and ${where.replace('schedule', 'scheduled')}`]
}

/** One job of a queue of its own, brought into a state. */
async function bring(state: StateName): Promise<{ hand: Hand; id: string; attempts: number }> {
  const queue = freshQueue()
  const hand = handOn(redis.port, queue)
  const id = freshId()
  await build(state, hand, id)
  const { world } = await look(redis.port, queue)
  return { hand, id, attempts: Number(world.rows[id]?.['attempts'] ?? 0) }
}

/** Makes a move and holds the whole world after it, and the answer, against what a word says. */
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

async function tryTwice(form: Form, state: StateName, word: string): Promise<void> {
  const { hand, id, attempts } = await bring(state)
  const before = await census(redis.port, hand.queue)
  await expectMove(form, word, hand, id, String(attempts))
  await expectMove(form, repeatOf(word, PUMP_FORMS.includes(form)), hand, id, String(attempts))
  if (before.length === 0 || !REFUSED.has(word))
    expect(await census(redis.port, hand.queue)).toEqual(
      word === 'half' ? halfOf(id) : strayOf(form, state, id),
    )
  await wipe(redis.port, hand.queue)
}

async function tryWrongTokens(form: Form, state: StateName): Promise<void> {
  const { hand, id, attempts } = await bring(state)
  for (const tokenOf of Object.values(WRONG_TOKENS))
    await expectMove(form, 'superseded', hand, id, tokenOf(attempts))
  await wipe(redis.port, hand.queue)
}

/** Without a row there is no token to compare: whatever is sent, the first move answers what it would to any. */
async function tryAnyToken(form: Form, state: StateName, word: string): Promise<void> {
  for (const tokenOf of Object.values(WRONG_TOKENS)) {
    const { hand, id, attempts } = await bring(state)
    await expectMove(form, word, hand, id, tokenOf(attempts))
    await wipe(redis.port, hand.queue)
  }
}

/** What the contract's claim makes of a ghost: the next pump that meets it drops it. */
const halfOf = (id: string): string[] => [`${id} is a row without a payload`]

/** A reply whose numbers may be as much later, or sooner, as the move took. */
function withTimes(actual: Readable, expected: Readable, tookMs: number): Readable {
  if (typeof actual === 'number' && typeof expected === 'number')
    return Math.abs(actual - expected) <= tookMs && Math.abs(expected) > 1000 ? expected : actual
  if (Array.isArray(actual) && Array.isArray(expected))
    return actual.map((one: Readable, nth) => withTimes(one, (expected as Readable[])[nth] ?? null, tookMs))
  return actual
}

const hasRow = (state: string): boolean => !/no row|ghost|half a row/.test(state)

for (const state of Object.keys(STATES) as StateName[]) {
  const cell = (lines: typeof HOLDERS, { column }: Form): string => lines.get(state)?.get(column) ?? 'missing'
  describe.concurrent(`${state}:`, () => {
    for (const form of HOLDER_FORMS) {
      const word = cell(HOLDERS, form)
      test(`${form.name} with the newest token is ${word}`, () => tryTwice(form, state, word))
      if (hasRow(state))
        test(`${form.name} with any other token is superseded`, () => tryWrongTokens(form, state))
      else test(`${form.name} with whatever token is ${word}`, () => tryAnyToken(form, state, word))
    }
    for (const form of NAMED_FORMS)
      test(`${form.name} is ${cell(NAMED, form)}`, () => tryTwice(form, state, cell(NAMED, form)))
    for (const form of PUMP_FORMS) {
      const word = cell(PUMPS, form)
      test(`${form.name} leaves it ${word === '-' ? 'alone' : word}`, () => tryTwice(form, state, word))
    }
  })
}

test('the tables have a line for each state and a form for each column', () => {
  for (const [lines, forms] of [
    [HOLDERS, HOLDER_FORMS],
    [NAMED, NAMED_FORMS],
    [PUMPS, PUMP_FORMS],
  ] as const) {
    expect([...lines.keys()].sort()).toEqual(Object.keys(STATES).sort())
    const columns = new Set([...lines.values()].flatMap((cells) => [...cells.keys()]))
    expect(columns).toEqual(new Set(forms.map(({ column }) => column)))
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
