/** This project: its client over HTTP, the Worker, and the REST bridge in front of Redis. */

import { type HostedWorker, payloadOf } from '../lab.ts'
import { countdown, inBatches, type Peer } from './peer.ts'

/** With a batch of 1 each job is enqueued and claimed by itself. */
export function echomq(
  { client }: HostedWorker,
  { batch, consumers, jobs }: { batch: number; consumers: number; jobs: number },
): Peer {
  const queue = client.queue<ReturnType<typeof payloadOf>>(`bench-lives-${batch}-${consumers}`)
  return {
    name: `EchoMQ Edge, ${batch === 1 ? 'one by one' : `batches of ${batch}`}, ${consumers} ${consumers === 1 ? 'consumer' : 'consumers'}`,
    jobs,
    produce: (count) =>
      inBatches(count, batch, consumers, (numbers) =>
        numbers.length === 1
          ? queue.enqueue(payloadOf(numbers[0] ?? 0))
          : queue.enqueueMany(numbers.map((nth) => ({ payload: payloadOf(nth) }))),
      ),
    async prepareConsumers(count) {
      const { done, count: countOne } = countdown(count)
      const running: { stop(): Promise<void> }[] = []
      return {
        async work() {
          for (let nth = 0; nth < consumers; nth += 1) {
            const consumer = queue.consume(() => {}, { concurrency: batch })
            consumer.on('completed', countOne)
            consumer.on('error', ({ error }) => console.error(String(error)))
            running.push(consumer)
          }
          await done
        },
        async stop() {
          await Promise.all(running.map((consumer) => consumer.stop()))
        },
      }
    },
    async close() {},
  }
}
