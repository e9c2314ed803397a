/**
 * The examples that answer requests and end: a web server, a route, a function with a deadline. Each is a process of
 * its own against the whole local stack.
 */
import { expect, test } from 'vitest'
import { type Child, startNode } from './support/child.ts'
import { atRest, emails, localStack, type Scene, scene } from './support/scene.ts'

const local = localStack()

const producerEnv = ({ place }: Scene, url = place.url) => ({
  EMQ_URL: url,
  EMQ_TOKEN: 'dev-producer',
  EMQ_QUEUE: place.queue,
  PORT: '0',
})

async function post(server: Child, path: string, body: string) {
  const { port } = await server.until({ event: 'listening' })
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body })
  return { status: response.status, headers: response.headers, json: await response.json() }
}

test('the producer on Node enqueues one job for a signup that is sent twice', async () => {
  const stage = await scene(local)
  const server = startNode('examples/node-producer/server.ts', producerEnv(stage))
  const signup = JSON.stringify({ user: 'ada', email: 'ada@example.com' })

  const { status, json } = await post(server, '/signup', signup)
  const again = await post(server, '/signup', signup)

  expect(status).toBe(202)
  expect(await stage.queue.job(json.job)).toMatchObject({
    state: 'pending',
    payload: { to: 'ada@example.com' },
  })
  expect(again.json).toEqual(json)
  expect((await stage.queue.stats()).counts.pending).toBe(1)

  server.process.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  expect(server.stderr()).toBe('')
})

test('the producer on Node rejects malformed signups', async () => {
  const server = startNode('examples/node-producer/server.ts', producerEnv(await scene(local)))

  for (const body of ['no JSON', '{}', '{"user":"not a key!","email":"ada@example.com"}']) {
    expect((await post(server, '/signup', body)).status).toBe(400)
  }
})

test('the producer on Node returns 503 with Retry-After when the queue is unreachable', async () => {
  const stage = await scene(local)
  // Nothing listens on this port.
  const server = startNode('examples/node-producer/server.ts', producerEnv(stage, 'http://127.0.0.1:1'))

  const { status, headers } = await post(server, '/signup', '{"user":"ada","email":"ada@example.com"}')

  expect([status, headers.get('retry-after')]).toEqual([503, '5'])
  expect(server.stderr()).not.toContain('dev-producer')
})

test('the route of Next.js enqueues one job for an order that is sent twice', async () => {
  const stage = await scene(local)
  const server = startNode('test/examples/support/next.ts', producerEnv(stage))
  const order = JSON.stringify({ to: 'ada@example.com', order: '2026-0017' })

  const first = await post(server, '/api/orders', order)
  const second = await post(server, '/api/orders', order)

  expect([first.status, second.status]).toEqual([202, 202])
  expect(first.json).toEqual({ id: expect.stringMatching(/^JOB\w{11}$/), status: 'enqueued' })
  expect(second.json).toEqual({ id: first.json.id, status: 'duplicate' })
  expect((await stage.queue.job(first.json.id))?.payload).toEqual({
    to: 'ada@example.com',
    order: '2026-0017',
  })
  expect((await stage.queue.stats()).counts.pending).toBe(1)
})

test('the route of Next.js rejects malformed orders', async () => {
  const server = startNode('test/examples/support/next.ts', producerEnv(await scene(local)))

  for (const body of ['no JSON', 'null', '{"to":"ada@example.com"}', '{"to":"x","order":"not a key!"}']) {
    expect((await post(server, '/api/orders', body)).status).toBe(400)
  }
})

const invoke = (stage: Scene, remainingMs: number, token = 'dev-consumer') =>
  startNode(
    'test/examples/support/lambda.ts',
    {
      EMQ_URL: stage.place.url,
      EMQ_TOKEN: token,
      EMQ_QUEUE: stage.place.queue,
      MAIL_URL: stage.mail.url,
    },
    [String(remainingMs)],
  )

test('the Lambda drains the queue', async () => {
  const stage = await scene(local, ({ to }) => (to === 'busy@example.com' ? 503 : 202))
  await stage.queue.enqueueMany([{ payload: { to: 'busy@example.com' }, maxAttempts: 1 }, ...emails(49)])

  const { answer } = await invoke(stage, 60_000).until({ event: 'answered' })

  expect(answer).toEqual({ done: 49, failed: 1, released: 0 })
  expect(await atRest(local, stage.queue)).toEqual({ completed: 49, failed: 1, ghosts: 0, dead: 1 })
})

test('the Lambda ends before its deadline and releases unfinished jobs', async () => {
  let isDown = true
  const stage = await scene(local, () => (isDown ? new Promise(() => {}) : 202), 60_000)
  await stage.queue.enqueueMany(emails(30))

  const { answer, remainingMs } = await invoke(stage, 6_000).until({ event: 'answered' })

  expect(remainingMs).toBeGreaterThan(0)
  expect(answer).toMatchObject({ done: 0, failed: 0 })
  // Long before the leases lapse.
  await expect
    .poll(async () => (await stage.queue.stats()).counts, { timeout: 5_000 })
    .toEqual({ pending: 30, active: 0, scheduled: 0, dead: 0 })

  // The next invocation completes all jobs.
  isDown = false
  const next = await invoke(stage, 60_000).until({ event: 'answered' })
  expect(next.answer).toMatchObject({ failed: 0, released: 0 })
  expect(await atRest(local, stage.queue)).toEqual({ completed: 30, failed: 0, ghosts: 0, dead: 0 })
})

test('the Lambda fails when its token is rejected', async () => {
  const child = invoke(await scene(local), 60_000, 'not-a-token')

  expect(await child.ended).toBe(1)
  expect(child.stderr()).toContain('unauthorized')
  expect(child.stderr()).not.toContain('not-a-token')
})
