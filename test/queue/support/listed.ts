/** Jobs put straight into a state, and the pages of a list. */

import { type JobState, SET_OF_STATE } from '../../../src/protocol/states.ts'
import type { Queue } from '../../../src/queue/database.ts'
import type { PageCursor, PageRequest } from '../../../src/queue/observe.ts'
import type { Hand } from './hand.ts'

/** Puts a job into a state with a score. */
export async function put(
  { keys, send }: Hand,
  state: JobState,
  id: string,
  score = 0,
  error?: string,
): Promise<void> {
  const failure = error === undefined ? [] : ['last_error', error]
  await send('HSET', keys.job(id), 'state', state, 'attempts', 1, 'payload', `p ${id}`, ...failure)
  await send('ZADD', keys[SET_OF_STATE[state]], score, id)
}

export const pageRequest = (given: Partial<PageRequest>): PageRequest => ({
  ...{ state: 'pending', order: 'oldest', limit: 10, withErrors: false, withPayload: false },
  ...given,
})

/** The ids of all pages. `between` runs after each page, with its number. */
export async function pagesOf(
  queue: Queue,
  given: Partial<PageRequest>,
  between: (page: number) => Promise<unknown> = async () => {},
): Promise<string[][]> {
  const pages: string[][] = []
  let cursor: PageCursor | undefined
  do {
    const page = await queue.list(pageRequest({ ...given, cursor }))
    pages.push(page.jobs.map(({ id }) => id))
    cursor = page.cursor
    if (page.jobs.length > (given.limit ?? 10)) throw new Error('A page exceeds its limit.')
    if (pages.length >= 200) throw new Error('The list does not end.')
    await between(pages.length)
  } while (cursor !== undefined)
  return pages
}
