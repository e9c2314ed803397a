/**
 * What each move changes, as the documents define it and independently of the scripts. An effect takes the world before
 * the move and the server's time, and returns the whole world after it.
 */
import type { Row, Scores, World } from './world.ts'

/** The time of the move (server ms), and the random part of a delay (0 to 1). */
export type Moment = { readonly now: number; readonly share: number }

export type Effect = (world: World, id: string, moment: Moment) => World

type SetName = 'pending' | 'active' | 'schedule' | 'dead' | 'startBy'

const without = <T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> =>
  Object.fromEntries(Object.entries(record).filter(([name]) => name !== key))

const leave = (world: World, id: string, ...sets: SetName[]): World =>
  Object.fromEntries(
    Object.entries(world).map(([name, value]) => [
      name,
      (sets as string[]).includes(name) ? without(value as Scores, id) : value,
    ]),
  ) as World

const ALL: readonly SetName[] = ['pending', 'active', 'schedule', 'dead', 'startBy']
const FOUR: readonly SetName[] = ['pending', 'active', 'schedule', 'dead']

const join = (world: World, id: string, set: SetName, score: number): World => ({
  ...world,
  [set]: { ...world[set], [id]: score },
})

const rowOf = (world: World, id: string): Row => world.rows[id] ?? {}

const write = (world: World, id: string, fields: Row): World => ({
  ...world,
  rows: { ...world.rows, [id]: { ...rowOf(world, id), ...fields } },
})

const forget = (world: World, id: string): World => ({ ...world, rows: without(world.rows, id) })

const used = (row: Row): number => Number(row['attempts']) - Number(row['base'] ?? 0)

/** The fields of the last failure and of the ring of the last five. */
function failure(row: Row, now: number, error: string): Row {
  const nth = Number(row['failures'] ?? 0) + 1
  return {
    last_error: error,
    failures: String(nth),
    [`error:${nth % 5}`]: `${row['attempts']} ${now} ${error}`,
  }
}

export const nothing: Effect = (world) => world

/** The core enqueue has two keys: the row and pending. */
export const enqueuedByTwoKeys: Effect = (world, id) =>
  join(
    write(forget(world, id), id, { state: 'pending', attempts: '0', payload: 'payload' }),
    id,
    'pending',
    0,
  )

/** An enqueue with a caller-chosen id removes its ghosts. */
export const enqueued: Effect = (world, id, moment) =>
  enqueuedByTwoKeys(leave(world, id, ...FOUR), id, moment)

export const enqueuedFor =
  (delayMs: number): Effect =>
  (world, id, { now }) =>
    join(
      write(forget(leave(world, id, ...FOUR), id), id, {
        state: 'scheduled',
        attempts: '0',
        payload: 'payload',
      }),
      id,
      'schedule',
      now + delayMs,
    )

/** The contract's claim does not recognise a ghost. */
export const claimed =
  (leaseMs: number): Effect =>
  (world, id, { now }) => {
    const attempts = String(Number(rowOf(world, id)['attempts'] ?? 0) + 1)
    return join(
      leave(write(world, id, { attempts, state: 'active' }), id, 'pending'),
      id,
      'active',
      now + leaseMs,
    )
  }

export const completed: Effect = (world, id) => ({
  ...forget(leave(world, id, ...ALL), id),
  completed: world.completed + 1,
})

/** The extended form starts the history at the first failure, the short form at the second. */
export const retried =
  (delayMs: number, error: string, isExtended: boolean): Effect =>
  (world, id, { now }) => {
    const row = rowOf(world, id)
    const hasHistory = isExtended || row['last_error'] !== undefined
    const fields = hasHistory ? failure(row, now, error) : { last_error: error }
    return join(
      leave(write(world, id, { ...fields, state: 'scheduled' }), id, 'active'),
      id,
      'schedule',
      now + delayMs,
    )
  }

export const retriedToDeath =
  (error: string, isExtended: boolean): Effect =>
  (world, id, { now }) => {
    const row = rowOf(world, id)
    const hasHistory = isExtended || row['last_error'] !== undefined
    const fields = hasHistory ? failure(row, now, error) : { last_error: error }
    const after = join(leave(write(world, id, { ...fields, state: 'dead' }), id, 'active'), id, 'dead', 0)
    return { ...after, failed: world.failed + 1 }
  }

export const released =
  (delayMs: number): Effect =>
  (world, id, { now }) => {
    const base = String(Number(rowOf(world, id)['base'] ?? 0) + 1)
    const state = delayMs > 0 ? 'scheduled' : 'pending'
    const after = leave(write(world, id, { base, state }), id, 'active')
    return delayMs > 0 ? join(after, id, 'schedule', now + delayMs) : join(after, id, 'pending', 0)
  }

