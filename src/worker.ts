/** The Worker: requests go to the app, the cron to maintenance, other Workers to the service. Wiring only. */
import { createApp } from './app.ts'
import { type Bindings, createDeployments } from './deployment.ts'
import { maintain } from './maintenance/maintenance.ts'
import { durableWakeOf } from './wake/durable-object.ts'

export { QueueService } from './service/service.ts'
export { QueueBell } from './wake/durable-object.ts'

const deploymentOf = createDeployments({ wake: durableWakeOf })
const app = createApp({}, deploymentOf)

export default {
  fetch: app.fetch,

  /** Runs maintenance, and rejects when any of it failed, so that the failure shows where crons are watched. */
  async scheduled(_event: unknown, bindings: Bindings): Promise<void> {
    const { env, database } = deploymentOf(bindings)
    if (database === undefined) throw new Error('there is no Redis: the bindings are missing or unusable')
    const { failures } = await maintain(database, { always: env.settings.queues })
    if (failures.length > 0)
      throw new AggregateError(
        failures.map(({ cause }) => cause),
        `maintenance failed for ${failures.length} queue(s)`,
      )
  },
}
