/**
 * The package entry `echomq-edge/client`: a job queue over HTTPS, for every platform that has `fetch`.
 */
export type { Clock } from './clock.ts'
export { Consumer } from './consumer.ts'
export type { Drained, DrainOptions } from './drain.ts'
export { EchoMQ } from './echomq.ts'
export { EchoMQError, type ErrorCode, type FieldError } from './errors.ts'
export type {
  Audited,
  Enqueued,
  EnqueueItem,
  EnqueueOptions,
  EnqueueResult,
  Instant,
  Job,
  JobRef,
  JobState,
  JobView,
  Purged,
  QueueStats,
  Redriven,
} from './jobs.ts'
export type { ConsumeOptions, ConsumerEvents, Handler } from './loop.ts'
export { deadLetter, retryIn } from './outcomes.ts'
export type {
  AuditOptions,
  CallOptions,
  ClaimOptions,
  JobsOptions,
  MoveOptions,
  PurgeOptions,
  Queue,
  QueueOptions,
  RedriveOptions,
} from './queue.ts'
export type { StandardSchema } from './schema.ts'
export type { EchoMQOptions } from './transport.ts'
