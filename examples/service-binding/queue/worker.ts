/** The queue's Worker: the HTTP API, the cron, and the service for other Workers. */
export { default, QueueBell, QueueService } from 'echomq-edge/worker'
