/** Graphile Worker on a local PostgreSQL, with its local queue and batched completion where jobs come in batches. */

import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { Pool } from 'pg'
import { payloadOf } from '../lab.ts'
import type { Postgres } from '../postgres.ts'
import { countdown, inBatches, type Peer } from './peer.ts'

const logger = new Logger(() => () => {})

export async function graphileWorker(
  { connection }: Postgres,
  { batch, concurrency, jobs }: { batch: number; concurrency: number; jobs: number },
): Promise<Peer> {
  const pgPool = new Pool({ ...connection, max: concurrency + 5 })
  // Without listeners a connection that breaks would end the process.
  pgPool.on('error', (error) => console.error(error))
  pgPool.on('connect', (client) => client.on('error', (error) => console.error(error)))
  const schema = `graphile_${batch}_${concurrency}`
  const utils = await makeWorkerUtils({ pgPool, schema, logger })
  await utils.migrate()
  return {
    name: `Graphile Worker, ${batch === 1 ? 'addJob' : `addJobs of ${batch}`}, concurrency ${concurrency}`,
    jobs,
    produce: (count) =>
      inBatches(count, batch, 1, (numbers) =>
        numbers.length === 1
          ? utils.addJob('mail', payloadOf(numbers[0] ?? 0))
          : utils.addJobs(numbers.map((nth) => ({ identifier: 'mail', payload: payloadOf(nth) }))),
      ),
    async prepareConsumers(count) {
      const { done, count: countOne } = countdown(count)
      let runner: Awaited<ReturnType<typeof run>> | undefined
      return {
        async work() {
          runner = await run({
            pgPool,
            schema,
            logger,
            concurrency,
            noHandleSignals: true,
            taskList: { mail: countOne },
            ...(batch > 1 && {
              preset: { worker: { localQueue: { size: batch * 5 }, completeJobBatchDelay: 0 } },
            }),
          })
          await done
        },
        async stop() {
          await runner?.stop()
        },
      }
    },
    async close() {
      await utils.release()
      await pgPool.end()
    },
  }
}