export const extended =
  (leaseMs: number): Effect =>
  (world, id, { now }) =>
    join(world, id, 'active', now + leaseMs)

export const promoted: Effect = (world, id) =>
  join(leave(write(world, id, { state: 'pending' }), id, 'schedule'), id, 'pending', 0)

/** A first lapse makes the job pending at once. */
export const lapsedToPending: Effect = (world, id) => {
  const { attempts = '0' } = rowOf(world, id)
  return join(
    leave(write(world, id, { state: 'pending', lapsed: attempts, lapses: '1' }), id, 'active'),
    id,
    'pending',
    0,
  )
}

/** A further lapse delays the job by at least half of the longest backoff. */
export const lapsedToScheduled =
  (baseMs: number): Effect =>
  (world, id, { now, share }) => {
    const row = rowOf(world, id)
    const ceiling = baseMs * 2 ** (used(row) - 1)
    const lapses = String(Number(row['lapses'] ?? 0) + 1)
    const fields = { state: 'scheduled', lapsed: row['attempts'] ?? '0', lapses }
    return join(
      leave(write(world, id, fields), id, 'active'),
      id,
      'schedule',
      now + (ceiling * (1 + share)) / 2,
    )
  }

/** A lapse of the last attempt. */
export const lapsedToDeath: Effect = (world, id, { now }) => {
  const row = rowOf(world, id)
  const { attempts = '0', max_attempts: limit = '5', lapses = '0' } = row
  const error = `lease expired on attempt ${used(row)} of ${limit}`
  const after = write(world, id, {
    ...failure(row, now, error),
    state: 'dead',
    lapsed: attempts,
    lapses: String(Number(lapses) + 1),
  })
  return { ...join(leave(after, id, 'active'), id, 'dead', 0), failed: world.failed + 1 }
}

export const expired: Effect = (world, id) => ({
  ...join(
    leave(write(world, id, { state: 'dead', last_error: 'expired' }), id, 'pending', 'schedule', 'startBy'),
    id,
    'dead',
    0,
  ),
  failed: world.failed + 1,
})

export const redriven: Effect = (world, id) => {
  const row = rowOf(world, id)
  const kept = ['lapsed', 'lapses', 'start_by'].reduce(without, row)
  const after = { ...world, rows: { ...world.rows, [id]: kept } }
  const fields = { state: 'pending', base: row['attempts'] ?? '0' }
  return join(leave(write(after, id, fields), id, 'dead', 'startBy'), id, 'pending', 0)
}

export const rescheduled =
  (delayMs: number): Effect =>
  (world, id, { now }) =>
    join(world, id, 'schedule', now + delayMs)

/** Removed or purged: all of the job is deleted, and no counter changes. */
export const removed: Effect = (world, id) => forget(leave(world, id, ...ALL), id)

/** A ghost that a move found is deleted and counted. */
export const dropped: Effect = (world, id) => ({
  ...forget(leave(world, id, ...FOUR), id),
  ghosts: world.ghosts + 1,
})

export const droppedUncounted: Effect = (world, id) => forget(leave(world, id, ...FOUR), id)

/** One after the other. */
export const both =
  (first: Effect, second: Effect): Effect =>
  (world, id, moment) =>
    second(first(world, id, moment), id, moment)

/** A claimed job leaves the start-by index. */
export const unindexed: Effect = (world, id) => leave(world, id, 'startBy')

/** The actual world, with each instant between the two expected ones replaced by the first of them. */
export function withTimesOf(actual: World, low: World, high: World): World {
  const between = (value: number, a: number | undefined, b: number | undefined): number =>
    a !== undefined && b !== undefined && value >= Math.floor(a) && value <= Math.ceil(b) ? a : value
  const scores = (set: SetName): Scores =>
    Object.fromEntries(
      Object.entries(actual[set]).map(([id, score]) => [id, between(score, low[set][id], high[set][id])]),
    )
  const rows = Object.entries(actual.rows).map(([id, row]): [string, Row] => [
    id,
    Object.fromEntries(
      Object.entries(row).map(([field, value]) => {
        const [expected, latest, found] = [low.rows[id]?.[field], high.rows[id]?.[field], value].map(
          (text) => (field.startsWith('error:') ? /^(\d+) (\d+) (.*)$/s.exec(text ?? '') : null),
        )
        const same = expected?.[1] === found?.[1] && expected?.[3] === found?.[3]
        const when = between(Number(found?.[2]), Number(expected?.[2]), Number(latest?.[2]))
        return [field, same && found && when === Number(expected?.[2]) ? (expected?.[0] ?? value) : value]
      }),
    ),
  ])
  return { ...actual, active: scores('active'), schedule: scores('schedule'), rows: Object.fromEntries(rows) }
}
