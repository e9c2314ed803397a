/** Wake-ups within one process: a waiting claim claims again when another app of the process has news of its queue. */
import { expect, test } from 'vitest'
import { createProcessWake } from '../../src/wake/in-process.ts'
import type { Wake } from '../../src/wake/wake.ts'
import { apiOn } from '../support/api.ts'
import { queueOn } from '../support/queue.ts'
import { costOf, sharedRedis } from '../support/redis.ts'

const shared = sharedRedis()
const RELOOK = { EMQ_RELOOK_MS: '60000' }
const PATIENT = { limit: 1, waitMs: 15_000 }

test('an enqueue through one app wakes a claim that waits in another app of the process', async () => {
  const wake = createProcessWake()
  const [producer, consumer] = [apiOn(shared, RELOOK, { wake }), apiOn(shared, RELOOK, { wake })]
  const queue = queueOn(consumer)
  const cost = await costOf(shared, async () => {
    const waiting = queue.claim(PATIENT)
    await registered(wake, queue.name)
    const id = await queueOn(producer, queue.name).enqueue()
    expect((await waiting).map((job) => job.id)).toEqual([id])
  })
  // At most two claims of 6 to 11 commands, and one enqueue of 5: no polling.
  expect(cost.total).toBeLessThanOrEqual(2 * 11 + 6)
})

test('a delayed job and a lapsed lease wake a waiting claim', async () => {
  const queue = queueOn(apiOn(shared, RELOOK, { wake: createProcessWake() }))
  const id = await queue.enqueue({ delayMs: 300 })
  expect((await queue.claim({ ...PATIENT, leaseMs: 200 })).map((job) => job.id)).toEqual([id])
  expect((await queue.claim(PATIENT)).map((job) => job.id)).toEqual([id])
})

test('an enqueue succeeds and a claim polls when the wake-ups fail', async () => {
  const broken: Wake = { register: async () => undefined, ring: () => undefined }
  const queue = queueOn(apiOn(shared, RELOOK, { wake: broken }))
  const waiting = queue.claim(PATIENT)
  const id = await queue.enqueue()
  expect((await waiting).map((job) => job.id)).toEqual([id])
})

test('a claim whose connection to the bell breaks polls from then on', async () => {
  const lost: Wake = {
    register: async () => ({ claiming() {}, wait: async () => 'lost', end() {} }),
    ring() {},
  }
  const queue = queueOn(apiOn(shared, RELOOK, { wake: lost }))
  const waiting = queue.claim(PATIENT)
  const id = await queue.enqueue({ delayMs: 300 })
  expect((await waiting).map((job) => job.id)).toEqual([id])
})

test('a waiting claim that nobody wakes claims again after the relook time', async () => {
  const queue = queueOn(apiOn(shared, { EMQ_RELOOK_MS: '1000' }, { wake: createProcessWake() }))
  const waiting = queue.claim(PATIENT)
  // This app has wake-ups of its own, so its enqueue wakes no claim of the other app.
  const id = await queueOn(apiOn(shared), queue.name).enqueue()
  expect((await waiting).map((job) => job.id)).toEqual([id])
})

test('181: a token with too many waiting claims gets its next answer at once, and other tokens still wait', async () => {
  const wake = createProcessWake()
  const api = apiOn(shared, { ...RELOOK, EMQ_MAX_WAITING: '2' }, { wake })
  const queue = queueOn(api)
  const waiting = [queue.claim(PATIENT), queue.claim(PATIENT)]
  await registered(wake, queue.name)
  const { json } = await queue.post('claim', PATIENT)
  expect(json.jobs).toEqual([])
  expect(json.retryAfterMs).toBeGreaterThan(0)
  const other = queue.post('claim', PATIENT, { token: 'test-consumer' })
  for (let n = 0; n < 3; n++) await queue.enqueue()
  expect((await Promise.all(waiting)).flat()).toHaveLength(2)
  expect((await other).json.jobs).toHaveLength(1)
})

/** Resolves when a claim has had time to register: a wake-up before that is not needed, because it claims afterwards. */
async function registered(wake: Wake, queue: string): Promise<void> {
  const probe = await wake.register(queue, new AbortController().signal)
  probe?.end()
}
