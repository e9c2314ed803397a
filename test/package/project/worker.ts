/** A user's Worker: the queue without changes. Built and run by package.test.ts. */
export { default, QueueService } from 'echomq-edge/worker'
