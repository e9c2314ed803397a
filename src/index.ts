/**
 * The package entry `echomq-edge`: the queue as a Hono app, for any runtime, and its maintenance.
 *
 * Nothing here is of the Workers runtime: the Worker itself is the entry `echomq-edge/worker`.
 */
export { type AppOptions, createApp } from './app.ts'
export { type Bindings, createDeployments, type Deployment, type DeploymentOptions } from './deployment.ts'
export { type MaintenanceOptions, type MaintenanceReport, maintain } from './maintenance/maintenance.ts'
export type { Page, PageOptions, PayloadFormat, QueueBinding } from './service/binding.ts'
export { createProcessWake } from './wake/in-process.ts'
export type { Wake } from './wake/wake.ts'
