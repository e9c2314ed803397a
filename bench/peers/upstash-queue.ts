/** `@upstash/queue` over the same REST bridge. It has no batches. */

import { Queue, type QueueConfig } from '@upstash/queue'
import { Redis } from '@upstash/redis'
import { type Database, payloadOf } from '../lab.ts'
import { inBatches, type Peer } from './peer.ts'

export function upstashQueue(
  { restUrl, restToken }: Database,
  { consumers, jobs }: { consumers: number; jobs: number },
): Peer {
  const redis = new Redis({ url: restUrl, token: restToken, enableTelemetry: false })
  // It was built with an older version, whose class is another type.
  const olderType = redis as unknown as QueueConfig['redis']
  const queueName = `bench-${consumers}`
  const queues = Array.from({ length: consumers }, () => new Queue({ redis: olderType, queueName }))
  const next = (nth: number): Queue => {
    const queue = queues[nth % consumers]
    if (queue === undefined) throw new RangeError('There is no queue.')
    return queue
  }
  return {
    name: `@upstash/queue, one by one, ${consumers} ${consumers === 1 ? 'consumer' : 'consumers'}`,
    jobs,
    produce: (count) => inBatches(count, 1, consumers, ([nth = 0]) => next(nth).sendMessage(payloadOf(nth))),
    async prepareConsumers(count) {
      return {
        async work() {
          let left = count
          await Promise.all(
            queues.map(async (queue) => {
              while (left > 0) {
                left -= 1
                if ((await queue.receiveMessage()) === null) throw new Error('@upstash/queue lost a message.')
              }
            }),
          )
        },
        async stop() {},
      }
    },
    async close() {
      await redis.del(`UpstashMQ:${queueName}`)
    },
  }
}
