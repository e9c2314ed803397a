/** Faults 19 and 21: every move keeps the exact payload. */
import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { apiOn } from '../support/api.ts'
import { expectConsistent } from '../support/census.ts'
import { queueOn } from '../support/queue.ts'
import { rawRedis } from '../support/raw-redis.ts'
import { sharedRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const shared = sharedRedis()
const raw = rawRedis(shared)

describe('19: empty arrays, empty objects, nulls', () => {
  const TEXT = '{"a":[],"o":{},"n":null,"s":[1,null,2],"d":1.0,"big":9007199254740993}'

  test('empty arrays, empty objects and nulls are the same at each claim after a retry, a lapse, a release and a redrive', async () => {
    const queue = queueOn(apiOn(shared))
    const { id } = (await queue.post('jobs', `{"payload":${TEXT}}`)).json
    let token = 0
    const claimed = async (body: object): Promise<void> => {
      token += 1
      const { text, json } = await queue.post('claim', body)
      expect(json.jobs).toMatchObject([{ id, token }])
      expect(text).toContain(`"payload":${TEXT}}`)
      expect(await raw.run('HGET', queue.keys.job(id), 'payload')).toBe(TEXT)
    }
    await claimed({})
    await queue.post(`jobs/${id}/retry`, { token, delayMs: 1 })
    await until(async () => (await queue.post('promote')).json.promoted === 1)
    await claimed({ limit: 1, leaseMs: 10 })
    await queue.reapOne()
    await claimed({ limit: 1 })
    await queue.post(`jobs/${id}/release`, { token })
    await claimed({})
    await queue.post(`jobs/${id}/fail`, { token })
    await queue.post(`jobs/${id}/redrive`)
    await claimed({ limit: 1 })
    const settle = { items: [{ id, token, action: 'release' }], claim: { limit: 1 } }
    const { text } = await queue.post('settle', settle)
    expect(text).toContain(`"payload":${TEXT}}`)
    await expectConsistent(raw.port, queue.name)
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
  ])('%s is returned exactly as a payload, as a text and as an error', async (source) => {
    const queue = queueOn(apiOn(shared))
    const value = JSON.parse(source)
    const asPayload = (await queue.post('jobs', `{"payload":${source}}`)).json.id
    const asText = (await queue.post('jobs', `{"text":${source}}`)).json.id
    expect((await queue.post('claim', { limit: 1 })).json.jobs[0].payload).toBe(value)
    expect((await queue.post('claim', { limit: 1, as: 'text' })).json.jobs[0].text).toBe(value)
    await queue.post(`jobs/${asPayload}/fail`, `{"token":1,"error":${source}}`)
    await queue.post('settle', `{"items":[{"id":"${asText}","token":1,"action":"fail","error":${source}}]}`)
    for (const id of [asPayload, asText]) expect((await queue.get(`jobs/${id}`)).json.lastError).toBe(value)
  })

  test('bytes that are not UTF-8 are rejected without a request to Redis', async () => {
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
