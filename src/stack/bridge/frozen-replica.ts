/**
 * A read replica that has stopped following: the state of the data at one moment, kept in another database of the
 * same Redis. What a client may read from a region of the service that lags behind is what it reads here.
 */

import { connectResp, type Resp, RespError, type RespReply } from '../resp.ts'

const DATABASE = '15'

export type FrozenReplica = { readonly resp: Resp; remove(): Promise<void> }

/** Copies everything as it is now. `side`: a connection to the data itself, whose database stays as it is. */
export async function freezeReplica(redisUrl: string, side: Resp): Promise<FrozenReplica> {
  await empty(side)
  const keys = await must(side, 'KEYS', '*')
  if (!Array.isArray(keys)) throw new TypeError('KEYS answered no array.')
  for (const key of keys) {
    if (Buffer.isBuffer(key)) await must(side, 'COPY', key, key, 'DB', DATABASE)
  }

  const url = new URL(redisUrl)
  url.pathname = `/${DATABASE}`
  const resp = await connectResp(url.href)
  return {
    resp,
    async remove() {
      resp.close()
      await empty(side)
    },
  }
}

/** In one write, so that nothing else of this connection ever runs in the other database. */
async function empty(side: Resp): Promise<void> {
  await side.run([
    { name: 'SELECT', args: [DATABASE] },
    { name: 'FLUSHDB', args: [] },
    { name: 'SELECT', args: ['0'] },
  ])
}

async function must(resp: Resp, name: string, ...args: (string | Buffer)[]): Promise<RespReply> {
  const [reply = null] = await resp.run([{ name, args }])
  if (reply instanceof RespError) throw new Error(`${name} failed: ${reply.text}`)
  return reply
}
