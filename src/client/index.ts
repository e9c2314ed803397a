/**
 * The package entry `echomq-edge/client`: a job queue over HTTPS, for whatever has `fetch`.
 */
export type { Clock } from './clock.ts'
export { Consumer } from './consumer.ts'
export type { Drained, DrainOptions } from './drain.ts'
export { EchoMQ } from './echomq.ts'
export { EchoMQError, type ErrorCode, type FieldError } from './errors.ts'
export type {
  Enqueued,
  EnqueueItem,
  EnqueueOptions,
  EnqueueResult,
  Instant,
  Job,
  JobRef,
  JobState,
  JobView,
  QueueStats,
} from './jobs.ts'
export type { ConsumeOptions, ConsumerEvents, Handler } from './loop.ts'
export { deadLetter, retryIn } from './outcomes.ts'
export type {
  CallOptions,
  ClaimOptions,
  JobsOptions,
  Queue,
  QueueOptions,
  Redriven,
  RedriveOptions,
} from './queue.ts'
export type { StandardSchema } from './schema.ts'
export type { EchoMQOptions } from './transport.ts'
