/** The queue as a Worker of one's own: the HTTP API, the cron, and the service for other Workers. */
export { default, QueueService } from 'echomq-edge/worker'
