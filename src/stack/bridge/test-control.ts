/**
 * The test mode over HTTP, for tests in another process: each method of `TestMode` is a POST below `/__test/` with the
 * bridge's token and the arguments as one JSON object. These requests are not counted and meet no fault.
 */

import { type Context, Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { HTTPException } from 'hono/http-exception'
import { z } from 'zod'
import type { TestMode } from './test-mode.ts'

const target = z.strictObject({ times: z.int().positive().optional(), match: z.string().optional() })
const answer = target.extend({
  status: z.int().min(200).max(599),
  body: z.string(),
  contentType: z.string().optional(),
})
const delay = target.extend({ ms: z.int().nonnegative() })
const toggle = z.strictObject({ on: z.boolean() })

/** Makes a handler that parses the arguments, calls the method and returns 204. */
function control<Args>(schema: z.ZodType<Args>, run: (args: Args) => void | Promise<void>) {
  return async ({ req }: Context): Promise<Response> => {
    await run(schema.parse(await req.json()))
    return new Response(null, { status: 204 })
  }
}

export function createTestControl(mode: TestMode, token: string): Hono {
  return new Hono()
    .use(bearerAuth({ token }))
    .onError((error, c) =>
      error instanceof HTTPException ? error.getResponse() : c.json({ error: error.message }, 400),
    )
    .post('/counts', async (c) => c.json(await mode.counts()))
    .post('/reset', async (c) => {
      await mode.reset()
      return c.body(null, 204)
    })
    .post('/drop-reply', control(target, mode.dropReply))
    .post('/hang-up', control(target, mode.hangUp))
    .post(
      '/answer',
      control(answer, ({ times, match, ...rest }) => mode.answer(rest, { times, match })),
    )
    .post(
      '/delay',
      control(delay, ({ ms, ...rest }) => mode.delay(ms, rest)),
    )
    .post(
      '/stale-reads',
      control(toggle, ({ on }) => mode.staleReads(on)),
    )
    .post(
      '/flush-scripts',
      control(toggle, ({ on }) => mode.flushScripts(on)),
    )
    .all('*', (c) => c.json({ error: 'There is no such test control.' }, 404))
}
