/** Faults of consumers: what a claim tells, whose claim it is, and rows that other clients spoilt. */
import { describe, expect, test } from 'vitest'
import { apiOn, TOKENS } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

test('154: a claimed job tells which attempt it is and how many it has, after release and redrive too', async () => {
  const queue = queueOn(apiOn(shared))
  const id = await queue.enqueue({ maxAttempts: 2 })
  const told = { id, attempt: 1, maxAttempts: 2 }
  expect((await queue.claim())[0]).toMatchObject({ ...told, token: 1 })
  await queue.post(`jobs/${id}/release`, { token: 1 })
  expect((await queue.claim())[0]).toMatchObject({ ...told, token: 2 })
  await queue.post(`jobs/${id}/retry`, { token: 2, delayMs: 0 })
  expect((await queue.claim())[0]).toMatchObject({ ...told, attempt: 2, token: 3 })
  await queue.post(`jobs/${id}/fail`, { token: 3 })
  await queue.post(`jobs/${id}/redrive`)
  expect((await queue.claim())[0]).toMatchObject({ ...told, token: 4 })
})

test('a claimed job has the headers that are stored with it', async () => {
  const queue = queueOn(apiOn(shared))
  const id = await queue.enqueue()
  await raw.run('HSET', queue.keys.job(id), 'headers', '{"traceparent":"00-a-b-01"}')
  expect((await queue.claim())[0]).toMatchObject({ id, headers: { traceparent: '00-a-b-01' } })
})

test('176: a job that died of its first failure has it in its history, and the time of its death', async () => {
  const queue = queueOn(apiOn(shared))
  const id = await queue.enqueue({ maxAttempts: 1 })
  await queue.claim()
  await queue.post(`jobs/${id}/retry`, { token: 1, error: 'boom' })
  const { state, history } = await queue.job(id)
  expect(state).toBe('dead')
  expect(history).toEqual([{ attempt: 1, at: expect.any(String), error: 'boom' }])
  const diedAt = await raw.run('HGET', queue.keys.job(id), 'died_at')
  expect(Number(diedAt)).toBe(Date.parse(history[0].at))
  await queue.post(`jobs/${id}/redrive`)
  expect(await raw.run('HGET', queue.keys.job(id), 'died_at')).toBeNull()
  expect(String(await raw.run('HGET', queue.keys.job(id), 'since'))).toMatch(/^\d{13}$/)
})

test('187: two tokens that choose the same claimId make two claims', async () => {
  const queue = queueOn(apiOn(shared))
  const ids = await queue.enqueueMany(4)
  const body = { limit: 2, claimId: '1' }
  const claimed = async (token: string) =>
    (await queue.post('claim', body, { token })).json.jobs.map(({ id }: { id: string }) => id)
  expect(await claimed(TOKENS.operator)).toEqual(ids.slice(0, 2))
  expect(await claimed(TOKENS.consumer)).toEqual(ids.slice(2))
  expect(await claimed(TOKENS.operator)).toEqual(ids.slice(0, 2))
})

test('204: an extended job is returned by a repeat of its claim, although its first lease is over', async () => {
  const queue = queueOn(apiOn(shared))
  const id = await queue.enqueue()
  const body = { limit: 1, claimId: 'c', leaseMs: 300 }
  const [first] = await queue.claim(body)
  const endsAt = Date.now() + 300
  await queue.post(`jobs/${id}/extend`, { token: 1, leaseMs: 60_000 })
  await until(async () => Date.now() > endsAt)
  const [again] = await queue.claim(body)
  expect([again?.id, again?.token]).toEqual([id, first?.token])
})

describe('188: a row whose attempts cannot be counted up', () => {
  const BROKEN = ['inf', 'nan', '-5', '1e300', '9007199254740993', '9223372036854775807', 'none']
  test.each(BROKEN)('is dead with a reason after a batch claim, if it is %s', async (attempts) => {
    const queue = queueOn(apiOn(shared))
    const [broken = '', healthy] = await queue.enqueueMany(2)
    await raw.run('HSET', queue.keys.job(broken), 'attempts', attempts)
    expect((await queue.claim({ limit: 10 })).map(({ id }) => id)).toEqual([healthy])
    expect(await queue.job(broken)).toMatchObject({
      state: 'dead',
      lastError: expect.stringContaining('attempts'),
    })
    await expectConsistent(raw.port, queue.name)
  })

  test.each(BROKEN)('keeps no other job from a claim without a limit, if it is %s', async (attempts) => {
    const queue = queueOn(apiOn(shared))
    const [broken = '', healthy] = await queue.enqueueMany(2)
    await raw.run('HSET', queue.keys.job(broken), 'attempts', attempts)
    expect((await queue.claim({})).map(({ id }) => id)).toEqual([healthy])
  })
})

test('190: the id of a bad item is repeated in its result up to 64 characters', async () => {
  const queue = queueOn(apiOn(shared))
  const { json } = await queue.post('settle', {
    items: [{ id: 'x'.repeat(4900), action: 'complete', token: 1 }],
  })
  expect(json.results[0]).toMatchObject({ id: 'x'.repeat(64), error: { code: expect.any(String) } })
})

test('200: text that no enqueue accepts as a payload is returned as text', async () => {
  const queue = queueOn(apiOn(shared))
  const texts = [`${'['.repeat(600)}${']'.repeat(600)}`, '{"a":1,"a":2}', '"\\ud800"']
  for (const text of texts) await queue.enqueue({ text })
  await queue.enqueue({ payload: { a: [1] } })
  const jobs = await queue.claim({ limit: 10 })
  expect(jobs.map(({ text }) => text)).toEqual([...texts, undefined])
  expect(jobs[3]?.payload).toEqual({ a: [1] })
})

test('201: a claim and a list are bounded by the bytes after JSON has escaped them', async () => {
  const queue = queueOn(apiOn(shared))
  const text = '\u0001'.repeat(256 * 1024)
  for (let n = 0; n < 4; n++) await queue.enqueue({ text })
  const list = await queue.get('jobs?state=pending&payload=true')
  expect(list.text.length).toBeLessThan(4.1 * 1024 * 1024)
  expect(list.json.cursor).toEqual(expect.any(String))
  const first = await queue.post('claim', { limit: 10 })
  expect(first.text.length).toBeLessThan(4.1 * 1024 * 1024)
  const rest = await queue.claim({ limit: 10 })
  expect(first.json.jobs.length + rest.length).toBe(4)
})
