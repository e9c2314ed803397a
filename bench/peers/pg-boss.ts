/**
 * pg-boss on a local PostgreSQL. It fetches and completes by itself: its own loop waits at least half a second between
 * two polls.
 */

import { PgBoss } from 'pg-boss'
import { payloadOf } from '../lab.ts'
import type { Postgres } from '../postgres.ts'
import { inBatches, type Peer } from './peer.ts'

export async function pgBoss(
  { connection }: Postgres,
  { batch, consumers, jobs }: { batch: number; consumers: number; jobs: number },
): Promise<Peer> {
  const boss = new PgBoss({
    ...connection,
    schema: `boss_${batch}_${consumers}`,
    supervise: false,
    schedule: false,
  })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  const name = 'mail'
  await boss.createQueue(name)
  return {
    name: `pg-boss, ${batch === 1 ? 'one by one' : `batches of ${batch}`}, ${consumers} ${consumers === 1 ? 'consumer' : 'consumers'}`,
    jobs,
    produce: (count) =>
      inBatches(count, batch, consumers, (numbers) =>
        numbers.length === 1
          ? boss.send(name, payloadOf(numbers[0] ?? 0))
          : boss.insert(
              name,
              numbers.map((nth) => ({ data: payloadOf(nth) })),
            ),
      ),
    async prepareConsumers(count) {
      return {
        async work() {
          let left = count
          const consumer = async (): Promise<void> => {
            while (left > 0) {
              const fetched = await boss.fetch(name, { batchSize: batch })
              if (fetched.length === 0) continue
              await boss.complete(
                name,
                fetched.map(({ id }) => id),
              )
              left -= fetched.length
            }
          }
          await Promise.all(Array.from({ length: consumers }, consumer))
        },
        async stop() {
          await boss.deleteAllJobs(name)
        },
      }
    },
    close: () => boss.stop({ graceful: false }),
  }
}
