/** BullMQ over TCP to the same Redis. It keeps no completed jobs, as we do not. */

import { Queue, Worker } from 'bullmq'
import { payloadOf } from '../lab.ts'
import { countdown, inBatches, type Peer } from './peer.ts'

export function bullmq(
  redisPort: number,
  {
    batch,
    concurrency,
    workers,
    jobs,
  }: { batch: number; concurrency: number; workers: number; jobs: number },
): Peer {
  const name = `bench-${batch}-${concurrency}-${workers}`
  const connection = { host: '127.0.0.1', port: redisPort }
  const queue = new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } })
  return {
    name: `BullMQ, ${batch === 1 ? 'add' : `addBulk of ${batch}`}, ${workers === 1 ? '' : `${workers} workers, `}concurrency ${concurrency}`,
    jobs,
    produce: (count) =>
      inBatches(count, batch, workers, (numbers) =>
        numbers.length === 1
          ? queue.add('mail', payloadOf(numbers[0] ?? 0))
          : queue.addBulk(numbers.map((nth) => ({ name: 'mail', data: payloadOf(nth) }))),
      ),
    async prepareConsumers(count) {
      const { done, count: countOne } = countdown(count)
      const running = Array.from(
        { length: workers },
        () => new Worker(name, async () => {}, { connection, concurrency, autorun: false }),
      )
      for (const worker of running) worker.on('completed', countOne)
      await Promise.all(running.map((worker) => worker.waitUntilReady()))
      return {
        async work() {
          // Each resolves when its worker is closed.
          for (const worker of running) void worker.run()
          await done
        },
        async stop() {
          await Promise.all(running.map((worker) => worker.close()))
        },
      }
    },
    async close() {
      await queue.obliterate({ force: true })
      await queue.close()
    },
  }
}
