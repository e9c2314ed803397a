/** Calls of scripts: keys and arguments by name, and scripts that Redis has lost. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { GLOBAL_KEYS, KEY_TEMPLATES } from '../../src/protocol/keys.ts'
import { call } from '../../src/protocol/script-call.ts'
import { SCRIPTS, type ScriptName } from '../../src/protocol/scripts.generated.ts'
import { PROJECT, programOf, wrongIn } from '../support/typescript.ts'
import { bareRedis } from './support/bare.ts'
import { outcome } from './support/results.ts'

test('a call fills the templates of the keys and puts the arguments in the order of the registry', () => {
  const given = { q: 'q', id: 'JOB1', token: 2, delayMs: 3, maxAttempts: undefined, error: 'e' }
  expect(call('retry', given)).toEqual({
    script: 'retry',
    keys: SCRIPTS.retry.keys.map((key) => key.replace('{q}', '{q}').replace('<id>', 'JOB1')),
    args: ['JOB1', 2, 3, '', 'e'],
  })
  expect(call('retry', { ...given, jitter: 0.5 }).args).toEqual(['JOB1', 2, 3, '', 'e', 0.5])
})

test('a call derives the prefix of the rows from the queue', () => {
  expect(call('claim', { q: 'q', leaseMs: 5 })).toMatchObject({ args: ['emq:{q}:job:', 5] })
})

test('a call repeats keys and arguments for each element, and leaves out a key that an element lacks', () => {
  const job = { payload: 'x', delayMs: undefined, runAt: undefined, startBy: undefined }
  const rest = { maxAttempts: undefined, explicit: true }
  const { keys, args } = call('enqueue_many', {
    q: 'q',
    batchKey: '',
    batchTtlMs: undefined,
    each: [
      { id: 'JOB1', ...job, ...rest, idempotencyTtlMs: undefined },
      { id: 'JOB2', ...job, ...rest, idempotencyTtlMs: 9, key: 'k' },
    ],
  })
  const { length } = SCRIPTS.enqueue_many.keys
  expect(keys.slice(length)).toEqual(['emq:{q}:job:JOB1', 'emq:{q}:job:JOB2', 'emq:{q}:de:k'])
  expect(args).toHaveLength(1 + 2 * SCRIPTS.enqueue_many.argsEach.length)
})

test('a call passes a claim key only with a claimId', () => {
  const claim = { q: 'q', leaseMs: 1, limit: 1, jitter: 0 }
  const { length } = SCRIPTS.claim_many.keys
  expect(call('claim_many', claim).keys).toHaveLength(length)
  expect(call('claim_many', { ...claim, claimId: 'c' }).keys.at(-1)).toBe('emq:{q}:claim:c')
})

test('a call rejects a queue name that could reach the keys of another queue', () => {
  for (const q of ['a}b', 'a:b', '', 'emq'])
    expect(() => call('claim', { q, leaseMs: 1 })).toThrow(RangeError)
})

test('a call does not compile with a missing or a misspelt argument', () => {
  const file = join(PROJECT, 'test/queue/made.ts')
  const wrong = (given: string): string => {
    const source = `import { call } from '../../src/protocol/script-call.ts'\ncall('complete', ${given})\n`
    return wrongIn(programOf([], { [file]: source }), [file])
  }
  expect(wrong("{ q: 'q', id: 'JOB1', token: 1 }")).toBe('')
  expect(wrong("{ q: 'q', id: 'JOB1' }")).toContain("'token' is missing")
  expect(wrong("{ id: 'JOB1', token: 1 }")).toContain("'q' is missing")
  expect(wrong("{ q: 'q', id: 'JOB1', tocken: 1, token: 1 }")).toContain("'tocken' does not exist")
}, 60_000)

test('every key of the script registry is in the key table', () => {
  const known: string[] = [...Object.values(KEY_TEMPLATES), ...Object.values(GLOBAL_KEYS), 'emq:{q}:<set>']
  for (const name of Object.keys(SCRIPTS) as ScriptName[]) {
    const { keys, ...more } = SCRIPTS[name]
    const optional = 'optionalKeys' in more ? more.optionalKeys : []
    const each = 'keysEach' in more ? more.keysEach : []
    for (const key of [...keys, ...optional, ...each]) expect(known, name).toContain(key)
  }
})

const redis = bareRedis()

test('145: a claim after a settle whose script Redis has lost gets the place that the settle frees', async () => {
  const { queue, completed } = await bench(2)
  const { results, claimed } = await queue.settle([completed], { limit: 2 })
  expect(results.map(outcome)).toEqual([{ id: completed.id, status: 'completed' }])
  expect(claimed?.jobs).toHaveLength(1)
  expect((await queue.stats()).counts).toMatchObject({ pending: 2, active: 2 })
  await redis.clean({ queue: queue.name })
})

test('145: a claim that got jobs before its settle was repeated keeps them and does not run again', async () => {
  const { queue, completed } = await bench(4)
  const { claimed } = await queue.settle([completed], { limit: 10, claimId: 'c' })
  expect(claimed?.jobs).toHaveLength(2)
  expect((await queue.stats()).counts).toMatchObject({ pending: 1, active: 3 })
  const { claimed: again } = await queue.settle([completed], { limit: 10, claimId: 'c' })
  expect(again?.jobs.map(({ id, token }) => [id, token])).toEqual(
    claimed?.jobs.map(({ id, token }) => [id, token]),
  )
  await redis.clean({ queue: queue.name })
})

test('145: a settle with a claim that ran twice can be repeated under its claimId', async () => {
  const { queue, completed } = await bench(2)
  const { claimed } = await queue.settle([completed], { limit: 2, claimId: 'c' })
  expect(claimed?.jobs).toHaveLength(1)
  const { claimed: again } = await queue.settle([completed], { limit: 2, claimId: 'c' })
  expect(again?.jobs.map(({ id }) => id)).toEqual(claimed?.jobs.map(({ id }) => id))
})

/** A queue with three pending and two active jobs, in a Redis that knows only the script of the claim. */
async function bench(maxActive: number) {
  const queue = redis.queueOf()
  await queue.enqueueMany(Array.from({ length: 5 }, () => ({ payload: 'x' })))
  await queue.changeSettings({ maxActive })
  await redis.port.send([['SCRIPT', 'FLUSH']])
  const { jobs } = await queue.claim({ limit: 2 })
  const [first, second] = jobs
  const completed = { action: 'complete' as const, id: first?.id ?? '', token: 1 }
  return { queue, completed, second }
}
