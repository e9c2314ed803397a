/** Faults 19, 21 and 44: what is stored stays as it is through every move, and what failed upstream says nothing of it. */
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { keyspace } from '../../src/protocol/keys.ts'
import { type Api, apiOn, freshQueue } from '../support/api.ts'
import { census } from '../support/census.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

const post = (api: Api, queue: string, path: string, body: object | string = {}) =>
  api.call('POST', `/v1/queues/${queue}/${path}`, body)

describe('19: empty arrays, empty objects, nulls', () => {
  const TEXT = '{"a":[],"o":{},"n":null,"s":[1,null,2],"d":1.0,"big":9007199254740993}'

  test('are the same at each claim: after a retry, a lapse, a release, a redrive', async () => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const { id } = (await post(api, queue, 'jobs', `{"payload":${TEXT}}`)).json
    let token = 0
    const claimed = async (body: object): Promise<void> => {
      token += 1
      const { text, json } = await post(api, queue, 'claim', body)
      expect(json.jobs).toMatchObject([{ id, token }])
      expect(text).toContain(`"payload":${TEXT}}`)
      expect(await raw.run('HGET', keyspace(queue).job(id), 'payload')).toBe(TEXT)
    }
    await claimed({})
    await post(api, queue, `jobs/${id}/retry`, { token, delayMs: 1 })
    await until(async () => (await post(api, queue, 'promote')).json.promoted === 1)
    await claimed({ limit: 1, leaseMs: 10 })
    await until(async () => (await post(api, queue, 'reap')).json.reaped === 1)
    await claimed({ limit: 1 })
    await post(api, queue, `jobs/${id}/release`, { token })
    await claimed({})
    await post(api, queue, `jobs/${id}/fail`, { token })
    await post(api, queue, `jobs/${id}/redrive`)
    await claimed({ limit: 1 })
    const settle = { items: [{ id, token, action: 'release' }], claim: { limit: 1 } }
    const { text } = await post(api, queue, 'settle', settle)
    expect(text).toContain(`"payload":${TEXT}}`)
    expect(await census(raw.port, queue)).toEqual([])
  })
})

describe('21: emoji, halves of pairs, and what else a text can hold', () => {
  test.each([
    '"😀"',
    '"\\ud83e\\udef6"',
    '"\\u0000"',
    '"\\u2028"',
    '"\\uFEFF"',
    '"\u007f"',
    '"\\n\\t\\u001f"',
  ])('%s is exact as a payload, as a text and as an error', async (source) => {
    const api = apiOn(shared)
    const queue = freshQueue()
    const value = JSON.parse(source)
    const asPayload = (await post(api, queue, 'jobs', `{"payload":${source}}`)).json.id
    const asText = (await post(api, queue, 'jobs', `{"text":${source}}`)).json.id
    expect((await post(api, queue, 'claim', { limit: 1 })).json.jobs[0].payload).toBe(value)
    expect((await post(api, queue, 'claim', { limit: 1, as: 'text' })).json.jobs[0].text).toBe(value)
    await post(api, queue, `jobs/${asPayload}/fail`, `{"token":1,"error":${source}}`)
    await post(
      api,
      queue,
      'settle',
      `{"items":[{"id":"${asText}","token":1,"action":"fail","error":${source}}]}`,
    )
    for (const id of [asPayload, asText])
      expect((await api.call('GET', `/v1/queues/${queue}/jobs/${id}`)).json.lastError).toBe(value)
  })

  test('bytes that are not UTF-8 are refused, not repaired', async () => {
    const before = (await shared.bridge.counts()).requests
    const api = apiOn(shared)
    const app = createApp({ env: api.env })
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xc0, 0x80]]) {
      const body = Buffer.concat([Buffer.from('{"text":"'), Buffer.from(bytes), Buffer.from('"}')])
      const answer = await app.request('/v1/queues/q/jobs', {
        method: 'POST',
        headers: { Authorization: 'Bearer test-operator', 'Content-Type': 'application/json' },
        body,
      })
      expect(answer.status, String(bytes)).toBe(400)
    }
    expect((await shared.bridge.counts()).requests).toBe(before)
  })
})
