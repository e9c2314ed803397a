/** The table of states and moves agrees with the diagram in the documents and with the keys. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { KEY_TEMPLATES } from '../../src/protocol/keys.ts'
import { JOB_STATES, MOVES, SET_OF_STATE } from '../../src/protocol/states.ts'

const document = readFileSync(new URL('../../docs/states.md', import.meta.url), 'utf8')

test('the diagram of docs/states.md draws each move of the table, and no other', () => {
  const arrows = [...document.matchAll(/^ +(\S+) --> (\S+): (.+)$/gm)]
  const drawn = arrows.map(([, from, to]) => `${from} ${to}`.replace('[*]', 'none'))
  const listed = Object.values(MOVES)
    .flat()
    .map(({ from, to }) => `${from} ${to}`)
    // The diagram leaves out a scheduled job that stays scheduled.
    .filter((move) => move !== 'scheduled scheduled')
  expect(new Set(drawn)).toEqual(new Set(listed))
})

test('each state has a set with a key of its own', () => {
  expect(Object.keys(SET_OF_STATE)).toEqual([...JOB_STATES])
  expect(new Set(JOB_STATES.map((state) => KEY_TEMPLATES[SET_OF_STATE[state]])).size).toBe(4)
})
