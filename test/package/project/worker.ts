/** Somebody's own Worker: the queue as it comes. Built and run by package.test.ts. */
export { default, QueueService } from 'echomq-edge/worker'
