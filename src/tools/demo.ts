/**
 * The story that `npm run demo` plays: a job that fails once, a job whose consumer crashes, and a job that is given
 * up and brought back. Everything goes through the HTTP API; every answer is checked, so that a story that ends well
 * is also a test.
 */

import { DEV_TOKENS, type DevTokens } from '../stack/dev-tokens.ts'
import type { Stack } from '../stack/stack.ts'

type Body = Readonly<Record<string, unknown>>
type Claimed = { readonly id: string; readonly token: number; readonly payload: unknown }

/** How long a consumer waits for a job that becomes due or whose lease lapses. */
const WAIT_MS = 10_000

/**
 * Plays the story.
 *
 * @throws {Error} when anything ends otherwise than it should.
 */
export async function playStory(stack: Pick<Stack, 'url'>, say: (line: string) => void): Promise<void> {
  const chapter = (title: string): void => say(`\n${title}`)
  const tell = (verb: string, text: string): void => say(`  ${verb.padEnd(9)}${text}`)

  /** Calls the API as one of the development tokens and checks the status. */
  async function call(
    as: keyof DevTokens,
    method: string,
    path: string,
    expected: number,
    body?: Body,
  ): Promise<Body> {
    const response = await fetch(`${stack.url}/v1/queues/emails${path}`, {
      method,
      headers: { authorization: `Bearer ${DEV_TOKENS[as]}`, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
    })
    const text = await response.text()
    if (response.status !== expected) {
      throw new Error(`${method} ${path} answered ${response.status} instead of ${expected}: ${text}`)
    }
    return JSON.parse(text)
  }

  async function enqueue(payload: Body): Promise<string> {
    const { id } = await call('producer', 'POST', '/jobs', 201, { payload })
    tell('enqueue', `${id} ${JSON.stringify(payload)}`)
    return String(id)
  }

  /** Claims the job that must come next, waiting for it if need be. */
  async function claim(id: string, leaseMs = 30_000): Promise<Claimed> {
    const { jobs } = await call('consumer', 'POST', '/claim', 200, { limit: 1, leaseMs, waitMs: WAIT_MS })
    const [job] = jobs as Claimed[]
    if (job?.id !== id) throw new Error(`The claim gave ${job?.id ?? 'nothing'} instead of ${id}.`)
    tell('claim', `${id} with token ${job.token}, for ${leaseMs} ms`)
    return job
  }

  async function complete({ id, token }: Claimed): Promise<void> {
    await call('consumer', 'POST', `/jobs/${id}/complete`, 200, { token })
    tell('complete', `${id} with token ${token}: nothing of it remains`)
  }

  chapter('A job whose first attempt fails')
  const first = await enqueue({ to: 'ada@example.com' })
  const { token } = await claim(first)
  await call('consumer', 'POST', `/jobs/${first}/retry`, 200, {
    token,
    error: 'mail server is busy',
    delayMs: 300,
  })
  tell('retry', `${first}: "mail server is busy", again in 300 ms`)
  await complete(await claim(first))

  chapter('A job whose consumer crashes')
  const second = await enqueue({ to: 'grace@example.com' })
  const crashed = await claim(second, 300)
  tell('crash', 'the consumer says nothing any more, and its lease lapses')
  const heir = await claim(second)
  tell('reap', `gave the job to the next consumer, with a token above ${crashed.token}`)
  const late = await call('consumer', 'POST', `/jobs/${second}/complete`, 409, { token: crashed.token })
  tell(
    'late',
    `the first consumer comes back with token ${crashed.token} and is refused: ${late['code']}, ${late['reason']}`,
  )
  await complete(heir)

  chapter('A job that is given up, and brought back')
  const third = await enqueue({ to: 'nobody@example.com' })
  const hopeless = await claim(third)
  await call('consumer', 'POST', `/jobs/${third}/fail`, 200, {
    token: hopeless.token,
    error: 'no such mailbox',
  })
  const dead = await call('observer', 'GET', `/jobs/${third}`, 200)
  tell('fail', `${third} is ${dead['state']}: "${dead['lastError']}"`)
  await call('operator', 'POST', `/jobs/${third}/redrive`, 200)
  tell('redrive', `${third} is pending again, with the same payload and a fresh budget`)
  await complete(await claim(third))

  const { counts, completed, failed } = await call('observer', 'GET', '', 200)
  chapter('In the end')
  tell('stats', `completed ${completed}, failed ${failed}, ${JSON.stringify(counts)}`)
}
