/**
 * The test mode over HTTP, for tests that run in another process than the bridge.
 *
 * Each method of `TestMode` is a POST under `/__test/` with the bridge's own token and the method's arguments as one
 * JSON object. These requests are not counted and meet no fault.
 */

import { Hono } from 'hono'
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

export function createTestControl(mode: TestMode, token: string): Hono {
  const done = () => new Response(null, { status: 204 })

  return new Hono()
    .use(bearerAuth({ token }))
    .onError((error, c) =>
      error instanceof HTTPException ? error.getResponse() : c.json({ error: error.message }, 400),
    )
    .post('/counts', async (c) => c.json(await mode.counts()))
    .post('/reset', async () => {
      await mode.reset()
      return done()
    })
    .post('/drop-reply', async ({ req }) => {
      mode.dropReply(target.parse(await req.json()))
      return done()
    })
    .post('/hang-up', async ({ req }) => {
      mode.hangUp(target.parse(await req.json()))
      return done()
    })
    .post('/answer', async ({ req }) => {
      const { status, body, contentType, ...rest } = answer.parse(await req.json())
      mode.answer({ status, body, contentType }, rest)
      return done()
    })
    .post('/delay', async ({ req }) => {
      const { ms, ...rest } = delay.parse(await req.json())
      mode.delay(ms, rest)
      return done()
    })
    .post('/stale-reads', async ({ req }) => {
      await mode.staleReads(toggle.parse(await req.json()).on)
      return done()
    })
    .post('/flush-scripts', async ({ req }) => {
      mode.flushScripts(toggle.parse(await req.json()).on)
      return done()
    })
    .all('*', (c) => c.json({ error: 'There is no such test control.' }, 404))
}
