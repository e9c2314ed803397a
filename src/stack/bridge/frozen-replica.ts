/**
 * A read replica that lags behind: the data of one moment, in another database of the same Redis. It stands for a
 * region of the service that has not caught up.
 */

import { connectResp, type Resp, RespError, type RespReply } from '../resp.ts'

const DATABASE = '15'

export type FrozenReplica = { readonly resp: Resp; remove(): Promise<void> }

/** Copies all data as it is now. `side`: a connection to the data itself; its selected database does not change. */
export async function freezeReplica(redisUrl: string, side: Resp): Promise<FrozenReplica> {
  await empty(side)
  const keys = await must(side, 'KEYS', '*')
  if (!Array.isArray(keys)) throw new TypeError('KEYS returned no array.')
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

/** In one write, so that no other command of this connection runs in the replica's database. */
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
