/**
 * `npm run demo`: the life of three jobs, played through the HTTP API of its own stack. One fails once, one loses its
 * consumer, one is given up and redriven. Every response is checked, so the demo is also a test.
 */

import { DEV_TOKENS, type DevTokens } from '../stack/dev-tokens.ts'
import { stopWhenAsked } from '../stack/shutdown.ts'
import { type Stack, startStack } from '../stack/stack.ts'

type Body = Readonly<Record<string, unknown>>
type Claimed = { readonly id: string; readonly token: number; readonly payload: unknown }

/** How long a claim waits for a job that becomes due or whose lease lapses. */
const WAIT_MS = 10_000

export async function runDemo(): Promise<void> {
  let stop = async (): Promise<void> => {}
  stopWhenAsked(() => stop())

  process.stdout.write('Starting Redis, the bridge and the Worker ...\n')
  const stack = await startStack({ port: 0, restPort: 0, quiet: true, cron: false })
  stop = stack.stop
  try {
    await playStory(stack, (line) => process.stdout.write(`${line}\n`))
  } finally {
    await stack.stop()
  }
}

/** Plays the story and throws an error when any response is not the expected one. */
export async function playStory(stack: Pick<Stack, 'url'>, say: (line: string) => void): Promise<void> {
  function tell(verb: string, text: string): void {
    say(`  ${verb.padEnd(9)}${text}`)
  }

  /** Calls the API with a development token and checks the status. */
  type Call = [as: keyof DevTokens, method: string, path: string, expected: number, body?: Body]
  async function call(...[as, method, path, expected, body]: Call): Promise<Body> {
    const response = await fetch(`${stack.url}/v1/queues/emails${path}`, {
      method,
      headers: { authorization: `Bearer ${DEV_TOKENS[as]}`, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
    })
    const text = await response.text()
    if (response.status !== expected)
      throw new Error(`${method} ${path} returned ${response.status} instead of ${expected}: ${text}`)
    return JSON.parse(text)
  }

  async function enqueue(payload: Body): Promise<string> {
    const { id } = await call('producer', 'POST', '/jobs', 201, { payload })
    tell('enqueue', `${id} ${JSON.stringify(payload)}`)
    return String(id)
  }

  /** Claims the job that must come next; waits for it if it is not pending yet. */
  async function claim(id: string, leaseMs = 30_000): Promise<Claimed> {
    const { jobs } = await call('consumer', 'POST', '/claim', 200, { limit: 1, leaseMs, waitMs: WAIT_MS })
    const [job] = jobs as Claimed[]
    if (job?.id !== id) throw new Error(`The claim returned ${job?.id ?? 'no job'} instead of ${id}.`)
    tell('claim', `${id} with token ${job.token}, for ${leaseMs} ms`)
    return job
  }

  async function complete({ id, token }: Claimed): Promise<void> {
    await call('consumer', 'POST', `/jobs/${id}/complete`, 200, { token })
    tell('complete', `${id} with token ${token}: the job is deleted`)
  }

  say('\nA job whose first attempt fails')
  const first = await enqueue({ to: 'ada@example.com' })
  const { token } = await claim(first)
  const failure = { token, error: 'mail server is busy', delayMs: 300 }
  await call('consumer', 'POST', `/jobs/${first}/retry`, 200, failure)
  tell('retry', `${first}: "mail server is busy", due again in 300 ms`)
  await complete(await claim(first))

  say('\nA job whose consumer crashes')
  const second = await enqueue({ to: 'grace@example.com' })
  const crashed = await claim(second, 300)
  tell('crash', 'the consumer stops without a word, and its lease lapses')
  const heir = await claim(second)
  tell('reap', `the next consumer gets the job, with a higher token than ${crashed.token}`)
  const late = await call('consumer', 'POST', `/jobs/${second}/complete`, 409, { token: crashed.token })
  tell(
    'late',
    `the first consumer reports with token ${crashed.token} and is rejected: ${late['code']}, ${late['reason']}`,
  )
  await complete(heir)

  say('\nA job that becomes a dead letter and is redriven')
  const third = await enqueue({ to: 'nobody@example.com' })
  const last = await claim(third)
  await call('consumer', 'POST', `/jobs/${third}/fail`, 200, { token: last.token, error: 'no such mailbox' })
  const dead = await call('observer', 'GET', `/jobs/${third}`, 200)
  tell('fail', `${third} is ${dead['state']}: "${dead['lastError']}"`)
  await call('operator', 'POST', `/jobs/${third}/redrive`, 200)
  tell('redrive', `${third} is pending again, with the same payload and a fresh budget`)
  await complete(await claim(third))

  const { counts, completed, failed } = await call('observer', 'GET', '', 200)
  say('\nIn the end')
  tell('stats', `completed ${completed}, failed ${failed}, ${JSON.stringify(counts)}`)
}
