/** A user's server with the queue and its maintenance. Run by package.test.ts, where the package is installed. */
import { createApp, createDeployments, maintain, type QueueBinding } from 'echomq-edge'
import { Hono } from 'hono'

const app = new Hono()
app.get('/mine', (context) => context.text('mine'))
app.route('/', createApp({ env: process.env }))

const mine = await app.request('/mine')
const ready = await app.request('/readyz')

const paths = ['/docs', '/docs/swagger-ui-bundle.js', '/docs/LICENSE', '/openapi.json']
const docs = await Promise.all(paths.map(async (path) => (await app.request(path)).status))

const { database, env } = createDeployments()(process.env)
if (database === undefined) throw new Error('there is no Redis')
const { queues } = await maintain(database, { always: env.settings.queues })

const { checks } = await ready.json()
console.log(JSON.stringify({ mine: await mine.text(), redis: checks.redis, queues, docs }))

/** Calls of a service binding, for the compiler only. */
export async function onBinding(emq: QueueBinding): Promise<string> {
  const { id } = await emq.enqueue('emails', { to: 'ada@example.com' }, { delayMs: 10 })
  const [job] = await emq.claim<{ to: string }>('emails', { limit: 10 })
  if (job !== undefined) await emq.retry('emails', job, { error: new Error('busy') })
  const { jobs, cursor } = await emq.jobs<{ to: string }>('emails', { state: 'dead' })
  // @ts-expect-error nothing but the verbs crosses a binding
  emq.consume('emails', () => {})
  return `${id} ${job?.payload.to} ${jobs[0]?.payload?.to} ${cursor}`
}
